"""Launches through addresses of a driver's functions: which are made, what is a graph, and what happens on errors."""

from __future__ import annotations

import ctypes
from typing import Any, NoReturn

import pytest

from rulegrad.errors import GraphError
from rulegrad.runtime.device import CudaKernel, CudaQueue, Replay

POINTER, NUMBER = ctypes.c_size_t, ctypes.c_uint32
CONTEXT, STREAM, CAPTURING = 11, 22, 33


class Driver:
    """A driver that keeps its calls, in order; a call of `failing` gives a status."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.failing = ""
        self.made = 100
        kinds: dict[str, tuple[Any, ...]] = {
            "set_context": (POINTER,),
            "launch": (POINTER, *[NUMBER] * 7, *[POINTER] * 3),
            "begin": (POINTER, ctypes.c_int),
            "end": (POINTER, POINTER),
            "instantiate": (POINTER, POINTER, ctypes.c_ulonglong),
            "launch_graph": (POINTER, POINTER),
            "destroy_executable": (POINTER,),
            "destroy_graph": (POINTER,),
            "encode": (POINTER, ctypes.c_int, NUMBER, *[POINTER] * 5, *[ctypes.c_int] * 4),
        }
        self.functions = [
            ctypes.CFUNCTYPE(ctypes.c_int, *given)(lambda *given, name=name: self.call(name, given))
            for name, given in kinds.items()
        ]
        addresses = [ctypes.cast(one, ctypes.c_void_p).value or 0 for one in self.functions]
        self.queue = CudaQueue(addresses, CONTEXT, STREAM, CAPTURING, self.failed)

    def call(self, name: str, given: tuple[int, ...]) -> int:
        if name == "launch":
            function, *sizes, stream, arguments, _ = given
            place = ctypes.c_uint64.from_address(arguments).value
            given = (function, tuple(sizes), stream, ctypes.c_uint64.from_address(place).value)
        if name in ("end", "instantiate"):
            self.made += 1
            ctypes.c_uint64.from_address(given[1] if name == "end" else given[0]).value = self.made
        if name != "set_context":
            self.calls.append((name, *given))
        return 7 if name == self.failing else 0

    def failed(self, status: int, function: str, kept: Any) -> NoReturn:
        raise ValueError(f"{function} {status} {kept}")

    def names(self) -> list[str]:
        found = [one[0] for one in self.calls]
        self.calls.clear()
        return found


@pytest.fixture
def driver() -> Driver:
    return Driver()


def kernel(number: int, maps: list[tuple[int, ...]] | None = None) -> CudaKernel:
    return CudaKernel(number, (4, 3, 2), (32, 1, 1), 128, maps or [], f"kernel {number}")


def test_launches_on_buffers_and_in_an_arena(driver: Driver) -> None:
    program = Replay(driver.queue, [(kernel(1), [1, 0]), (kernel(2), [2])], 2, [256])
    assert len(program) == 2 and not program.is_of_functions
    for _ in range(3):  # two launches are not a graph
        program.run([1000, 2000], 4096)
    assert driver.calls[:2] == [
        ("launch", 1, (4, 3, 2, 32, 1, 1, 128), STREAM, 2000),
        ("launch", 2, (4, 3, 2, 32, 1, 1, 128), STREAM, 4096 + 256),
    ]
    assert driver.names() == ["launch"] * 6


def test_what_comes_again_is_a_graph(driver: Driver) -> None:
    program = Replay(driver.queue, [(kernel(k), [0]) for k in range(3)], 1, [])
    program.run([1000], None)
    assert driver.names() == ["launch"] * 3
    program.run([1000], None)
    assert {one[3] for one in driver.calls if one[0] == "launch"} == {CAPTURING}
    assert driver.names() == ["begin", *["launch"] * 3, "end", "instantiate", "destroy_graph", "launch_graph"]
    program.run([1000], None)
    assert driver.names() == ["launch_graph"]
    for place in range(2000, 2017):  # other buffers, of which only the last few are kept
        program.run([place], None)
        program.run([place], None)
    assert driver.names().count("destroy_executable") == 2
    program.run([2016], None)
    assert driver.names() == ["launch_graph"]
    del program
    assert driver.names() == ["destroy_executable"] * 16


def test_a_queue_keeps_the_graphs_that_were_used_last(driver: Driver) -> None:
    programs = [Replay(driver.queue, [(kernel(k), [0]) for k in range(3)], 1, []) for _ in range(258)]
    for program in programs[:256]:
        program.run([1000], None)
        program.run([1000], None)
    programs[0].run([1000], None)
    driver.calls.clear()
    for program in programs[256:]:
        program.run([1000], None)
        program.run([1000], None)
    assert driver.names().count("destroy_executable") == 2
    programs[0].run([1000], None)
    assert driver.names() == ["launch_graph"]
    programs[1].run([1000], None)
    assert driver.names() == ["launch"] * 3
    del program, programs
    assert driver.names().count("destroy_executable") == 256


def test_maps_are_made_for_the_buffers_of_each_launch(driver: Driver) -> None:
    place = 4096
    one = kernel(5, [(place, 1, 2, 1, 10, 20, 30, 40, 0, 3, 2, 0)])
    program = Replay(driver.queue, [(one, [0, 1])], 2, [])
    program.run([1000, 2000], None)
    assert driver.calls[0] == ("encode", place, 1, 2, 2000, 10, 20, 30, 40, 0, 3, 2, 0)
    assert driver.names() == ["encode", "launch"]
    program.run([1000, 2000], None)
    assert driver.names() == ["launch"]
    program.run([1000, 3000], None)
    assert driver.names() == ["encode", "launch"]
    driver.failing = "encode"
    for _ in range(2):  # a map that was not made is not taken for one that was
        with pytest.raises(ValueError, match="cuTensorMapEncodeTiled 7 kernel 5"):
            program.run([1000, 4000], None)
    assert driver.names() == ["encode"] * 2


def test_errors_are_raised_and_captures_ended(driver: Driver) -> None:
    program = Replay(driver.queue, [(kernel(k), [0]) for k in range(3)], 1, [])
    driver.failing = "set_context"
    with pytest.raises(ValueError, match="cuCtxSetCurrent 7 None"):
        program.run([1000], None)
    driver.failing = ""
    program.run([1000], None)
    driver.calls.clear()
    driver.failing = "launch"
    with pytest.raises(ValueError, match="cuLaunchKernel 7 kernel 0"):
        program.run([1000], None)
    assert driver.names() == ["begin", "launch", "end", "destroy_graph"]
    driver.failing = "instantiate"
    program.run([2000], None)
    with pytest.raises(ValueError, match="cuGraphInstantiateWithFlags 7 None"):
        program.run([2000], None)
    assert driver.names()[-2:] == ["instantiate", "destroy_graph"]


def test_programs_that_are_refused(driver: Driver) -> None:
    with pytest.raises(GraphError, match="a launch on buffer 3 of a plan that has 3"):
        Replay(driver.queue, [(kernel(1), [3])], 2, [0])
    with pytest.raises(GraphError, match="a tensor map is described by 12 numbers"):
        kernel(1, [(1, 2, 3)])
    with pytest.raises(GraphError, match="a queue needs 9 functions"):
        CudaQueue([1], 0, 0, 0, driver.failed)
    with pytest.raises(GraphError, match="a plan on 1 buffers was given 2"):
        Replay(driver.queue, [(kernel(1), [0])], 1, []).run([1, 2], None)
    with pytest.raises(GraphError, match="launches of a GPU have no exchanges between them"):
        Replay([Replay(driver.queue, [(kernel(1), [0])], 1, [])])
