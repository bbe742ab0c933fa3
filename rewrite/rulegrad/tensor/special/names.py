"""Functions of `torch.special` that tensors have as methods, and those of entropies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rulegrad.tensor.special.series import both, sloped, special, special_of_two

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor


# ---- entropies ----


@special
def entr(input: Tensor) -> Tensor:
    """`-input * log(input)`, 0 at 0, and -inf for negative numbers.

    >>> from rulegrad import Tensor
    >>> entr(Tensor([0.5, -1.0])).tolist()
    [0.3465735912322998, -inf]
    """

    def value(x: Tensor) -> Tensor:
        return (x < 0).where(-math.inf, -x.xlogy((x < 0).where(1.0, x)))

    return sloped(input, value, lambda x: -(x.log() + 1.0))


@special_of_two
def xlog1py(input: Tensor, other: Tensor) -> Tensor:
    """`input * log1p(other)`, and 0 where `input` is 0 (but nan where `other` is).

    >>> from rulegrad import Tensor
    >>> xlog1py(Tensor([0.0, 2.0]), Tensor([-1.0, 0.0])).tolist()
    [0.0, 0.0]
    """
    zero = input.equal(0) & ((other <= -1) | other.equal(math.inf))
    return input * zero.where(0.0, other).log1p()


def xlogy(input: Any, other: Any) -> Tensor:
    """`input * log(other)`, and 0 where `input` is 0 (but nan where `other` is).

    >>> from rulegrad import Tensor
    >>> xlogy(Tensor([0.0, 2.0]), 1.0).tolist()
    [0.0, 0.0]
    """
    first, second = both(input, other, "xlogy")
    return first.xlogy(second)


# ---- other names of methods ----


def digamma(input: Tensor) -> Tensor:
    """The derivative of `gammaln`.

    >>> from rulegrad import Tensor
    >>> f"{digamma(Tensor(1.0)).item():.3f}"
    '-0.577'
    """
    return input.digamma()


def polygamma(n: int, input: Tensor) -> Tensor:
    """The derivative of `digamma` of the order `n`; infinite at 0, -1, -2, … Raises ShapeError for n < 0 and n > 170.

    >>> from rulegrad import Tensor
    >>> f"{polygamma(2, Tensor(1.0)).item():.3f}"
    '-2.404'
    """
    return input.polygamma(n)


def erf(input: Tensor) -> Tensor:
    """The error function.

    >>> from rulegrad import Tensor
    >>> erf(Tensor([0.0, 10.0])).tolist()
    [0.0, 1.0]
    """
    return input.erf()


def erfc(input: Tensor) -> Tensor:
    """`1 - erf(input)`, with all digits where it is small.

    >>> from rulegrad import Tensor
    >>> erfc(Tensor([0.0, -10.0])).tolist()
    [1.0, 2.0]
    """
    return input.erfc()


def exp2(input: Tensor) -> Tensor:
    """2 to the power of each element.

    >>> from rulegrad import Tensor
    >>> exp2(Tensor([0.0, 3.0])).tolist()
    [1.0, 8.0]
    """
    return input.exp2()


def expit(input: Tensor) -> Tensor:
    """`1 / (1 + exp(-input))`, PyTorch's `sigmoid`.

    >>> from rulegrad import Tensor
    >>> expit(Tensor([0.0, 100.0])).tolist()
    [0.5, 1.0]
    """
    return input.sigmoid()


def expm1(input: Tensor) -> Tensor:
    """`exp(input) - 1`, with all digits near 0.

    >>> from rulegrad import Tensor
    >>> expm1(Tensor(0.0)).item()
    0.0
    """
    return input.expm1()


def gammaln(input: Tensor) -> Tensor:
    """The logarithm of the absolute value of the gamma function, `lgamma`.

    >>> from rulegrad import Tensor
    >>> gammaln(Tensor([1.0, 2.0])).tolist()
    [0.0, 0.0]
    """
    return input.lgamma()


def log1p(input: Tensor) -> Tensor:
    """`log(1 + input)`, with all digits near 0.

    >>> from rulegrad import Tensor
    >>> log1p(Tensor(0.0)).item()
    0.0
    """
    return input.log1p()


def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """`log(input / (1 - input))`, of numbers limited to eps … 1 - eps where `eps` is given.

    >>> from rulegrad import Tensor
    >>> logit(Tensor([0.5, 1.0])).tolist()
    [0.0, inf]
    """
    return input.logit(eps)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of `softmax`, exact where a share is tiny.

    >>> from rulegrad import Tensor
    >>> log_softmax(Tensor([1.0, -1000.0]), 0).tolist()
    [0.0, -1001.0]
    """
    return input.log_softmax(dim, dtype)


def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """`log(exp(input).sum(dim))`, without overflow.

    >>> from rulegrad import Tensor
    >>> f"{logsumexp(Tensor([1.0, 1.0]), 0).item():.3f}"
    '1.693'
    """
    return input.logsumexp(dim, keepdim)


def psi(input: Tensor) -> Tensor:
    """SciPy's name of `digamma`.

    >>> from rulegrad import Tensor
    >>> f"{psi(Tensor(1.0)).item():.3f}"
    '-0.577'
    """
    return input.digamma()


def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest number with so many decimals, halves to even.

    >>> from rulegrad import Tensor
    >>> round(Tensor([0.5, 1.5])).tolist()
    [0.0, 2.0]
    """
    return input.round(decimals)


def sinc(input: Tensor) -> Tensor:
    """`sin(pi * input) / (pi * input)`, and 1 at 0.

    >>> from rulegrad import Tensor
    >>> sinc(Tensor([0.0])).tolist()
    [1.0]
    """
    return input.sinc()


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """`exp(input)` as shares of its sum along `dim`.

    >>> from rulegrad import Tensor
    >>> softmax(Tensor([1.0, 1.0]), 0).tolist()
    [0.5, 0.5]
    """
    return input.softmax(dim, dtype)
