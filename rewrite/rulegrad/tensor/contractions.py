"""Sums of products over named axes (Einstein's convention), and the products that are short names of such sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rulegrad.errors import ShapeError
from rulegrad.tensor.axes import axis_or_dim, whole_number
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.linalg import products
from rulegrad.tensor.operands import as_tensor, result_dtype, tensors_of
from rulegrad.tensor.reduce import accumulation_dtype

if TYPE_CHECKING:
    from rulegrad.tensor.operands import Operand
    from rulegrad.tensor.tensor import Tensor


_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _by_lists(arguments: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The formula, and the operands, where lists of numbers name axes. Raises ShapeError."""
    count = len(arguments) // 2
    lists = [*arguments[1 : 2 * count : 2], *arguments[2 * count :]]
    if not all(isinstance(axes, Sequence) and not isinstance(axes, str) for axes in lists):
        raise ShapeError('einsum: give a formula such as "ij,jk->ik", or behind each operand the list of its axes')
    terms = ["".join("..." if axis is Ellipsis else _letter(axis) for axis in axes) for axes in lists]
    return ",".join(terms[:count]) + "->".join(["", *terms[count:]]), arguments[: 2 * count : 2]


def _letter(axis: Any) -> str:
    number = whole_number(axis, "einsum")
    if not 0 <= number < len(_LETTERS):
        raise ShapeError(f"einsum: axis {number}; use numbers from 0 to {len(_LETTERS) - 1}")
    return _LETTERS[number]


@built_once
def einsum(formula: Any, *operands: Any) -> Any:
    """The sums of products that a formula such as "ij,jk->ik" names, as NumPy's einsum.

    Lists of numbers name axes, too, each behind its operand: `einsum(a, [0, 1], b, [1, 2], [0, 2])`.

    Without "->" the result has the letters that occur once, in alphabetic order; a letter twice in one operand is
    its diagonal; "..." are axes that broadcast. Operands are contracted in pairs, the smallest result first. Small
    floats are added up in float32. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> Tensor.einsum("ij,j->i", Tensor([[1, 2], [3, 4]]), Tensor([1, 1])).tolist()
    [3, 7]
    """
    if not isinstance(formula, str):
        formula, operands = _by_lists((formula, *operands))
    one_list = len(operands) == 1 and isinstance(operands[0], Sequence)
    tensors: list[Any] = tensors_of(operands[0] if one_list else operands, (), "einsum")
    terms, output = _parsed(formula, [t.shape for t in tensors])
    dtype = result_dtype(*tensors)
    wide = accumulation_dtype(dtype)
    parts = [_without_repeats(t.cast(wide), term) for t, term in zip(tensors, terms)]
    sizes = _extents(formula, parts)
    while len(parts) > 1:
        first, second = _best_pair(parts, output, sizes)
        rest = [part for k, part in enumerate(parts) if k not in (first, second)]
        kept = set(output).union(*(term for _, term in rest))
        parts = [*rest, _contracted(parts[first], parts[second], kept, wide)]
    tensor, term = parts[0]
    tensor, term = _summed(tensor, term, set(output), wide)
    return tensor.permute([term.index(letter) for letter in output]).cast(dtype)


def inner(self: Tensor, other: Operand) -> Tensor:
    """The sums of products over the last axes of both; the other axes of this tensor come first.

    >>> Tensor([[1, 2], [3, 4]]).inner(Tensor([1, 10])).tolist()
    [21, 43]
    """
    right = as_tensor(self, other, "inner")
    if not self.ndim or not right.ndim:
        return self * right
    return self.tensordot(right, ([-1], [-1]))


@built_once
def tensordot(self: Tensor, other: Operand, axes: Any = 2, *, dims: Any = None) -> Tensor:
    """The sums of products over pairs of axes: the last `axes` and the first, or lists of axes for both.

    dims: PyTorch's name of `axes`. A paired axis of size 1 broadcasts. Raises ShapeError.

    >>> from rulegrad import Tensor
    >>> Tensor([[1, 2], [3, 4]]).tensordot(Tensor([1, 1]), 1).tolist()
    [3, 7]
    """
    left: Any = self
    right: Any = as_tensor(left, other, "tensordot")
    first, second = products.paired_axes(left, right, axis_or_dim(axes, dims, "tensordot", 2))
    for one, two in zip(first, second):
        if left.shape[one] == 1:
            right = right.sum(two, True, right.dtype)
        elif right.shape[two] == 1:
            left = left.sum(one, True, left.dtype)
    return products.tensordot(left, right, (first, second))


def vecdot(self: Tensor, other: Operand, axis: int = -1) -> Tensor:
    """The sums of products along one axis; the others broadcast.

    >>> Tensor([[1, 2], [3, 4]]).vecdot(Tensor([1, 10])).tolist()
    [21, 43]
    """
    left: Any = self
    return products.vecdot(left, as_tensor(left, other, "vecdot"), axis)


@built_once
def cross(self: Tensor, other: Operand, dim: int = -1) -> Tensor:
    """The cross products of vectors of 3 elements along `dim`; the other axes broadcast.

    >>> Tensor([1, 0, 0]).cross(Tensor([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    left: Any = self
    return products.cross(left, as_tensor(left, other, "cross"), dim)


@built_once
def kron(self: Tensor, other: Operand) -> Tensor:
    """The Kronecker product: this tensor with each element replaced by it times the other.

    >>> from rulegrad import Tensor
    >>> Tensor([1, 10]).kron(Tensor([1, 2])).tolist()
    [1, 2, 10, 20]
    """
    right = as_tensor(self, other, "kron")
    rank = max(self.ndim, right.ndim)
    shapes = [(1,) * (rank - t.ndim) + t.shape for t in (self, right)]
    first = self.reshape([part for n in shapes[0] for part in (n, 1)])
    second = right.reshape([part for n in shapes[1] for part in (1, n)])
    return (first * second).reshape([m * n for m, n in zip(*shapes)])


def _parsed(formula: str, shapes: list[tuple[int, ...]]) -> tuple[list[str], str]:
    """The letters of each operand and of the result, with those of "..." written out."""
    left, arrow, right = formula.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise ShapeError(f"einsum: {formula!r} has {len(terms)} operands, and {len(shapes)} were given")
    free = [letter for letter in _LETTERS if letter not in formula]
    found, most = [], 0
    for term, shape in zip(terms, shapes):
        letters = term.replace("...", "")
        extra = len(shape) - len(letters)
        if not all(letter in _LETTERS for letter in letters) or extra < 0 or (extra and "..." not in term):
            raise ShapeError(f"einsum: {term!r} in {formula!r} does not name the axes of the shape {shape}")
        most = max(most, extra)
        found.append(term.replace("...", "".join(free[:extra][::-1])))
    dots = "".join(free[:most][::-1])
    if not arrow:
        once = [letter for letter in sorted(set("".join(terms)) - {"."}) if "".join(terms).count(letter) == 1]
        right = "..." * ("..." in left) + "".join(once)
    output = right.replace("...", dots)
    if len(set(output)) != len(output) or not set(output) <= set("".join(found)):
        raise ShapeError(f"einsum: the result {right!r} of {formula!r} names an axis twice, or one that no operand has")
    return found, output


def _without_repeats(tensor: Any, term: str) -> tuple[Any, str]:
    """An operand whose letters are all different: a repeated one is the diagonal."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            if tensor.shape[first] != tensor.shape[second]:
                raise ShapeError(f"einsum: axis {letter!r} of the shape {tensor.shape} has two extents")
            tensor = tensor.diagonal(0, first, second)
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + letter
    return tensor, term


def _extents(formula: str, parts: list[tuple[Any, str]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for tensor, term in parts:
        for letter, extent in zip(term, tensor.shape):
            if extent != 1 and sizes.setdefault(letter, extent) != extent:
                raise ShapeError(f"einsum: axis {letter!r} of {formula!r} has the extents {sizes[letter]} and {extent}")
    return sizes


def _best_pair(parts: list[tuple[Any, str]], output: str, sizes: dict[str, int]) -> tuple[int, int]:
    """The pair whose product has the fewest elements more than its factors."""

    def elements(letters: set[str]) -> int:
        count = 1
        for letter in letters:
            count *= sizes.get(letter, 1)
        return count

    def cost(pair: tuple[int, int]) -> tuple[int, int]:
        first, second = (set(parts[k][1]) for k in pair)
        kept = set(output).union(*(term for k, (_, term) in enumerate(parts) if k not in pair))
        result = elements((first | second) & kept)
        return result - elements(first) - elements(second), elements(first | second)

    return min(((a, b) for a in range(len(parts)) for b in range(a + 1, len(parts))), key=cost)


def _summed(tensor: Any, term: str, kept: set[str], dtype: Any) -> tuple[Any, str]:
    """Without the axes that nothing else has."""
    axes = tuple(k for k, letter in enumerate(term) if letter not in kept)
    if not axes:
        return tensor, term
    return tensor.sum(axes, dtype=dtype), "".join(letter for letter in term if letter in kept)


def _contracted(a: tuple[Any, str], b: tuple[Any, str], kept: set[str], dtype: Any) -> tuple[Any, str]:
    """The product of two operands, summed over what nothing else has."""
    first = _summed(*a, kept | set(b[1]), dtype)
    second = _summed(*b, kept | set(a[1]), dtype)
    both = dict.fromkeys(first[1] + second[1])
    letters = "".join([x for x in both if x in kept] + [x for x in both if x not in kept])
    product = _spread(*first, letters) * _spread(*second, letters)
    return _summed(product, letters, kept, dtype)


def _spread(tensor: Any, term: str, letters: str) -> Any:
    """The operand with its axes in the order of `letters`, and axes of size 1 for the others."""
    ordered = tensor.permute([term.index(letter) for letter in letters if letter in term])
    extents = iter(ordered.shape)
    return ordered.reshape([next(extents) if letter in term else 1 for letter in letters])
