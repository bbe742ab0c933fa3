"""The closed list of built-in functions, for the checker and the compiler.

A program names those that it calls, and the engine finds each by its name: their order means nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

RULE = "rule"  # guards, `let`, templates, functions on nodes
OP_TABLE = "op table"  # eval, interval, shape, identity and check lines of an op
RENDER = "render"  # fields of a text template
NEEDS = "needs"  # `needs` clauses


@dataclass(frozen=True, slots=True)
class Builtin:
    """One built-in function; `maximum` is None when it takes any number of arguments."""

    name: str
    signature: str
    minimum: int
    maximum: int | None
    scopes: tuple[str, ...]
    doc: str


def _table(*rows: tuple[str, int, int | None, tuple[str, ...], str]) -> dict[str, Builtin]:
    table: dict[str, Builtin] = {}
    for signature, minimum, maximum, scopes, doc in rows:
        name = re.split(r"[(\[]", signature)[0]
        table[name] = Builtin(name, signature, minimum, maximum, scopes, doc)
    return table


_R = (RULE, RENDER)
_RO = (RULE, OP_TABLE, RENDER)
_O = (OP_TABLE,)

BUILTINS: dict[str, Builtin] = _table(
    # ---- facts of a node ----
    ("vmin(x)", 1, 1, _R, "lower end of the interval of x; fails when unbounded"),
    ("vmax(x)", 1, 1, _R, "upper end of the interval of x; fails when unbounded"),
    ("dtype(x)", 1, 1, _RO, "the dtype of a node"),
    ("shape(x)", 1, 1, _RO, "the shape of a node, a sequence of integers"),
    ("rank(x)", 1, 1, _RO, "number of axes"),
    ("size(x)", 1, 1, _RO, "number of elements"),
    ("op(x)", 1, 1, _R, "the op of a node"),
    ("op_cost(x)", 1, 1, _R, "how many additions the op of a node takes as long as: its line `cost`"),
    ("srcs(x)", 0, 1, _RO, "the sources of a node; in the op table, srcs() are the node's own"),
    ("src(x, i)", 2, 2, _R, "one source of a node"),
    ('attr(x, "name")', 2, 2, _R, "an attribute of a node; fails when it has none of that name"),
    ("is_const(x)", 1, 1, _R, "whether a node is a CONST"),
    ("value(x)", 1, 1, _R, "the value of a CONST; fails for any other node"),
    ("is_op(x, OP)", 2, 2, _R, "whether a node has that op"),
    ("ranges(x)", 1, 1, _R, "the open RANGE nodes that x depends on, ordered by id"),
    ("key(x)", 1, 1, _R, "a structural key: a total order that does not depend on the run"),
    ("contains(OP, x, ...)", 2, None, _R, "one of the nodes has OP somewhere below it"),
    (
        "nodes(x, OP, ...)",
        1,
        None,
        _R,
        "x and all nodes below it, each once, sources first; those of these ops, if any are given",
    ),
    ("uses(n)", 1, 1, _R, "number of consumers in the graph given to the pass (walk passes)"),
    ('slot(x, "name")', 1, 2, _R, "0, 1, 2, … in the order of first asking within one run of a pass"),
    # ---- sums and products ----
    ("sum(xs)", 1, 1, _R, "the ADD chain of a sequence of nodes; 0 when empty"),
    ("prod(xs)", 1, 1, _RO, "the MUL chain of a sequence of nodes, the product of values; 1 when empty"),
    ("all_of(xs)", 1, 1, _R, "the AND chain of a sequence of bool nodes; true when empty"),
    ("fold[f](xs)", 2, 2, _R, "the chain of a sequence of nodes by an op; of none, the identity of f"),
    ("const_factor(x)", 1, 1, _R, "of a term b * c: c, else 1; of a sum, the gcd of its terms' factors"),
    ("ordered_sum(x)", 1, 1, _R, "an integer sum with like terms added up, ordered by key, the constant last"),
    ("joined_sum(x)", 1, 1, _R, "an index sum with (b % c) * f + (b // c) * (c * f) put together to b * f"),
    ("quotient_sum(x, c)", 2, 2, _R, "(d, x // d), d > 1 the largest divisor of c with x // d a sum without division"),
    ("split_sum(x, c)", 2, 2, _R, "(d, x // d, x % d) likewise"),
    ("split_sum_below(x, c)", 2, 2, _R, "(d, q, r) with x == d * q + r, where x < c does not depend on r"),
    ("residue(x, c)", 2, 2, _R, "a simpler sum that is congruent to x modulo c; fails when x is the simplest"),
    # ---- numbers ----
    ("gcd(a, ...)", 1, None, _RO, "greatest common divisor"),
    ("abs(a)", 1, 1, _RO, "absolute value"),
    ("min(a, ...)", 1, None, _RO, "least of the arguments, or of one sequence"),
    ("max(a, ...)", 1, None, _RO, "greatest of the arguments, or of one sequence"),
    ("floor(a)", 1, 1, _RO, "largest integer not above a"),
    ("ceil(a)", 1, 1, _RO, "least integer not below a"),
    ("ceildiv(a, b)", 2, 2, _RO, "a / b rounded up"),
    ("log2(n)", 1, 1, _RO, "base-2 logarithm; exact for an integer power of two, else fails for integers"),
    ("is_pow2(n)", 1, 1, _RO, "whether n is a positive power of two"),
    ("is_int(v)", 1, 1, _RO, "whether a number is integral"),
    # ---- sequences ----
    ("iota(n)", 1, 1, _RO, "0, 1, …, n - 1"),
    ("product(shape)", 1, 1, _RO, "the sequence of index tuples of a shape, last axis fastest"),
    ("total(xs)", 1, 1, _RO, "the sum of a sequence of values"),
    ("len(xs)", 1, 1, _RO, "length of a sequence"),
    ("zip(xs, ys, ...)", 2, None, _RO, "tuples of the elements at equal places; lengths must agree"),
    ("reversed(xs)", 1, 1, _RO, "a sequence backwards"),
    ("sorted(xs)", 1, 1, _RO, "values in ascending order, nodes by key"),
    ("argsort(xs)", 1, 1, _RO, "the places of the elements in ascending order"),
    (
        "distinct(xss)",
        1,
        1,
        _RO,
        "the items of a sequence of sequences, each once, in the order in which they come first",
    ),
    ("any(xs)", 1, 1, _RO, "whether one element is true"),
    ("all(xs)", 1, 1, _RO, "whether every element is true"),
    ("strides(shape)", 1, 1, _RO, "row-major strides of a shape"),
    # ---- dtypes and constants ----
    ("eval(f, T, xs)", 3, 3, _R, "op f's evaluator on constants, the result as dtype T stores it"),
    ("convert(v, T)", 1, 2, _RO, "the value as dtype T stores it; in the op table, as the result stores it"),
    ("identity(f, T)", 2, 2, _R, "the identity element of a reduction by f"),
    ("lossless(A, B)", 2, 2, _R, "every value of dtype A is a value of dtype B"),
    ("fits(x, T)", 2, 2, _R, "the interval of x lies within integer dtype T"),
    ("is_float(T)", 1, 1, _RO, "whether a dtype is floating point"),
    ("is_signed(T)", 1, 1, _RO, "whether a dtype has negative values"),
    ("is_integer(T)", 1, 1, _RO, "whether a dtype is an integer or index"),
    ("subst(e, a -> b, ...)", 3, 15, _R, "e with nodes, or sequences of nodes, replaced, all at once"),
    # ---- target facts ----
    ("type(T)", 1, 1, (RENDER,), "the target's name of a dtype"),
    ("literal(c)", 1, 1, (RENDER,), "the target's spelling of a constant's value"),
    ('limit("name")', 1, 1, _R, "a number of the target; where it does not say it, the default of the limit"),
    ("has(OP)", 1, 1, (NEEDS,), "the target has the op"),
    ("supports(T)", 1, 1, (NEEDS,), "the target has the dtype"),
    ("flag(NAME)", 1, 1, (NEEDS,), "the target declares the flag"),
    # ---- evaluators of the op table ----
    ("lo(a)", 1, 1, _O, "lower end of a source's interval"),
    ("hi(a)", 1, 1, _O, "upper end of a source's interval"),
    ("dtype_min()", 0, 0, _O, "least value of the result's dtype; -inf for a float"),
    ("dtype_max()", 0, 0, _O, "greatest value of the result's dtype; inf for a float"),
    ("bit_not(a)", 1, 1, _O, "complement; logical not of a bool"),
    ("bit_and(a, b)", 2, 2, _O, "bitwise and"),
    ("bit_or(a, b)", 2, 2, _O, "bitwise or"),
    ("bit_xor(a, b)", 2, 2, _O, "bitwise exclusive or"),
    ("shift_left(a, b)", 2, 2, _O, "a * 2**b for 0 <= b < bits, else 0"),
    ("shift_right(a, b)", 2, 2, _O, "a // 2**b"),
    ("trunc_div(a, b)", 2, 2, _O, "a / b rounded towards zero; 0 when b is 0"),
    ("trunc_mod(a, b)", 2, 2, _O, "remainder of trunc_div, with the sign of a"),
    ("pow(a, b)", 2, 2, _O, "a to the power b"),
    ("sqrt(a)", 1, 1, _O, "square root"),
    ("exp(a)", 1, 1, _O, "e to the power a"),
    ("exp2(a)", 1, 1, _O, "2 to the power a"),
    ("log(a)", 1, 1, _O, "natural logarithm"),
    ("sin(a)", 1, 1, _O, "sine"),
    ("cos(a)", 1, 1, _O, "cosine"),
    ("tanh(a)", 1, 1, _O, "hyperbolic tangent"),
    ("trunc(a)", 1, 1, _O, "rounded towards zero"),
    ("round_even(a)", 1, 1, _O, "rounded to the nearest integer, halves to even"),
    ("bitcast(v, A, B)", 1, 3, _RO, "the bits of v as dtype A stores it, read as B; in the op table, of a source"),
    # ---- parts that are rewritten on their own ----
    ("rewritten(e, RULESET)", 2, 2, (RULE,), "e, rewritten by a rule set, children first; does not nest"),
    ("given(g, x)", 2, 2, (RULE,), "x, simplified by the pass's rules where the condition g holds"),
    # ---- more evaluators of the op table ----
    ("expm1(a)", 1, 1, _O, "exp(a) - 1"),
    ("log1p(a)", 1, 1, _O, "log(1 + a)"),
    ("log10(a)", 1, 1, _O, "base-10 logarithm"),
    ("tan(a)", 1, 1, _O, "tangent"),
    ("asin(a)", 1, 1, _O, "arcsine"),
    ("acos(a)", 1, 1, _O, "arccosine"),
    ("atan(a)", 1, 1, _O, "arctangent"),
    ("sinh(a)", 1, 1, _O, "hyperbolic sine"),
    ("cosh(a)", 1, 1, _O, "hyperbolic cosine"),
    ("asinh(a)", 1, 1, _O, "inverse of sinh"),
    ("acosh(a)", 1, 1, _O, "inverse of cosh"),
    ("atanh(a)", 1, 1, _O, "inverse of tanh"),
    ("erf(a)", 1, 1, _O, "error function"),
    ("erfc(a)", 1, 1, _O, "1 - erf(a)"),
    ("lgamma(a)", 1, 1, _O, "logarithm of |gamma(a)|"),
    ("digamma(a)", 1, 1, _O, "derivative of lgamma"),
    ("atan2(a, b)", 2, 2, _O, "angle of the point (b, a)"),
    ("hypot(a, b)", 2, 2, _O, "sqrt(a * a + b * b)"),
    ("fmod(a, b)", 2, 2, _O, "remainder of a / b, with the sign of a"),
)

# Functions whose arguments are nodes even where a name would be taken for its constant's value.
TAKES_NODES = frozenset(
    [
        *("dtype", "shape", "rank", "size", "op", "op_cost", "srcs", "src", "attr", "is_const", "is_op"),
        *("ranges", "key", "contains", "nodes", "uses", "slot"),
        *("fits", "literal"),
    ]
)
