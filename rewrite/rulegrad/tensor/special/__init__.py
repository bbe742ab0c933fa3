"""Special functions under the names of `torch.special`: part of the graph, with gradients, on every device.

They are series of tensor operations (`coefficients`). Integers become floats as in `exp`; float16 and bfloat16 are
computed in float32 and rounded once. All raise DtypeError for complex numbers and for values that are not tensors.
"""

from typing import TYPE_CHECKING

from rulegrad.support.late import late_names
from rulegrad.tensor.outputs import taking_out

if TYPE_CHECKING:
    from rulegrad.tensor.special.bessel import (
        airy_ai,
        bessel_j0,
        bessel_j1,
        bessel_y0,
        bessel_y1,
        i0,
        i0e,
        i1,
        i1e,
        modified_bessel_i0,
        modified_bessel_i1,
        modified_bessel_k0,
        modified_bessel_k1,
        scaled_modified_bessel_k0,
        scaled_modified_bessel_k1,
        spherical_bessel_j0,
    )
    from rulegrad.tensor.special.gamma import (
        gammainc,
        gammaincc,
        multigammaln,
        zeta,
    )
    from rulegrad.tensor.special.names import (
        digamma,
        entr,
        erf,
        erfc,
        exp2,
        expit,
        expm1,
        gammaln,
        log1p,
        log_softmax,
        logit,
        logsumexp,
        polygamma,
        psi,
        round,
        sinc,
        softmax,
        xlog1py,
        xlogy,
    )
    from rulegrad.tensor.special.normal import (
        erfcx,
        erfinv,
        log_ndtr,
        ndtr,
        ndtri,
    )
    from rulegrad.tensor.special.polynomials import (
        chebyshev_polynomial_t,
        chebyshev_polynomial_u,
        chebyshev_polynomial_v,
        chebyshev_polynomial_w,
        hermite_polynomial_h,
        hermite_polynomial_he,
        laguerre_polynomial_l,
        legendre_polynomial_p,
        shifted_chebyshev_polynomial_t,
        shifted_chebyshev_polynomial_u,
        shifted_chebyshev_polynomial_v,
        shifted_chebyshev_polynomial_w,
    )

__getattr__ = late_names(
    __name__,
    {
        "bessel": (
            "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 i0 i0e i1 i1e modified_bessel_i0 "
            "modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 "
            "scaled_modified_bessel_k1 spherical_bessel_j0"
        ),
        "gamma": "gammainc gammaincc multigammaln zeta",
        "names": (
            "digamma entr erf erfc exp2 expit expm1 gammaln log1p log_softmax logit logsumexp polygamma psi "
            "round sinc softmax xlog1py xlogy"
        ),
        "normal": "erfcx erfinv log_ndtr ndtr ndtri",
        "polynomials": (
            "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
            "hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p "
            "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
            "shifted_chebyshev_polynomial_w"
        ),
    },
    taking_out,
)

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]
