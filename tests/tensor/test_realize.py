"""Computing tensors, values on the host, and how long memory is held."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from rulegrad import Tensor, engine, profile
from rulegrad.errors import DeviceError, DtypeError, ShapeError
from rulegrad.runtime import devices
from rulegrad.runtime.buffer import Buffer


def test_values_on_the_host(device):
    x = Tensor([[1.5, 2.0], [3.0, 4.0]])
    assert x.tolist() == [[1.5, 2.0], [3.0, 4.0]]
    assert x[0, 0].item() == 1.5
    assert x[:1, :1].item() == 1.5
    assert float(x[0, 0]) == 1.5
    assert int(x[1, 1]) == 4
    assert bool(x[0, 0] > 1)
    assert np.asarray(x + 1).tolist() == [[2.5, 3.0], [4.0, 5.0]]
    assert Tensor([1, 0], dtype="bfloat16").tolist() == [1.0, 0.0]
    assert Tensor(True).item() is True
    assert Tensor(3).tolist() == 3


VIEWS = {
    "reshape": (lambda x: x.reshape(6, 4), lambda a: a.reshape(6, 4)),
    "part": (lambda x: x[1:3, ::-2], lambda a: a[1:3, ::-2]),
    "element": (lambda x: x[2, 3], lambda a: a[2, 3]),
    "transposed": (lambda x: x.T, lambda a: a.T),
    "flipped": (lambda x: x.flip(0), lambda a: a[::-1]),
    "expanded": (lambda x: x[0].expand(3, 6), lambda a: np.broadcast_to(a[0], (3, 6))),
    "windows": (lambda x: x.unfold(1, 3, 2), lambda a: np.lib.stride_tricks.sliding_window_view(a, 3, 1)[:, ::2]),
    "diagonal": (lambda x: x.diagonal(), lambda a: a.diagonal()),
    "padded": (lambda x: x.pad(((1, 0), (0, 2))), lambda a: np.pad(a, ((1, 0), (0, 2)))),
    "repeated": (lambda x: x.repeat(2, 1), lambda a: np.tile(a, (2, 1))),
    "empty": (lambda x: x[4:], lambda a: a[4:]),
    "detached": (lambda x: x.detach()[0], lambda a: a[0]),
    "bits": (lambda x: x[1:].view("int32"), lambda a: a[1:].view(np.int32)),
    "ones": (lambda x: x.ones(3), lambda a: np.ones(3, np.float32)),
    "full": (lambda x: x.full((2, 2), 7), lambda a: np.full((2, 2), 7)),
    "number": (lambda x: Tensor(2.5), lambda a: np.float32(2.5)),
    "half": (lambda x: x.full((2,), 0.1, "float16"), lambda a: np.full(2, 0.1, np.float16)),
    "flat": (lambda x: x.flatten(), lambda a: a.ravel()),
    "new axis": (lambda x: x[:, None], lambda a: a[:, None]),
    "removed axis": (lambda x: x[:, :1].squeeze(1), lambda a: a[:, 0]),
    "moved axis": (lambda x: x.reshape(2, 2, 6).movedim(0, 2), lambda a: np.moveaxis(a.reshape(2, 2, 6), 0, 2)),
    "piece": (lambda x: x.chunk(3, 1)[1], lambda a: a[:, 2:4]),
    "piece of a view": (lambda x: x.T.narrow(0, 1, 3)[:, ::2], lambda a: a.T[1:4, ::2]),
    "selected": (lambda x: x.select(1, 4), lambda a: a[:, 4]),
    "turned": (lambda x: x.rot90(), lambda a: np.rot90(a)),
    "like another": (lambda x: x.zeros_like(), lambda a: np.zeros_like(a)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_and_constants_are_read_without_a_kernel(name):
    make, expected = VIEWS[name]
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    for device in ("c", "numpy"):
        x = Tensor(array, device=device, requires_grad=name == "detached")
        view = make(x)
        with profile() as found:
            values = view.numpy()
            assert np.array_equal(view.tolist(), expected(array).tolist())
        assert not found.kernels
        assert values.dtype == expected(array).dtype and values.shape == expected(array).shape
        assert np.array_equal(values, expected(array))
        # nobody else holds the memory, neither before an update nor after it
        assert values.flags.writeable and values.flags.c_contiguous
        x.detach().zero_()
        x.realize()
        assert np.array_equal(values, expected(array))


def test_views_that_are_read_show_updates_and_errors():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], device="c")
    row, real = x[1], Tensor([1 + 2j], device="c").imag
    assert (row.tolist(), real.tolist()) == ([3.0, 4.0], [2.0])
    x += 1
    assert row.tolist() == [4.0, 5.0]
    row *= 2
    assert (x[1, 0].item(), x.T[0].tolist()) == (8.0, [2.0, 8.0])
    wrong = x.gather(0, Tensor([[0, 5]], device="c")).realize()
    with pytest.raises(IndexError, match="5 is out of range"):
        wrong[0, 0].item()


def test_one_element_of_much_memory_elsewhere_is_computed_there(monkeypatch):
    x = Tensor(np.arange(1 << 15, dtype=np.float32), device="numpy")
    monkeypatch.setattr(type(devices.get("numpy")), "in_host_memory", False)
    for part, kernels in ((x[5], 1), (x.flip(0), 0)):
        with profile() as found:
            values = part.numpy()
        assert (len(found.kernels), values.flat[0]) == (kernels, part.numpy().flat[0])


def test_realize_points_at_buffers(device):
    a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    total, difference = a + b, a - b
    assert Tensor.realize(total, difference) is total
    for result in (total, difference):
        assert result.uop.op == "BUFFER"
        assert result.device.startswith(device)
    before = total.uop
    assert total.realize().uop == before
    assert total.tolist() == [4.0, 6.0]
    assert (total * difference).tolist() == [-8.0, -12.0]


def test_repr_shows_values_dtype_and_device(device):
    name = Tensor([1.0]).device
    assert repr(Tensor([[1, 2], [3, 4]])) == (f"Tensor([[1, 2],\n        [3, 4]], dtype=int64, device={name})")
    assert repr(Tensor(2.5) + 1) == f"Tensor(3.5, dtype=float32, device={name})"
    assert repr(Tensor([1.0], requires_grad=True)).endswith("requires_grad=True)")


def test_memory_is_given_back(any_device):
    source = Tensor([1.0, 2.0])
    held = weakref.ref(Buffer.of(source.uop))
    doubled = source * 2
    del source
    gc.collect()
    assert held() is not None, "a graph that was not computed needs its buffers"
    assert doubled.tolist() == [2.0, 4.0]
    gc.collect()
    assert held() is None


def test_a_training_loop_holds_no_old_buffers(any_device):
    weight = Tensor([1.0, 2.0], requires_grad=True)
    seen = []
    for _ in range(3):
        loss = (weight * weight).sum()
        loss.backward()
        seen.append(weakref.ref(Buffer.of(weight.uop)))
        weight.assign(weight.detach() - weight.grad * 0.1)
        Tensor.realize(weight, loss)
        weight.grad = None
    del loss
    gc.collect()
    assert [reference() is None for reference in seen] == [True, True, True]


def test_tensors_of_nodes_made_by_hand(any_device):
    x = Tensor([1.0, 2.0])
    node = (x + 1).uop
    held = Tensor(node)
    del x
    gc.collect()
    assert held.tolist() == [2.0, 3.0]
    assert held.device == "numpy"


def test_devices(device):
    x = Tensor([1.0, 2.0], device="numpy")
    assert x.device == "numpy"
    assert (x * 2).device == "numpy"
    there = x.to(device)
    assert there.device == Tensor([0.0]).device
    assert there.tolist() == [1.0, 2.0]
    assert there.to(device) is there
    ones = Tensor.ones(2, device="numpy").realize()
    assert ones.device == "numpy"
    assert Buffer.of(ones.uop).device == "numpy"
    with pytest.raises(DeviceError, match="nowhere"):
        x.to("nowhere")


def test_assign(any_device):
    x = Tensor([1.0, 2.0])
    assert x.assign(x + 1) is x
    assert x.tolist() == [2.0, 3.0]
    with pytest.raises(ShapeError, match=r"\(2,\) and \(3,\)"):
        x.assign(Tensor.ones(3))
    with pytest.raises(DtypeError, match="float64 tensor into a float32"):
        x.assign(Tensor.ones(2, dtype="float64"))


def test_errors(any_device):
    pair = Tensor([1, 2])
    with pytest.raises(ShapeError, match=r"item: the shape \(2,\) has 2 elements"):
        pair.item()
    with pytest.raises(ShapeError, match=r"use .any\(\) or .all\(\)"):
        bool(pair)
    with pytest.raises(TypeError, match="not an integer"):
        [1, 2][Tensor(1.0)]


def test_a_plan_is_found_again_without_a_pass(monkeypatch):
    a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    graphs = [lambda: a * 2 + b, lambda: a + b * 2]
    answers = [graph().tolist() for graph in graphs]
    monkeypatch.setattr(engine, "run", None)
    assert [graph().tolist() for graph in graphs] == answers == [[5.0, 8.0], [7.0, 10.0]]
    a, b = Tensor([10.0, 20.0]), Tensor([0.5, 0.0])
    assert [graph().tolist() for graph in graphs] == [[20.5, 40.0], [11.0, 20.0]]
    b = a
    with pytest.raises(TypeError):
        graphs[0]().tolist()  # the two are one buffer now
