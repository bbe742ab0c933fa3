"""The toy machine: an interpreter of its own instruction text. It stands for hardware, and knows nothing of rulegrad.

A program is a line for each instruction. All work-items run it in lockstep: a register holds a value for each of them.

    kernel twice(f32 data0, f32 data1) {
      item gid0, 0                          the position of a work-item along axis 0 of the grid
      load.f32 value0, data1[gid0]          a memory is a parameter (global) or a scratchpad of each work-item
      ADD.f32 alu0, value0, #1.5            # begins a number
      store data0[gid0], alu0
    }

`scratch.T name, #size` declares a scratchpad; `loop i, #n` up to `end` repeats what is between. `load.T r, place, x,
gate` and `store place, x, gate` leave memory alone where the gate is false (the first gives x). `CAST.T.U r, x` makes
a T of a U, `BITCAST.T.U r, x` reads its bits as one. `MULACC.T r, a, b, c` is fused: a * b + c, rounded once.
`mma.f32 c, a, b` adds the product of the 4x4 matrices at two places of scratchpads to that at a third, all row-major.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray
TYPES = {
    **{"b8": "bool", "s8": "int8", "s16": "int16", "s32": "int32", "s64": "int64", "u8": "uint8", "u16": "uint16"},
    **{"u32": "uint32", "u64": "uint64", "f32": "float32", "f64": "float64"},
}
WIDER = {"float32": np.float64, "float64": np.longdouble}


def divide(a: Array, b: Array) -> Array:
    """Towards zero; dividing by 0 is the program's mistake."""
    if not np.all(b):
        raise ZeroDivisionError("an integer is divided by 0")
    quotient, rest = np.divmod(a, b)
    return quotient + ((rest != 0) & ((a < 0) != (b < 0)))


def fused(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once."""
    wide = WIDER.get(a.dtype.name, a.dtype)
    return a.astype(wide) * b.astype(wide) + c.astype(wide)


COMPUTE: dict[str, Callable[..., Array]] = {
    **{"NEG": np.negative, "NOT": np.invert, "SQRT": np.sqrt, "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply},
    **{"DIV": np.divide, "FMOD": np.fmod, "TRUNCDIV": divide, "AND": np.bitwise_and, "OR": np.bitwise_or},
    **{"XOR": np.bitwise_xor, "SHL": np.left_shift, "SHR": np.right_shift, "CMPLT": np.less, "CMPLE": np.less_equal},
    **{"CMPEQ": np.equal, "CMPNE": np.not_equal, "WHERE": np.where, "MULACC": fused},
}


class AssemblyError(Exception):
    """Text that is not a program."""


class FaultError(Exception):
    """A program did what it must not."""


class Run:
    """One launch: the registers and scratchpads of all work-items, and the global memories."""

    def __init__(self, grid: Sequence[int], memories: dict[str, Array]) -> None:
        self.count = int(np.prod(grid))
        self.lanes = np.arange(self.count)
        self.axes = [self.lanes // int(np.prod(grid[:k])) % grid[k] for k in range(len(grid))]
        self.registers: dict[str, Array] = {}
        self.memories = memories
        self.scratch: dict[str, Array] = {}

    def value(self, operand: str, dtype: str) -> Array:
        """A register, or a number as a value of this dtype."""
        if operand.startswith("#"):
            text = operand[1:]
            return np.array(float(text) if dtype.startswith("float") else int(text)).astype(dtype)
        return self.registers[operand]

    def place(self, operand: str, gate: Array) -> tuple[Array, tuple[Array, ...]]:
        """The memory of `name` or `name[index]`, and where in it each work-item is."""
        name, _, index = operand.rstrip("]").partition("[")
        at = np.broadcast_to(self.value(index or "#0", "int64"), (self.count,))
        at = np.where(gate, at, 0)
        memory = self.scratch.get(name)
        size = len(self.memories[name] if memory is None else memory)
        if at.size and (at.min() < 0 or at.max() >= size):
            raise FaultError(f"{operand}: {at.min()} to {at.max()} is outside of {size} elements")
        return (self.memories[name], (at,)) if memory is None else (memory, (at, self.lanes))


Step = Callable[[Run], None]


class Program:
    """A program, ready to run. Raises AssemblyError, with the line."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        head = re.fullmatch(r"kernel (\w+)\((.*)\) \{", self._lines[0])
        if head is None:
            raise AssemblyError(f"line 1: not the head of a kernel: {self._lines[0]}")
        words = [parameter.split() for parameter in head[2].split(", ")]
        self.name, self.parameters = head[1], [(name, TYPES.get(kind, "")) for kind, name in words]
        self._at = 1
        self._steps = self._block("}")

    def __call__(self, grid: Sequence[int], buffers: Sequence[Array]) -> None:
        memories = {
            name: buffer[: buffer.nbytes // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize].view(dtype)
            for (name, dtype), buffer in zip(self.parameters, buffers, strict=True)
            if dtype
        }
        run = Run(grid, memories)
        with np.errstate(all="ignore"):
            for step in self._steps:
                step(run)

    def _block(self, close: str) -> list[Step]:
        steps = []
        while self._at < len(self._lines):
            line = self._lines[self._at].strip()
            self._at += 1
            if line == close:
                return steps
            try:
                steps.append(self._step(line))
            except (KeyError, ValueError) as error:
                raise AssemblyError(f"line {self._at}: {line}: {type(error).__name__}: {error}") from None
        raise AssemblyError(f"line {len(self._lines)}: {close!r} is missing")

    def _step(self, line: str) -> Step:
        word, _, rest = line.partition(" ")
        mnemonic, *types = word.split(".")
        operands = rest.split(", ")
        dtypes = [TYPES[name] for name in types]
        if mnemonic == "loop":
            return self._loop(*operands)
        made = getattr(self, f"_{mnemonic.lower()}", None)
        return made(operands, *dtypes) if made else compute(COMPUTE[mnemonic], operands, dtypes[0])

    def _loop(self, counter: str, extent: str) -> Step:
        steps = self._block("end")

        def loop(run: Run) -> None:
            for k in range(int(extent.removeprefix("#"))):
                run.registers[counter] = np.array(k, np.int64)
                for step in steps:
                    step(run)

        return loop

    def _item(self, operands: list[str]) -> Step:
        name, axis = operands[0], int(operands[1])
        return lambda run: run.registers.update({name: run.axes[axis]})

    def _scratch(self, operands: list[str], dtype: str) -> Step:
        name, size = operands[0], int(operands[1].removeprefix("#"))
        return lambda run: run.scratch.update({name: np.zeros((size, run.count), dtype)})

    def _load(self, operands: list[str], dtype: str) -> Step:
        name, place, *gated = operands

        def load(run: Run) -> None:
            gate = run.value(gated[1], "bool") if gated else np.True_
            memory, at = run.place(place, gate)
            run.registers[name] = np.where(gate, memory[at], run.value(gated[0], dtype)) if gated else memory[at]

        return load

    def _store(self, operands: list[str]) -> Step:
        place, value, *gated = operands

        def store(run: Run) -> None:
            gate = np.broadcast_to(run.value(gated[0], "bool") if gated else np.True_, (run.count,))
            memory, at = run.place(place, gate)
            values = np.broadcast_to(run.value(value, memory.dtype.name), (run.count,))
            memory[tuple(index[gate] for index in at)] = values[gate]

        return store

    def _cast(self, operands: list[str], dtype: str, source: str) -> Step:
        return compute(lambda x: x.astype(dtype), operands, source, dtype)

    def _bitcast(self, operands: list[str], dtype: str, source: str) -> Step:
        return compute(lambda x: np.ascontiguousarray(x).view(dtype).reshape(x.shape), operands, source, dtype)

    def _mma(self, operands: list[str], dtype: str) -> Step:
        def mma(run: Run) -> None:
            found = [run.place(operand, np.True_) for operand in operands]
            parts = [(memory, (at + np.arange(16)[:, None], lanes)) for memory, (at, lanes) in found]
            (result, where), *factors = parts
            a, b = (memory[at].reshape(4, 4, run.count) for memory, at in factors)
            result[where] += np.einsum("ikw,kjw->ijw", a, b).reshape(16, run.count)

        return mma


def compute(function: Callable[..., Array], operands: list[str], dtype: str, result: str = "") -> Step:
    """A step that computes registers of one dtype from others; a comparison gives bool, and WHERE takes one."""
    name, *sources = operands
    picks, compares = function is np.where, function in (np.less, np.less_equal, np.equal, np.not_equal)
    result = result or ("bool" if compares else dtype)

    def step(run: Run) -> None:
        values = [run.value(s, "bool" if picks and not k else dtype) for k, s in enumerate(sources)]
        run.registers[name] = np.asarray(function(*values)).astype(result, copy=False)

    return step
