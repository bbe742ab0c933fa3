"""Which of PyTorch's names in `torch` the package `rulegrad` has; `rulegrad.tensor.torch_names` has what they mean.

A list of its own, so that a name which is not there is known without loading tensors.
"""

from __future__ import annotations

from typing import Final

_SAME: Final = """
abs absolute acos acosh adaptive_avg_pool1d adaptive_max_pool1d add addbmm addcdiv addcmul addmm addmv addr
adjoint all allclose amax amin aminmax angle any arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh
argmax argmin argsort argwhere asin asinh atan atan2 atanh atleast_1d atleast_2d atleast_3d avg_pool1d baddbmm
batch_norm bernoulli binary_cross_entropy_with_logits bincount bitwise_and bitwise_left_shift bitwise_not
bitwise_or bitwise_right_shift bitwise_xor block_diag bmm broadcast_tensors broadcast_to bucketize
cartesian_prod cat cdist ceil celu cholesky cholesky_inverse cholesky_solve chunk clamp clamp_max clamp_min clip
clone column_stack combinations complex concat conj conj_physical constant_pad_nd conv1d conv2d conv3d
conv_transpose1d conv_transpose2d conv_transpose3d copysign corrcoef cos cosh cosine_embedding_loss
cosine_similarity count_nonzero cov cross cummax cummin cumprod cumsum cumulative_trapezoid deg2rad det detach
diag diag_embed diagflat diagonal diagonal_scatter diff digamma dist div divide dot dropout dsplit dstack einsum
embedding empty empty_like eq erf erfc erfinv exp exp2 expm1 eye fill fix flatten flip fliplr flipud float_power
floor floor_divide fmax fmin fmod frac frexp full full_like gather gcd ge geqrf ger gradient greater
greater_equal group_norm gt hardshrink heaviside hinge_embedding_loss histc histogram histogramdd hsplit hstack
hypot i0 igamma igammac imag index_add index_copy index_fill index_put index_reduce index_select inner
instance_norm inverse is_complex is_floating_point is_nonzero is_signed isclose isfinite isin isinf isnan
isneginf isposinf isreal istft kl_div kron kthvalue layer_norm lcm ldexp le lerp less less_equal lgamma linspace
log log10 log1p log2 log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and logical_not logical_or
logical_xor logit logspace logsumexp lt lu lu_solve lu_unpack margin_ranking_loss masked_fill masked_scatter
masked_select matmul matrix_exp matrix_power max_pool1d max_pool2d max_pool3d maximum mean minimum mm
mode moveaxis movedim msort mul multinomial multiply mv mvlgamma nan_to_num nanmean nanquantile nansum narrow ne
neg negative nextafter nonzero nonzero_static norm normal not_equal numel ones ones_like orgqr ormqr outer
pairwise_distance pca_lowrank pdist permute pinverse poisson_nll_loss polar polygamma positive prelu prod
put qr quantile rad2deg rand rand_like randint randint_like randn randn_like randperm ravel real reciprocal relu
remainder renorm repeat_interleave reshape rms_norm roll rot90 round rsqrt rsub scalar_tensor scatter
scatter_add scatter_reduce searchsorted select select_scatter selu sgn sigmoid sign signbit sin sinc sinh
slice_scatter slogdet softmax sort split split_with_sizes sqrt square squeeze stack stft sub subtract sum svd
svd_lowrank swapaxes swapdims t take take_along_dim tan tanh tensor_split tensordot threshold tile topk
transpose trapezoid trapz triangular_solve tril tril_indices triplet_margin_loss triu triu_indices true_divide
trunc unbind unflatten unique unique_consecutive unsqueeze vdot view_as_complex view_as_real vsplit vstack where
xlogy zeros zeros_like
"""
#: Functions that are methods of Tensor.
METHODS: Final = frozenset(_SAME.split())

#: Names whose functions in PyTorch do something else than the methods of Tensor, and what to write.
APART: Final = {
    **dict.fromkeys(
        ("max", "min"), "Tensor.{0} gives the values alone; write x.{0}(dim), x.arg{0}(dim), or x.a{0}(dim)"
    ),
    **dict.fromkeys(("median", "nanmedian"), "Tensor.{0} gives the values alone, the mean of the two in the middle"),
    **dict.fromkeys(("std", "var", "std_mean", "var_mean"), "Tensor.{0} divides by n; write x.{0}(dim, correction=1)"),
    **dict.fromkeys(("can_cast", "result_type"), "dtypes are promoted as in NumPy; write rulegrad.array_api.{0}(…)"),
    "promote_types": "dtypes are promoted as in NumPy; write rulegrad.array_api.result_type(a, b)",
    "equal": "Tensor.{0} is elementwise; write numpy.array_equal(a, b)",
}

#: PyTorch's short names of dtypes, beside the full ones.
SHORT_DTYPES: Final = {
    "half": "float16", "float": "float32", "double": "float64", "short": "int16", "int": "int32", "long": "int64",
    "cfloat": "complex64", "cdouble": "complex128",
}  # fmt: skip

#: Constructors of one dtype, which annotations name.
TYPED: Final = {
    "BFloat16Tensor": "bfloat16", "BoolTensor": "bool", "ByteTensor": "uint8", "CharTensor": "int8",
    "DoubleTensor": "float64", "FloatTensor": "float32", "HalfTensor": "float16", "IntTensor": "int32",
    "LongTensor": "int64", "ShortTensor": "int16",
}  # fmt: skip

_DTYPES: Final = """
bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 float8_e4m3fn float8_e5m2
complex64 complex128
"""
_OTHERS: Final = """
Size _assert as_tensor device dtype e finfo from_numpy get_default_dtype iinfo inf inference_mode is_grad_enabled
is_tensor meshgrid nan newaxis pi pow set_grad_enabled
"""
#: All names that are there, and those for which there is advice.
NAMES: Final = frozenset([*METHODS, *APART, *SHORT_DTYPES, *TYPED, *_DTYPES.split(), *_OTHERS.split()])
