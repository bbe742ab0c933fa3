"""Parts of modules, by classes that a program derives: mixins, and their own ways to set and find parts."""

from __future__ import annotations

import copy
import pickle

import pytest

import rulegrad.nn as nn
from rulegrad import Tensor, config


def test_other_bases_of_a_module_are_initialized_by_its_class():
    class Mixin:
        def __init__(self, value):
            self.value = value

    class Both(nn.Module, Mixin):
        def __init__(self):
            super().__init__()
            Mixin.__init__(self, 3)

    class Cooperative(nn.Module, Mixin):
        call_super_init = True

    assert Both().value == 3 and Cooperative(4).value == 4
    with pytest.raises(TypeError, match="nobody takes: 5, size"):
        nn.Module(5, size=3)


def test_a_class_may_register_parts_in_its_own_setattr():
    class Noting(nn.Module):
        def __setattr__(self, name, value):
            if isinstance(value, nn.Module):
                self.add_module(f"{name}_part", value)
            elif isinstance(value, nn.Parameter):
                self.register_parameter(f"{name}_own", value)
            elif isinstance(value, Tensor):
                self.register_buffer(f"{name}_kept", value)
            else:
                super().__setattr__(name, value)

    model = Noting()
    model.layer, model.weight, model.mask = nn.Linear(1, 1, bias=False), nn.Parameter(Tensor([1.0])), Tensor([2.0])
    assert sorted(model.state_dict()) == ["layer_part.weight", "mask_kept", "weight_own"]


def test_attributes_of_a_programs_own():
    weight = nn.Parameter(Tensor([1.0]))
    weight.decays, weight.note = False, ["a"]
    layer = nn.Module()
    layer.weight = weight
    copies = copy.deepcopy(layer).weight, pickle.loads(pickle.dumps(weight)), copy.copy(weight)
    assert [one.decays for one in copies] == [False] * 3 and copies[0].note is not weight.note
    assert not hasattr(weight + 1, "decays")


def test_a_class_may_answer_for_its_parts():
    asked = []

    class Asking(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.layer, self.plain = nn.Parameter(Tensor([1.0])), nn.Linear(1, 1), 3

        def __getattr__(self, name):
            asked.append(name)
            return 5 if name == "five" else super().__getattr__(name)

    model = Asking()
    assert (
        model.weight.item() == 1 and model.plain == 3 and model.five == 5 and model.layer(Tensor([1.0])).shape == (1,)
    )
    assert asked == ["weight", "five", "layer"] and len(model.state_dict()) == 3
    with pytest.raises(AttributeError, match="'Asking' object has no attribute 'six'"):
        _ = model.six
    with pytest.raises(AttributeError, match="'Module' object has no attribute 'six'"):
        _ = nn.Module().six


def test_what_is_not_a_part_of_a_module():
    class Helper:
        def __init__(self):
            self.weight, self.layer = nn.Parameter(Tensor([1.0])), nn.Linear(1, 1)

    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
            self.names = {"first": self.inner[0], "other": nn.Linear(2, 1), "helper": Helper()}
            self.helper, self.again = Helper(), [self.inner[1]]
            object.__setattr__(self, "parent", nn.Linear(3, 1))
            self.inner[0].above = [self]  # no way round in circles

    with config(device="numpy"):
        model = Holder()
        expected = ["inner.0.weight", "inner.0.bias", "names.other.weight", "names.other.bias"]
        assert list(model.state_dict()) == expected == [name for name, _ in model.named_parameters()]
        assert [name for name, _ in model.named_modules()] == ["", "inner", "inner.0", "inner.1", "names.other"]
        assert list(copy.deepcopy(model).state_dict()) == expected and model.parent.weight.shape == (1, 3)
