"""State of captured functions: tensors that they read and write without being given them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from capture_contract import Run, array, check

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.compile import forget_kernels
from rulegrad.errors import CaptureError
from rulegrad.tensor.capturing import Unchanging


def test_a_cache_updated_in_place() -> None:
    def program(run: Run) -> None:
        cache, rows = Tensor(np.zeros((4, 3), "float32")).realize(), Tensor(np.arange(4)).realize()

        def write(x: Tensor, place: Tensor) -> Tensor:
            cache.assign((rows == place).reshape(4, 1).where(x, cache))
            return cache.sum(0)

        f = run.jit(write)
        for seed, k in enumerate((0, 2, 1, 3, 2)):
            run.see(f(Tensor(array(1, 3, seed=seed)), Tensor([k])))
        old = cache + 0  # who holds old values keeps them
        run.see(f(Tensor(array(1, 3)), Tensor([0])), old, cache)

    check(program, traces=1)


def test_updates_through_views_and_by_index() -> None:
    def program(run: Run) -> None:
        cache = Tensor(np.zeros((4, 3), "float32")).realize()
        row, flat = cache[1], cache.reshape(-1)
        flat.sum().item()

        def write(x: Tensor) -> Tensor:
            cache[2] = x
            row.add_(x)
            flat[0] = 5.0
            return cache.T @ cache + row

        f = run.jit(write)
        for seed in range(4):
            run.see(f(Tensor(array(3, seed=seed))), row, flat.clone(), cache.clone())
            cache[3] += 1.0
        run.see(cache, row, flat)

    check(program, traces=1)


def test_a_view_with_values_of_its_own() -> None:
    def program(run: Run) -> None:
        base = Tensor(array(4, 3)).realize()
        part = base[1:3].realize()

        def body(x: Tensor) -> Tensor:
            base.assign(base + x)
            return part * 2

        f = run.jit(body)
        for _ in range(3):
            run.see(f(Tensor([1.0, 2.0, 3.0])), part.clone())

    check(program, traces=1)


def test_views_alone_and_lazy_state() -> None:
    def program(run: Run) -> None:
        alone, lazy = Tensor(array(4, 3)).reshape(3, 4), Tensor(array(3, 4)) * 2
        f = run.jit(lambda x: x * alone + lazy)
        for seed in range(3):
            run.see(f(Tensor(array(3, 4, seed=seed))))
        run.see(alone, lazy)

    check(program, traces=1)


def test_several_updates_in_one_call() -> None:
    def program(run: Run) -> None:
        a, b = Tensor([1.0, 2.0]).realize(), Tensor([3.0, 4.0]).realize()

        def body() -> Tensor:
            before = a + b
            a.add_(b)
            b.assign(a)
            a.mul_(2)
            return before + a

        f = run.jit(body)
        for _ in range(4):
            run.see(f(), a.clone(), b.clone())
        b += 1
        run.see(f(), a, b)

    check(program, traces=1)


def test_exchanged_state() -> None:
    def program(run: Run) -> None:
        a, b = Tensor([1.0]).realize(), Tensor([2.0]).realize()

        def exchange() -> None:
            old = a.clone()
            a.assign(b)
            b.assign(old)

        f = run.jit(exchange)
        for _ in range(3):
            f()
            run.see(a.clone(), b.clone())
        a += 10
        run.see(a, b)

    check(program, traces=1)


def test_an_argument_that_is_changed() -> None:
    def program(run: Run) -> None:
        def body(x: Tensor, y: Tensor) -> Tensor:
            x.add_(y)
            return x * 2

        f = run.jit(body)
        for seed in range(3):
            x, y = Tensor(array(3, seed=seed)), Tensor(array(3, seed=9))
            held = x + 0
            run.see(f(x, y), x, y, held)
            run.see(f(x, x.clone()), x)

    check(program, traces=1)


def test_eager_changes_between_calls() -> None:
    def program(run: Run) -> None:
        w = Tensor([1.0, 2.0])

        def body(x: Tensor) -> Tensor:
            w.mul_(2)
            return x + w

        f = run.jit(body)
        x = Tensor([10.0, 20.0])
        run.see(f(x))
        w += 1
        run.see(f(x))
        w.assign([0.0, 1.0])
        run.see(f(x))
        w[1] = 5.0
        lazy = w * 3
        run.see(f(x), lazy, w)

    check(program, traces=1)


def test_what_is_replaced() -> None:
    """Tensors that the function finds in a dict, an attribute, a list, a global or a cell are another object."""

    class Box:
        w = None

    def program(run: Run) -> None:
        box, items, thing = {"w": Tensor([1.0])}, [Tensor([1.0])], Box()
        thing.w = Tensor([1.0])
        cell = Tensor([1.0])
        globals()["_shared"] = Tensor([1.0])

        def body(x: Tensor) -> Tensor:
            return x + box["w"] + items[0] * 10 + thing.w * 100 + cell * 1000 + _shared * 10_000  # noqa: F821

        f, x = run.jit(body), Tensor([0.0])
        run.see(f(x), f(x))
        box["w"] = Tensor([2.0])
        run.see(f(x), f(x))
        items[0] = Tensor([3.0])
        run.see(f(x))
        thing.w = Tensor([4.0])
        run.see(f(x))
        cell = Tensor([5.0])
        run.see(f(x))
        globals()["_shared"] = Tensor([6.0])
        run.see(f(x))

    reasons = check(program, traces=6).reasons()
    assert [
        name in reason for name, reason in zip(["box['w']", "items[0]", "thing.w", "cell", "_shared"], reasons[1:])
    ] == [True] * 5


def test_an_object_on_the_way_is_replaced() -> None:
    def program(run: Run) -> None:
        Tensor.manual_seed(1)
        net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        f, x = run.jit(lambda x: net(x)), Tensor(array(3, 2))
        run.see(f(x).detach(), f(x).detach())
        net[0] = nn.Linear(2, 2)
        run.see(f(x).detach(), f(x).detach())
        net.append(net[0])  # not read before: another graph
        run.see(f(x).detach())
        net[2] = nn.Linear(2, 2)
        run.see(f(x).detach(), f(x).detach())

    check(program, traces=4)


def test_numbers_that_the_function_names() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.other = 2.0, 0

        def forward(self, x: Tensor) -> Tensor:
            return x * self.scale

    def program(run: Run) -> None:
        model, offset = Model(), 1.0
        f, x = run.jit(lambda x: model(x) + offset), Tensor([1.0, 2.0])
        run.see(f(x), f(x))
        model.scale = 3.0
        model.other = 1  # which forward does not name
        run.see(f(x))
        offset = float("nan")
        run.see(f(x), f(x))

    reasons = check(program, traces=3).reasons()
    assert "scale is 3.0 now, and was 2.0" in reasons[1] and "offset is nan now, and was 1.0" in reasons[2]


def test_training_modes_are_kept_beside_each_other() -> None:
    def program(run: Run) -> None:
        net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.BatchNorm1d(3))
        f, x = run.jit(lambda x: net(x).detach()), Tensor(array(6, 3))
        for mode in (True, False, True, False):
            net.train(mode)
            run.see(f(x), [v.clone() for v in net.state_dict().values()])
        with Tensor.train(False):
            run.see(f(x))

    check(program, traces=3)


def test_modes_and_settings_are_part_of_the_key() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    f = rg.jit(lambda x: x * w)
    x = Tensor([1.0, 1.0])
    assert f(x).requires_grad and f(x).requires_grad
    with rg.no_grad():
        assert not f(x).requires_grad
        assert not f(x).requires_grad
    assert f(x).requires_grad and len(f.reasons()) == 2
    with rg.config(check_indices=0):
        f(x)
    assert len(f.reasons()) == 3
    w.requires_grad = False
    assert not f(x).requires_grad and "requires_grad=False" in f.reasons()[-1]
    traces = len(f.reasons())
    forget_kernels()
    assert f(x).tolist() == [1, 2] and f.reasons()[traces:] == ["the rules or a setting that plans depend on changed"]


def test_tensors_that_somebody_keeps_are_not_captured() -> None:
    def program(run: Run) -> None:
        log: list[Tensor] = []

        def body(x: Tensor) -> Tensor:
            log.append(x * 2)
            return x + 1

        f = run.jit(body)
        for k in range(3):
            run.see(f(Tensor([float(k)])))
        run.see(log)

    reasons = check(program, traces=3).reasons()
    assert "log[0] was made in the call" in reasons[0]


def test_a_result_that_somebody_keeps() -> None:
    held: dict[str, Any] = {}

    class Hidden:
        __slots__ = ("value",)

    def program(run: Run) -> None:
        hidden = Hidden()

        def body(x: Tensor) -> Tensor:
            hidden.value = y = x * 2
            return y

        f = run.jit(body)
        for k in range(2):
            found = f(Tensor([float(k)]))
            assert hidden.value is found
            run.see(found)

    assert "hidden.value was made in the call" in check(program, traces=2).reasons()[0]
    del held


def test_attributes_that_are_rebound_at_each_call() -> None:
    def program(run: Run) -> None:
        class Recurrent:
            def __init__(self) -> None:
                self.h = Tensor([0.0])

            def step(self, x: Tensor) -> Tensor:
                self.h = self.h * 0.5 + x
                return self.h

        one = Recurrent()
        f = run.jit(Recurrent.step)
        for k in range(3):
            run.see(f(one, Tensor([float(k)])))
        run.see(one.h)

    reasons = check(program, traces=3).reasons()
    assert "Recurrent.h is another tensor after the call (assign changes it in place)" in reasons[0]


def test_a_container_among_the_arguments_that_is_changed() -> None:
    def program(run: Run) -> None:
        def body(d: dict[str, Tensor]) -> Tensor:
            d["a"], d["b"] = d["b"], d["a"]
            return d["a"] - d["b"]

        f = run.jit(body)
        for _ in range(2):
            d = {"a": Tensor([1.0]), "b": Tensor([3.0])}
            run.see(f(d), d)

    assert "container among its arguments" in check(program, traces=2).reasons()[0]


def test_an_argument_that_is_captured_too() -> None:
    """Where the function can find an argument otherwise, both ways are told apart."""

    def program(run: Run) -> None:
        w = Tensor([1.0])
        f = run.jit(lambda x: x * 10 + w)
        run.see(f(w), f(w), f(Tensor([2.0])), f(Tensor([3.0])), f(w))

    check(program, traces=2)


def test_arguments_from_a_list_that_the_function_sees() -> None:
    def program(run: Run) -> None:
        class Data:
            def __init__(self) -> None:
                self.items = [Tensor([float(k)]) for k in range(6)]

            def step(self, x: Tensor) -> Tensor:
                return x * 2

        data = Data()
        f = run.jit(Data.step)
        for item in data.items:
            run.see(f(data, item))

    check(program, traces=2)


def test_constants_from_outside() -> None:
    def program(run: Run) -> None:
        number, ones = Tensor(2.0), Tensor.ones(3)
        f, x = run.jit(lambda x: x * number + ones), Tensor([1.0, 2.0, 3.0])
        run.see(f(x), f(x))
        number += 1
        run.see(f(x), f(x))
        ones.mul_(2)
        run.see(f(x), f(x))

    check(program, traces=1)


def test_tensors_made_inside_are_constants() -> None:
    def program(run: Run) -> None:
        f = run.jit(lambda x: x + Tensor(np.array([1.0, 2.0], "float32")) * Tensor.arange(2))
        for seed in range(3):
            run.see(f(Tensor(array(2, seed=seed))))

    check(program, traces=1)


def test_state_is_held_weakly() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(Tensor(array(3)))
            self.count = Tensor(np.zeros(1, "float32"))

        @rg.jit
        def step(self, x: Tensor) -> Tensor:
            self.count.add_(1)
            return (x * self.w).detach()

    found = []
    for _ in range(2):
        model = Model()
        for _ in range(3):
            model.step(Tensor([1.0, 2.0, 3.0]))
        assert model.count.item() == 3
        found.append(weakref.ref(model))
        found.append(weakref.ref(model.w))
        del model
        gc.collect()
    assert [reference() for reference in found] == [None] * 4
    assert not Model.__dict__["step"]._captured


def test_methods_of_several_instances() -> None:
    class Counter:
        def __init__(self, start: float) -> None:
            self.total = Tensor([start]).realize()

        @rg.jit
        def add(self, x: Tensor) -> Tensor:
            """Adds."""
            self.total += x
            return self.total * 2

    first, second = Counter(0.0), Counter(100.0)
    assert first.add(Tensor([1.0])).item() == 2 and second.add(Tensor([1.0])).item() == 202
    assert first.add(Tensor([2.0])).item() == 6 and second.add(Tensor([2.0])).item() == 206
    assert len(first.add.reasons()) == 2 and first.add.__doc__ == "Adds."


def test_the_number_of_captures_is_bounded() -> None:
    f = rg.jit(lambda x, n: x + n)
    x = Tensor([1.0])
    with pytest.warns(RuntimeWarning, match=r"was traced 8 times"):
        for n in range(70):
            assert f(x, n).item() == n + 1
    assert len(f._captured) == 64
    traces = len(f.reasons())
    f(x, 69)
    assert len(f.reasons()) == traces
    f(x, 0)
    assert len(f.reasons()) == traces + 1


def test_nested_jit_is_part_of_the_outer_one() -> None:
    def program(run: Run) -> None:
        w = Tensor([1.0])
        inner = rg.jit(lambda x: x * w)

        def outer(x: Tensor) -> Tensor:
            w.add_(1)
            return inner(x) + 1

        f = run.jit(outer)
        for k in range(3):
            run.see(f(Tensor([float(k)])), inner(Tensor([5.0])))

    check(program, traces=1)


def test_an_exception_leaves_what_an_eager_call_leaves() -> None:
    def program(run: Run) -> None:
        w, v = Tensor([1.0, 2.0]).realize(), Tensor([3.0, 4.0]).realize()

        def body(x: Tensor, fails: bool) -> Tensor:
            w.add_(x)
            if fails:
                raise KeyError("stop")
            return w * v

        f = run.jit(body)
        for fails in (True, False, True, False, False):
            if fails:
                with pytest.raises(KeyError):
                    f(Tensor([1.0, 1.0]), True)
            else:
                run.see(f(Tensor([1.0, 1.0]), False))
            run.see(w.clone(), v.clone())

    check(program, traces=3)


def test_values_cannot_be_asked_for() -> None:
    limit = Tensor([3.0]).realize()
    for body in (
        lambda x: x * x.sum().item(),
        lambda x: x if x.sum() > 1 else -x,
        lambda x: x * float(limit),
        lambda x: print(x),
        lambda x: Tensor(np.asarray(x)),
        lambda x: x.nonzero(),
        lambda x: rg.linalg.svd(x.reshape(1, 2)),
        lambda x: x.to("c"),
        lambda x: x[x > 0],
    ):
        with pytest.raises(
            CaptureError, match=r"the value of a tensor is asked for \(test_state.py:\d+\).*use where|Use where"
        ):
            rg.jit(body)(Tensor([1.0, 2.0]))
    assert rg.jit(lambda x: x * Tensor([2.0, 3.0]).sum().item())(Tensor([1.0])).item() == 5.0


def test_graphs_from_outside_on_values_that_are_gone() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    loss = (w * Tensor([3.0, 4.0])).sum()

    def body() -> None:
        loss.backward()

    with pytest.raises(CaptureError):
        rg.jit(body)()
    assert w.grad is None
    loss.backward()
    assert w.grad.tolist() == [3, 4]


def test_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    total = Tensor([0.0]).realize()

    def body(x: Tensor) -> Tensor:
        total.add_(x)
        return x * 2

    f = rg.jit(body)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: f(Tensor([float(k)])).item(), range(40)))
    assert found == [2.0 * k for k in range(40)] and total.item() == sum(range(40))


def test_an_unchanging_object_has_to_be_the_same_one() -> None:
    """The graph of an ONNX file, say, of which each call would compare thousands of parts."""

    class Graph(Unchanging):
        def __init__(self, factor: int) -> None:
            self.parts = [{"factor": factor}]

    def program(run: Run) -> None:
        graphs = [Graph(2)]
        f = run.jit(lambda x: x * graphs[0].parts[0]["factor"])
        for _ in range(2):
            run.see(f(Tensor([1.0, 2.0])))
        graphs[0] = Graph(3)
        for _ in range(2):
            run.see(f(Tensor([1.0, 2.0])))

    check(program, traces=2)


def test_the_parts_of_an_unchanging_object_are_no_paths() -> None:
    from rulegrad.capture.paths import Paths, Walk

    class Graph(Unchanging):
        def __init__(self) -> None:
            self.parts = [[k] for k in range(100)]

    graph = Graph()
    walk = Walk([lambda: graph.parts])
    assert len(Paths(walk, set())._steps) == 2  # the function, and what it closes over
