"""Malformed programs: loading raises RuleError, or the program runs to a value or an error; nothing crashes or hangs.

The same tests run on an engine with sanitizers: see tests/sanitize.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import os
import random
import struct
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_programs import compile_bytes, const, loop, op_table, var

from rulegrad import _core, engine
from rulegrad.errors import RuleError, RulegradError
from rulegrad.ir import UOp
from rulegrad.lang import syntax
from rulegrad.lang.compiler import ProgramCompiler, compile_op_table
from rulegrad.lang.compiler.assembler import Alternative
from rulegrad.lang.parser import parse_file

# Every instruction and most built-in functions are in here.
TEXT = textwrap.dedent("""
    extern pure host(n: int) -> int = "tests.host"
        test host(1) -> 1
    function depth(n):
        leaf: depth(_:const) -> {0}
        all: depth(n@_) -> {1 + max(0, [depth(s) for s in srcs(n)])}
    function scaled(n, k):
        sum: scaled(a + b, k) -> scaled(a, k * 2) + scaled(b, k)
        all: scaled(n@_, k) -> n * k
    function many_parts(n, a, b, c, d):
        all: many_parts(n@_, a, b, c, d) -> fold[MAX]([n, a, b * c, d])
    function gradient(n, d):
        mul: gradient(ordered a * b, d) -> (d * b, d * a)
        other: gradient(n@_, d) -> [d for s in srcs(n)]
    view times(t, k):
        t * k:const
        t with k = 1
    table units(name: str, lanes: int):
        "wide"   4
        "narrow" 2
    record bounds(low, high)
    def above(b) = bounds(..b, low=b.low + 1)
    def clamp(x, low, high) =
        let least = max(x, low)
        min(least, high)
    ruleset algebra:
        zero[f: {ADD, XOR, OR}]: f(x, 0) -> x
        five: x // 5 -> -x
        fold[f: Elementwise]: n@f(cs:const...) -> {eval(f, dtype(n), cs)}
            if len(cs) > 0 and op(n) not in {BITCAST, CAST}
        nested: (x // a:const) // b:const -> x // {a * b}
            if b > 0 and a != 7
        same[T: Int]: x:T - x -> 0
        clamped: NEG(x) -> clamp(x, 0, 10)
            if vmin(x) < vmax(x) or fits(x, int8)
        where_same: where(_, a, a) -> a
        within: EXP(x) -> x * {above(bounds(2, high=3)).low}
        slices: n@SINK(a, xs...) -> SINK(xs..., (y for y in xs if y != a), [a, n][0])
            if len(xs) > 1 and xs[1:] == xs[1:3]
        each: SINK((c * one s)...) -> SINK((x * s for x in c))
        stores: STORE(INDEX(b, is...), v) -> STORE(INDEX(b, (i + k for i, k in zip(is, iota(len(is))))), v)
            if all(d > 0 for d in strides(shape(b)))
        last[f: {ADD, MUL}]: SINK(xs..., NEG(f(x, y))) -> SINK(ys...)
            let ys = [xs..., x, y]
            if dtype(x).bits == 32 and len(ys) < 6
        joined: sum{times(x, k), times(x, {-k}), rest...} -> sum{rest...}
            if k != 0
        factors: prod{x, not x, _...} -> x
            for unit in units
            if unit.lanes > vmin(x) and units["wide"].lanes != 3
            least 2 of vmin(x) - unit.lanes
            if unit.lanes < 9
        many: SINK(x, y) -> fold[ADD](nodes(x)[:0]) + many_parts(x, y, 1, 2, 3)
            if len(nodes(y)) == 2
        register: b@BUFFER[space="register"]() -> BUFFER[..b, space="local"]()
            if b.id > 0
    pass rewriting rewrite children_first: algebra
    pass above rewrite parents_first:
        use algebra
        reshape: n@RESHAPE[shape=s](x) -> RESHAPE[..n, shape=reversed(s)](x)
            if s[0] > 1
        attributes: b@BUFFER[id=k]() -> BUFFER[..b, id={host(k)}]()
            if k < 3
    pass walking rewrite walk:
        shared: n@(a + b) -> a * slot(n, "sum") if uses(n) > 1 else -b
            let (p, q) = (a, b)
            if p != q and contains(BUFFER, n) and not is_const(p)
        loops: n@REDUCE[op=f](x, rs...) -> subst(x, rs -> [CONST[index](0) for r in rs])
            if f in Reduction and sum([depth(r) for r in ranges(x)]) >= 0
        negated: CAST[float32](-x) -> CAST[float32](x)
        terms: n@ABS(x) -> scaled(sum(sorted(srcs(x))), const_factor(x) + gcd(4, 6))
            if const_factor(x) == 1
    pass linear order:
        priority LOAD -1, STORE 1
        priority BUFFER[space="local"] -17
    pass text render:
        constant: n@CONST() -> inline "{literal(n)}"
        parameter: PARAM[slot=k](_...) -> inline "data{k}"
        loop: n@RANGE(e) -> block "for ({type(dtype(n))} {n} = 0; {n} < {e:bare}; {n}++) {{" close "}}"
        element: INDEX(b, i) -> inline "{b}[{i:bare}]"
        load: LOAD(p) -> expr "{p}"
        store: STORE(p, v) -> stmt "{p} = {v:bare};"
        names: prefix RANGE "i", LOAD "value"
    pass gradients = reverse gradient
    pass collecting collect:
        fact place(b) number: b@BUFFER()
        fact largest(x, k) = c max: x % c:const
            let k = place(x) if op(x) == BUFFER else 0
        fact every() = [op(n)] all: n@_
        number: b@BUFFER() -> BUFFER[..b, id=place(b)]()
        swap: a + b -> b * a
            if len(every()) > largest(a, 0)
        circle: n@ABS(_) -> n + 1
    pass down flow consumers_first:
        state trips = 0 max
        state seen = () union
        send trips any: n@_ -> {[trips(n) + 1 for s in srcs(n)]}
        send seen any: n@_ -> {[[op(n)] + seen(n) for s in srcs(n)]}
        deep: n@(x * y) -> x - y
            if trips(n) > 1 and len(seen(n)) > 1
    pass up flow sources_first:
        state depth = 0
        send depth any: n@_ -> {1 + max(0, [depth(s) for s in srcs(n)])}
        deep: n@(x + y) -> x * {depth(n)}
    pass cheapest choose best:
        cost depth
        fuel 30
        use algebra
        moved: (x + y) + z -> x + (y + z)
        halved: x * 2 -> x + x
    pass cheaper choose first:
        cost depth
        moved: (x * y) * z -> x * (y * z)
    target test:
        has      ADD MUL
        dtypes   float32 int32
        type     float32 "float", int32 "int", index "long", bool "char"
        suffix   float32 "f"
        literal  inf "INFINITY"
        limit    registers 64
        render   text
""")


class Silent:
    """Is told what a pass that is explained does, and keeps nothing."""

    def attempt(self, *_: object) -> None: ...
    def enter(self, *_: object) -> None: ...
    def leave(self, *_: object) -> None: ...


@functools.cache
def compiled() -> bytes:
    return compile_bytes(TEXT, "test", checked=False)


@functools.cache
def graphs() -> tuple[UOp, ...]:
    x, y, i, j = var(0), var(1), loop(0, 4), loop(1, 6)
    data, other = UOp("PARAM", (), "float32", slot=0, shape=(24,)), UOp("PARAM", (), "float32", slot=1, shape=(24,))
    value = UOp("LOAD", (UOp("INDEX", (data, i * 6 + j)),)) * 2.0
    kernel = UOp("SINK", (UOp("END", (UOp("STORE", (UOp("INDEX", (other, i * 6 + j)), value)), i, j)),))
    shared = (x + 0) + (y + const(3) * const(4))
    return (
        const(1),
        UOp("SINK", (-(x - x), UOp("ABS", (shared + x,)), shared * 2, shared * 3, shared)),
        UOp("SINK", (x * y, y * y, const(7) * y)),
        UOp("RESHAPE", (UOp("BUFFER", (), "float32", id=1, shape=(4, 2)) * 1.0,), shape=(2, 4)),
        UOp("REDUCE", (UOp("CAST", (i * j + (j // 2) // 3,), "float32"), i, j), op="ADD"),
        UOp("WHERE", (x < y, x // 8, x // 8)),
        UOp("SINK", (x * 3, -(x * y), UOp("BUFFER", (), "int8", id=3, shape=(), space="register"))),
        kernel,
    )


INSTRUCTIONS = {number: name for number, (name, _) in enumerate(_core.OPCODES)}


def run_everything(data: bytes) -> None:
    """Loads a program and uses all of it. An error that is ours is fine."""
    roots = graphs()  # the first node installs the op table, without which every program is refused
    try:
        program = _core.Program(data)
    except RuleError:
        return
    for name in program.externs:
        program.set_extern(name, lambda *arguments: arguments[0] if arguments else 1)
    for name in program.passes:
        for root in roots:
            for use in (
                lambda n, r: program.rewrite(n, r, trace=True, check=True, fuel=200)[0].count_nodes(),
                lambda n, r: program.order(n, r),
                lambda n, r: program.source("linear", n, r),
                lambda n, r: program.reverse(n, [r], [r], [var(0), r]),
                lambda n, r: program.explain(n, "scaled", r, Silent(), "depth", [r, *r.src], r),
                lambda n, r: program.explain(n, "depth", r, Silent(), "", [r, *r.src], r),
            ):
                with contextlib.suppress(RulegradError):
                    use(name, root)
    for function in ("depth", "scaled", "gradient"):
        for arguments in ((roots[1],), (roots[1], 3), (roots[4], const(1))):
            with contextlib.suppress(RulegradError):
                program.call(function, *arguments)


@pytest.fixture(autouse=True)
def _no_hanging() -> Iterator[None]:
    """A program that hangs ends the process, with what it was doing; no test takes a tenth of this."""
    faulthandler.dump_traceback_later(900, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


def opcodes_of(code: list[int]) -> set[str]:
    """The instructions of well-formed code."""
    found, at = set(), 0
    while at < len(code):
        name, operands = _core.OPCODES[code[at]]
        found.add(name)
        at += 1
        for kind in operands:
            count = code[at] if kind in "vVaw" else 0
            at += 1 + count * (2 if kind == "a" else 1)
    return found


def test_the_program_itself_is_fine() -> None:
    program = _core.Program(compiled())
    assert program.passes == [
        "rewriting",
        "above",
        "walking",
        "linear",
        "text",
        "gradients",
        "collecting",
        "down",
        "up",
        "rules algebra",
        "cheapest",
        "cheaper",
    ]
    body, parameters = program.source("linear", "text", graphs()[-1])
    assert body.startswith("  for (long i0 = 0; i0 < 4; i0++) {\n") and body.endswith("    }\n  }\n")
    assert sorted(parameters) == [(0, "data0", "float"), (1, "data1", "float")]
    used = set().union(*(opcodes_of(code) for code in program_parts().assembler.codes))
    assert {name for name, _ in _core.OPCODES} - used <= {"NOT_SAME"}
    run_everything(compiled())


EDGES = (0, 1, -1, 2, 3, 5, 15, 16, 17, 63, 64, 249, 250, 255, 256, 2**16, 2**31 - 1, -(2**31), -2, -250, -251)


@given(st.data())
def test_damaged_bytes(data: st.DataObject) -> None:
    program = bytearray(compiled())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(program) - 1))
        kind = data.draw(st.sampled_from(["flip", "byte", "word", "cut", "drop", "double"]))
        if kind == "flip":
            program[place] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "byte":
            program[place] = data.draw(st.integers(0, 255))
        elif kind == "word":
            program[place : place + 4] = struct.pack("<i", data.draw(st.sampled_from(EDGES)))
        elif kind == "cut":
            del program[place:]
            break
        elif kind == "drop":
            del program[place : place + data.draw(st.integers(1, 8))]
        else:
            program[place:place] = program[place : place + data.draw(st.integers(1, 40))]
        if not program:
            break
    run_everything(bytes(program))


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    run_everything(data)
    run_everything(compiled()[:40] + data)


@pytest.mark.parametrize("length", range(0, 400, 7))
def test_cut_off(length: int) -> None:
    with pytest.raises(RuleError, match="malformed compiled rules"):
        _core.Program(compiled()[:length])
    with pytest.raises(RuleError, match="malformed compiled rules"):
        _core.Program(compiled()[: len(compiled()) - length - 1])


def test_something_after_the_end() -> None:
    with pytest.raises(RuleError, match="after the program's end"):
        _core.Program(compiled() + b"\0")


# ---- damage that the loader does not see at once: the words of the code ----


@functools.cache
def parsed() -> syntax.File:
    return parse_file(TEXT, "test.rules")


def program_parts() -> ProgramCompiler:
    file = parsed()
    (target,) = (d for d in file.declarations if isinstance(d, syntax.Target))
    compiler = ProgramCompiler([op_table(), file], target, False)
    compiler.compile()
    codes = compiler.assembler.codes
    codes[:] = map(list, codes)  # those of the compiler are kept, for the next program of these rules
    return compiler


def damage(generator: random.Random, count: int) -> bytes:
    """A program whose pools are whole, with some words of code or numbers of alternatives replaced."""
    assembler = program_parts().assembler
    for _ in range(count):
        kind = generator.random()
        code = generator.choice(assembler.codes)
        place = generator.randrange(len(code))
        if kind < 0.45:
            code[place] = generator.choice([generator.randrange(12), generator.choice(code), generator.choice(EDGES)])
        elif kind < 0.6:
            other = generator.choice(assembler.codes)
            start = generator.randrange(len(other))
            code[place : place + generator.randrange(4)] = other[start : start + generator.randrange(8)]
        elif kind < 0.7:
            a, b = generator.randrange(len(assembler.codes)), generator.randrange(len(assembler.codes))
            assembler.codes[a], assembler.codes[b] = assembler.codes[b], assembler.codes[a]
        elif kind < 0.8:
            assembler.constants[generator.randrange(len(assembler.constants))] = generator.choice(
                [None, True, -1, 2**63, -(2**126), 0.5, float("nan"), "text", (), (1, (2, "x")), 10**6, 127]
            )
        else:
            owner = generator.choice([*assembler.passes, *assembler.functions])
            if owner.alternatives:
                at = generator.randrange(len(owner.alternatives))
                owner.alternatives[at] = changed(generator, owner.alternatives[at], len(assembler.sets))
    return assembler.serialize()


def changed(generator: random.Random, a: Alternative, sets: int) -> Alternative:
    """Looks at nodes that the code was not made for."""
    return Alternative(
        a.rule,
        a.code,
        0xFFFFFFFF,
        0,
        2**31 - 1,
        generator.randrange(sets),
        (-1, -1, generator.choice([-1, a.children[2]])),
    )


@settings(max_examples=settings.default.max_examples // 3)
@given(st.integers(0, 2**32))
def test_damaged_code(seed: int) -> None:
    generator = random.Random(seed)
    run_everything(damage(generator, generator.randrange(1, 6)))


def one_code(*words: int | str) -> bytes:
    """The program `pass p rewrite walk: a: NEG(x) -> x`, with other code for its rule."""
    file = parse_file("pass p rewrite walk:\n    a: NEG(x) -> x\n", "test.rules")
    compiler = ProgramCompiler([op_table(), file], None, False)
    compiler.compile()
    assembler = compiler.assembler
    numbers = {name: number for number, name in INSTRUCTIONS.items()}
    assembler.constants = [0, (1, 2), "name", 2**20]
    assembler.builtins = ["iota", "srcs", "zip", "sorted", "product"]
    assembler.codes[0] = [numbers[w] if isinstance(w, str) else w for w in words]
    return assembler.serialize()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "the code does not end"),
        (("MOVE", 1, 0), "the code does not end"),
        (("RETURN",), "an instruction is cut off"),
        (("RETURN", 250), "a register is out of range"),
        (("RETURN", -1), "a register is out of range"),
        (("RETURN", 3), "read before it is written"),
        ((999, 0, "RETURN", 0), "an unknown instruction"),
        (("CONSTANT", 1, 4, "RETURN", 1), "a constant is out of range"),
        (("GET_MEMBER", 1, 0, 0, "RETURN", 1), "a member's name must be text"),
        (("IS_OP", 0, 999, "RETURN", 0), "an op is out of range"),
        (("IN_SET", 0, 99, "RETURN", 0), "an op set is out of range"),
        (("SOURCE", 1, 0, -1, "RETURN", 1), "a number is out of range"),
        (("SOURCE_SLICE", 1, 0, 2**30, 2**30, "RETURN", 1), "a number is out of range"),
        (("UNARY", 1, 9, 0, "RETURN", 1), "an unknown operator"),
        (("BINARY", 1, 99, 0, 0, 0, "RETURN", 1), "an unknown operator"),
        (("JUMP", 1, "RETURN", 0), "middle of an instruction"),
        (("JUMP", 50, "RETURN", 0), "a jump leads out of the code"),
        (("JUMP", -1, "RETURN", 0), "a jump leads out of the code"),
        (("BUILTIN", 1, 7, 0, "RETURN", 1), "a built-in is out of range"),
        (("FUNCTION", 1, 0, 1, 0, "RETURN", 1), "a function is out of range"),
        (("EXTERN", 1, 0, 1, 0, "RETURN", 1), "an extern is out of range"),
        (("CHAIN", 1, 0, 999, 1, 2, "RETURN", 1), "an op is out of range"),
        (("PICK", 1, 2, 0, -1, 0, "RETURN", 2), "read before it is written"),
        (("CONSTANT", 1, 0, "PICK", 1, 2, 0, 99, 0, "RETURN", 2), "an op set is out of range"),
        (("CONSTANT", 1, 0, "PICK", 1, 2, 0, -1, 1, 3, "RETURN", 2), "read before it is written"),
        (("LEFT", 1, 0, 1, 2, "RETURN", 1), "read before it is written"),
        (("UNPACK", 0, 300, "RETURN", 0), "too many operands"),
        (("BUILD", 1, 0, -1, -1, -1, 0, 1, -251, "RETURN", 1), "a register is out of range"),
        (("BUILD", 1, 0, -1, -1, -1, 99, "RETURN", 0), "too many attributes"),
        # a loop that needs in its second round what only the first has
        (("CONSTANT", 1, 0, "JUMP_FALSE", 1, 8, "MOVE", 2, 0, "RETURN", 2), "middle of an instruction|before it is written"),
    ],
)  # fmt: skip
def test_code_that_is_refused(words: tuple[int | str, ...], message: str) -> None:
    with pytest.raises(RuleError, match=message):
        _core.Program(one_code(*words))


@pytest.mark.parametrize(
    "words",
    [
        ("JUMP", 0),
        ("BEGIN", "JUMP", 0),
        ("BEGIN", "APPEND", 0, "JUMP", 1),
        ("CONSTANT", 1, 3, "BUILTIN", 2, 0, 1, 1, "JUMP", 3),  # iota(2**20) again and again
        ("CONSTANT", 1, 1, "BEGIN", "APPEND", 1, "EXTEND", 1, "FINISH", 1, "JUMP", 3),  # nested deeper and deeper
        ("CONSTANT", 1, 1, "BUILTIN", 1, 2, 2, 1, 1, "JUMP", 3),  # zip(s, s) again and again
        ("BUILD", 1, 20, -1, -1, -1, 0, 1, 0, "MOVE", 0, 1, "JUMP", 0),
        ("CONSTANT", 1, 1, "BINARY", 1, 0, 0, 1, 1, "JUMP", 3),  # s + s
        ("TRY", 0, "JUMP", 0),  # more and more choices
        (
            "CONSTANT",
            1,
            1,
            "CONSTANT",
            2,
            0,
            "PICK",
            2,
            3,
            1,
            -1,
            0,
            "CONSTANT",
            2,
            0,
            "FAIL",
        ),  # the first item for ever
    ],
)
def test_code_that_never_ends(words: tuple[int | str, ...]) -> None:
    program = _core.Program(one_code(*words))
    try:
        program.rewrite("p", -var(0))
    except RulegradError as error:
        assert "rule p.a" in str(error)


def test_op_tables_that_are_refused_leave_nothing_behind(tmp_path: Path) -> None:
    """In a process of its own: an op table can be installed once."""
    code = """
import pathlib, random, struct, sys
from rulegrad import _core
from rulegrad.errors import RuleError
data = pathlib.Path(sys.argv[3]).read_bytes()
generator = random.Random(int(sys.argv[1]))
installed = False
for _ in range(int(sys.argv[2])):
    damaged = bytearray(data)
    for _ in range(generator.randrange(1, 4)):
        place = generator.randrange(len(damaged))
        kind = generator.random()
        if kind < 0.4:
            damaged[place] = generator.randrange(256)
        elif kind < 0.8:
            damaged[place : place + 4] = struct.pack("<i", generator.choice([0, 1, -1, 2, 3, 7, 64, 255, 2**31 - 1]))
        else:
            del damaged[place : place + generator.randrange(1, 9)]
    try:
        _core.Program(bytes(damaged), op_table=True)
    except RuleError:
        assert not _core.table_loaded()
    else:
        installed = True
        break
if not installed:
    _core.Program(data, op_table=True)
from rulegrad.errors import RulegradError
from rulegrad.ir import UOp
def attempt(use):
    try:
        return use()
    except RulegradError:
        return None
x = attempt(lambda: UOp("BUFFER", (), "int32", id=0, shape=(3, 4)))
nodes = [x] if x else []
for dtype in ("int32", "index", "float32", "bool", "uint8"):
    nodes += [n for n in [attempt(lambda: UOp.const(5, dtype))] if n]
for op in ("ADD", "MUL", "FLOORMOD", "SHR", "WHERE", "CAST", "NEG", "ABS", "SQRT", "RANGE", "REDUCE", "PAD", "EXPAND", "INDEX", "STORE"):
    for n in nodes[:6]:
        for src in ((n,), (n, n), (n, n, n), (n, nodes[-1])):
            for attributes in ({}, {"op": "ADD", "axes": (1,)}, {"id": 1, "kind": "x"}, {"shape": (4, 3)}, {"before": (1, 2), "after": (0, 0)}):
                for dtype in (None, "int8"):
                    made = attempt(lambda: UOp(op, src, dtype, **attributes))
                    if made is not None:
                        str(made), attempt(lambda: (made.shape, made.vmin, made.vmax, made.ranges))
for op in ("ADD", "MUL", "FLOORDIV", "SHL", "SQRT", "CAST", "WHERE"):
    for dtype in ("int8", "uint64", "float32", "float8_e4m3fn", "bool", "index"):
        for arguments in ((1,), (1, 2), (True, 2, 3), (1.5, 2.5)):
            attempt(lambda: _core.evaluate(op, dtype, *arguments))
print("done")
"""
    table = tmp_path / "table"
    table.write_bytes(compile_op_table(engine.loaded().sources.files))
    for seed in range(3):
        done = subprocess.run(
            [sys.executable, "-c", code, str(seed), "300", str(table)], capture_output=True, text=True, check=False
        )
        assert done.stdout.strip() == "done", done.stderr[-3000:]


def test_loading_does_not_leak() -> None:
    """Neither good programs nor refused ones keep memory."""
    status = Path("/proc/self/statm")
    if not status.exists():
        pytest.skip("there is no /proc here")
    cut = compiled()[:-9]

    def load() -> None:
        for _ in range(100):
            _core.Program(compiled())
            with pytest.raises(RuleError):
                _core.Program(cut)

    load()
    before = int(status.read_text().split()[1])
    load()
    load()
    grown = (int(status.read_text().split()[1]) - before) * os.sysconf("SC_PAGE_SIZE")
    limit = (
        4_000_000 if "asan" not in os.environ.get("LD_PRELOAD", "") else 400_000_000
    )  # freed memory is kept back there
    assert grown < limit, f"{grown:,} bytes"
