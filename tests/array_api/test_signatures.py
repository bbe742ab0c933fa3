"""Every function of the standard is there, and takes the arguments that the standard says."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

# The signatures of revision 2025.12, without annotations; by family, as the namespace's files.
FAMILIES = {
    "creation": """
        arange(start, /, stop=None, step=1, *, dtype=None, device=None)
        asarray(obj, /, *, dtype=None, device=None, copy=None)
        empty(shape, *, dtype=None, device=None)
        empty_like(x, /, *, dtype=None, device=None)
        eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
        from_dlpack(x, /, *, device=None, copy=None)
        full(shape, fill_value, *, dtype=None, device=None)
        full_like(x, /, fill_value, *, dtype=None, device=None)
        linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
        meshgrid(*arrays, indexing='xy')
        ones(shape, *, dtype=None, device=None)
        ones_like(x, /, *, dtype=None, device=None)
        tril(x, /, *, k=0)
        triu(x, /, *, k=0)
        zeros(shape, *, dtype=None, device=None)
        zeros_like(x, /, *, dtype=None, device=None)
    """,
    "data types": """
        astype(x, dtype, /, *, copy=True, device=None)
        can_cast(from_, to, /)
        finfo(type, /)
        iinfo(type, /)
        isdtype(dtype, kind)
        result_type(*arrays_and_dtypes)
    """,
    "elementwise": """
        abs(x, /)
        acos(x, /)
        acosh(x, /)
        add(x1, x2, /)
        asin(x, /)
        asinh(x, /)
        atan(x, /)
        atan2(x1, x2, /)
        atanh(x, /)
        bitwise_and(x1, x2, /)
        bitwise_invert(x, /)
        bitwise_left_shift(x1, x2, /)
        bitwise_or(x1, x2, /)
        bitwise_right_shift(x1, x2, /)
        bitwise_xor(x1, x2, /)
        ceil(x, /)
        clip(x, /, min=None, max=None)
        conj(x, /)
        copysign(x1, x2, /)
        cos(x, /)
        cosh(x, /)
        divide(x1, x2, /)
        equal(x1, x2, /)
        exp(x, /)
        expm1(x, /)
        floor(x, /)
        floor_divide(x1, x2, /)
        greater(x1, x2, /)
        greater_equal(x1, x2, /)
        hypot(x1, x2, /)
        imag(x, /)
        isfinite(x, /)
        isinf(x, /)
        isnan(x, /)
        less(x1, x2, /)
        less_equal(x1, x2, /)
        log(x, /)
        log10(x, /)
        log1p(x, /)
        log2(x, /)
        logaddexp(x1, x2, /)
        logical_and(x1, x2, /)
        logical_not(x, /)
        logical_or(x1, x2, /)
        logical_xor(x1, x2, /)
        maximum(x1, x2, /)
        minimum(x1, x2, /)
        multiply(x1, x2, /)
        negative(x, /)
        nextafter(x1, x2, /)
        not_equal(x1, x2, /)
        positive(x, /)
        pow(x1, x2, /)
        real(x, /)
        reciprocal(x, /)
        remainder(x1, x2, /)
        round(x, /)
        sign(x, /)
        signbit(x, /)
        sin(x, /)
        sinh(x, /)
        sqrt(x, /)
        square(x, /)
        subtract(x1, x2, /)
        tan(x, /)
        tanh(x, /)
        trunc(x, /)
    """,
    "fft": """
        fft.fft(x, /, *, n=None, axis=-1, norm='backward')
        fft.fftfreq(n, /, *, d=1.0, dtype=None, device=None)
        fft.fftn(x, /, *, s=None, axes=None, norm='backward')
        fft.fftshift(x, /, *, axes=None)
        fft.hfft(x, /, *, n=None, axis=-1, norm='backward')
        fft.ifft(x, /, *, n=None, axis=-1, norm='backward')
        fft.ifftn(x, /, *, s=None, axes=None, norm='backward')
        fft.ifftshift(x, /, *, axes=None)
        fft.ihfft(x, /, *, n=None, axis=-1, norm='backward')
        fft.irfft(x, /, *, n=None, axis=-1, norm='backward')
        fft.irfftn(x, /, *, s=None, axes=None, norm='backward')
        fft.rfft(x, /, *, n=None, axis=-1, norm='backward')
        fft.rfftfreq(n, /, *, d=1.0, dtype=None, device=None)
        fft.rfftn(x, /, *, s=None, axes=None, norm='backward')
    """,
    "indexing": """
        take(x, indices, /, *, axis=None)
        take_along_axis(x, indices, /, *, axis=-1)
    """,
    "inspection": """
        __array_namespace_info__()
    """,
    "linalg": """
        linalg.cholesky(x, /, *, upper=False)
        linalg.cross(x1, x2, /, *, axis=-1)
        linalg.det(x, /)
        linalg.diagonal(x, /, *, offset=0)
        linalg.eigh(x, /)
        linalg.eigvalsh(x, /)
        linalg.inv(x, /)
        linalg.matmul(x1, x2, /)
        linalg.matrix_norm(x, /, *, keepdims=False, ord='fro')
        linalg.matrix_power(x, n, /)
        linalg.matrix_rank(x, /, *, rtol=None)
        linalg.matrix_transpose(x, /)
        linalg.outer(x1, x2, /)
        linalg.pinv(x, /, *, rtol=None)
        linalg.qr(x, /, *, mode='reduced')
        linalg.slogdet(x, /)
        linalg.solve(x1, x2, /)
        linalg.svd(x, /, *, full_matrices=True)
        linalg.svdvals(x, /)
        linalg.tensordot(x1, x2, /, *, axes=2)
        linalg.trace(x, /, *, offset=0, dtype=None)
        linalg.vecdot(x1, x2, /, *, axis=-1)
        linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
    """,
    "linear algebra": """
        matmul(x1, x2, /)
        matrix_transpose(x, /)
        tensordot(x1, x2, /, *, axes=2)
        vecdot(x1, x2, /, *, axis=-1)
    """,
    "manipulation": """
        broadcast_arrays(*arrays)
        broadcast_to(x, /, shape)
        concat(arrays, /, *, axis=0)
        expand_dims(x, /, *, axis=0)
        flip(x, /, *, axis=None)
        moveaxis(x, source, destination, /)
        permute_dims(x, /, axes)
        repeat(x, repeats, /, *, axis=None)
        reshape(x, /, shape, *, copy=None)
        roll(x, /, shift, *, axis=None)
        squeeze(x, /, axis)
        stack(arrays, /, *, axis=0)
        tile(x, repetitions, /)
        unstack(x, /, *, axis=0)
    """,
    "searching": """
        argmax(x, /, *, axis=None, keepdims=False)
        argmin(x, /, *, axis=None, keepdims=False)
        count_nonzero(x, /, *, axis=None, keepdims=False)
        nonzero(x, /)
        searchsorted(x1, x2, /, *, side='left', sorter=None)
        where(condition, x1, x2, /)
    """,
    "sets": """
        unique_all(x, /)
        unique_counts(x, /)
        unique_inverse(x, /)
        unique_values(x, /)
    """,
    "sorting": """
        argsort(x, /, *, axis=-1, descending=False, stable=True)
        sort(x, /, *, axis=-1, descending=False, stable=True)
    """,
    "statistical": """
        cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
        cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
        max(x, /, *, axis=None, keepdims=False)
        mean(x, /, *, axis=None, keepdims=False)
        min(x, /, *, axis=None, keepdims=False)
        prod(x, /, *, axis=None, dtype=None, keepdims=False)
        std(x, /, *, axis=None, correction=0.0, keepdims=False)
        sum(x, /, *, axis=None, dtype=None, keepdims=False)
        var(x, /, *, axis=None, correction=0.0, keepdims=False)
    """,
    "utility": """
        all(x, /, *, axis=None, keepdims=False)
        any(x, /, *, axis=None, keepdims=False)
        diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
    """,
}
SIGNATURES = {line.strip().partition("(")[0]: line.strip() for text in FAMILIES.values() for line in text.split("\n")}
del SIGNATURES[""]
METHODS = """
    __abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__ __dlpack_device__ __eq__ __float__
    __floordiv__ __ge__ __getitem__ __gt__ __index__ __int__ __invert__ __le__ __lshift__ __lt__ __matmul__ __mod__
    __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __rshift__ __setitem__ __sub__ __truediv__ __xor__ to_device
    __radd__ __rand__ __rfloordiv__ __rlshift__ __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rrshift__ __rsub__
    __rtruediv__ __rxor__
"""


def found(xp: Any, name: str) -> Any:
    for part in name.split("."):
        xp = getattr(xp, part)
    return xp


def wanted(name: str) -> inspect.Signature:
    """The standard's signature, of a function that is made for it."""
    names: dict[str, Any] = {}
    text = SIGNATURES[name].removeprefix("linalg.").removeprefix("fft.")
    exec(f"def {text}: pass", names)
    function = names[name.rpartition(".")[2]]
    return inspect.signature(function)


@pytest.mark.parametrize("name", SIGNATURES)
def test_function_is_there_and_takes_the_standards_arguments(xp: Any, name: str):
    function = found(xp, name)
    try:
        signature = inspect.signature(function)
    except ValueError:  # compiled, and says nothing
        assert callable(function)
        return
    standard = wanted(name).parameters.values()
    placed = [p for p in standard if p.kind is p.POSITIONAL_ONLY or p.kind is p.POSITIONAL_OR_KEYWORD]
    named = [p for p in standard if p.kind is p.KEYWORD_ONLY or p.kind is p.POSITIONAL_OR_KEYWORD]
    signature.bind(*[0 for _ in placed], **{p.name: 0 for p in standard if p.kind is p.KEYWORD_ONLY})
    must = [p for p in placed if p.default is p.empty and p.kind is p.POSITIONAL_ONLY]
    signature.bind(*[0 for _ in must], **{p.name: 0 for p in named})
    if any(p.kind is p.VAR_POSITIONAL for p in standard):
        signature.bind(0, 0, 0)


@pytest.mark.parametrize("name", SIGNATURES)
def test_our_signature_is_the_standards(lib: Any, xp: Any, name: str):
    if not lib.is_ours:
        return
    function = found(xp, name)
    parameters = [p.replace(annotation=p.empty) for p in inspect.signature(function).parameters.values()]
    # Arguments by name only in the standard may be given by place too, as in NumPy: `sum(x, 0)`, `diff(x, 2)`.
    ours = {p.name: p.replace(kind=p.KEYWORD_ONLY) if p.default is not p.empty else p for p in parameters}
    standard = wanted(name).parameters.values()
    assert ours == {p.name: p.replace(kind=p.KEYWORD_ONLY) if p.default is not p.empty else p for p in standard}
    assert all(p.annotation is not p.empty for p in inspect.signature(function).parameters.values())
    assert ">>> " in (function.__doc__ or ""), "an example"


def test_axes_may_be_given_in_their_place(lib: Any, xp: Any):
    if not lib.is_ours:
        return
    x = xp.asarray([[3, 1, 2], [6, 5, 9]])
    assert xp.expand_dims(x, 1).shape == (2, 1, 3) and xp.expand_dims(x, (0, -1)).shape == (1, 2, 3, 1)
    assert xp.diff(x, 2).tolist() == [[3], [5]] and xp.diff(x, 1, 0).tolist() == [[3, 4, 7]]
    assert xp.sum(x, 0).tolist() == [9, 6, 11] and xp.argmax(x, 1).tolist() == [0, 2]
    assert xp.sort(x, 0).tolist() == [[3, 1, 2], [6, 5, 9]] and xp.flip(x, 1)[0, :].tolist() == [2, 1, 3]
    assert xp.concat([x, x], 1).shape == (2, 6) and xp.roll(x, 1, 1)[0, :].tolist() == [2, 3, 1]
    assert xp.permute_dims(x, (-1, 0)).shape == (3, 2)
    assert xp.searchsorted(xp.asarray([1, 3, 5]), 4).tolist() == 2


@pytest.mark.parametrize("name", METHODS.split())
def test_array_has_the_method(xp: Any, name: str):
    assert callable(getattr(xp.asarray(1), name))


@pytest.mark.parametrize("name", ["T", "device", "dtype", "mT", "ndim", "shape", "size"])
def test_array_has_the_attribute(xp: Any, name: str):
    getattr(xp.ones((2, 2)), name)


def test_all_lists_the_standards_names(lib: Any, xp: Any):
    if not lib.is_ours:
        return
    standard = {name.partition(".")[0] for name in SIGNATURES}
    assert standard <= set(xp.__all__)
    assert all(hasattr(xp, name) for name in xp.__all__)
    for extension in ("linalg", "fft"):
        names = {name.partition(".")[2] for name in SIGNATURES if name.startswith(extension + ".")}
        assert names <= set(getattr(xp, extension).__all__)
