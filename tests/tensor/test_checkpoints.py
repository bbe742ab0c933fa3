"""Checkpoints: what `save` writes `load` gives back, and files of other makers are read."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest

import rulegrad
from rulegrad import Tensor, nn, optim
from rulegrad.errors import DtypeError, FileError


def test_plain_values_and_containers(any_device, tmp_path):
    state = {
        "epoch": 3,
        "rate": 1e-3,
        "best": math.inf,
        "done": False,
        "note": None,
        "name": "résumé",
        "phase": 1 + 2j,
        "history": [0.5, (1, [2]), {}],
        7: {True: "yes"},
    }
    rulegrad.save(state, tmp_path / "plain")
    found = rulegrad.load(tmp_path / "plain")
    assert found == state and type(found["history"][1]) is tuple and type(found["done"]) is bool


def test_tensors_keep_what_they_are(any_device, tmp_path):
    shared = Tensor([1.0, 2.0], requires_grad=True)
    state = {
        "a": shared,
        "b": [shared, Tensor(3, dtype="int8"), Tensor([[True]])],
        "half": Tensor([0.5], dtype="bfloat16"),
        "none": Tensor.zeros(0, 2),
        "array": np.arange(3, dtype=np.int16),
        "number": np.float32(2.5),
        "b.1": Tensor([9]),
    }
    rulegrad.save(state, tmp_path / "tensors")
    found = rulegrad.load(tmp_path / "tensors")
    assert found["a"].requires_grad and found["a"].tolist() == [1.0, 2.0] and found["a"] is found["b"][0]
    assert (found["b"][1].dtype, found["b"][1].item(), found["b"][2].tolist()) == ("int8", 3, [[True]])
    assert found["half"].dtype == "bfloat16" and found["none"].shape == (0, 2) and found["b.1"].tolist() == [9]
    assert type(found["array"]) is np.ndarray and found["array"].dtype == np.int16 and found["number"] == 2.5
    found["array"][0] = 5


def test_a_training_goes_on_where_it_was(any_device, tmp_path):
    def trained(model, optimizer, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            (model(Tensor([[1.0, 2.0]])) - 1).square().sum().backward()
            optimizer.step()
        return model.weight.tolist()

    def fresh():
        Tensor.manual_seed(1)
        model = nn.Linear(2, 1)
        return model, optim.Adam(model.parameters(), lr=0.1)

    model, optimizer = fresh()
    trained(model, optimizer, 1)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 1}
    rulegrad.save(state, tmp_path / "last")
    expected = trained(model, optimizer, 1)
    again, second = fresh()
    found = rulegrad.load(tmp_path / "last")
    again.load_state_dict(found["model"])
    second.load_state_dict(found["optimizer"])
    assert found["epoch"] == 1 and trained(again, second, 1) == expected


def test_other_files(any_device, tmp_path):
    nn.state.safe_save({"w": Tensor([1.0])}, tmp_path / "plain.safetensors")
    assert rulegrad.load(tmp_path / "plain.safetensors")["w"].tolist() == [1.0]
    with pytest.raises(FileError, match="there is no such file"):
        rulegrad.load(tmp_path / "missing")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(FileError, match="is not a safetensors file, or is damaged"):
        rulegrad.load(tmp_path / "text")
    for tree in ("[", json.dumps(["tensor", "gone", False]), json.dumps(["thing"])):
        nn.state.safe_save({}, tmp_path / "damaged", {"rulegrad.tree": tree})
        with pytest.raises(FileError, match="its description of the checkpoint is damaged"):
            rulegrad.load(tmp_path / "damaged")


def test_what_cannot_be_saved(any_device, tmp_path):
    with pytest.raises(DtypeError, match=r"save: a Linear at model.0 is neither .*; give its state_dict\(\)"):
        rulegrad.save({"model": [nn.Linear(1, 1)]}, tmp_path / "x")
    with pytest.raises(DtypeError, match="save: a set at the top"):
        rulegrad.save({1, 2}, tmp_path / "x")
    with pytest.raises(DtypeError, match="save: a key of a dict at a is a tuple"):
        rulegrad.save({"a": {(1, 2): 3}}, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_open_files():
    kept = io.BytesIO()
    rulegrad.save({"weight": Tensor([1.0, 2.0]), "epoch": 3}, kept)
    kept.seek(0)
    found = rulegrad.load(kept, map_location=lambda storage, place: storage, weights_only=False)
    assert found["epoch"] == 3 and found["weight"].tolist() == [1, 2]
    with pytest.raises(FileError):
        rulegrad.load(io.BytesIO(b"nothing of the kind"))
