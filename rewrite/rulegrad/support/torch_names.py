"""PyTorch's names in `torch` that the package `rulegrad` has; `rulegrad.pytorch.names` defines them.

A list of its own, so that a name which is not there is known without loading tensors.
"""

from __future__ import annotations

from typing import Final

_SAME: Final = """
abs absolute acos acosh adaptive_avg_pool1d adaptive_max_pool1d add addbmm addcdiv addcmul addmm addmv addr
adjoint all allclose amax amin aminmax angle any arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh
argmax argmin argsort argwhere as_strided as_strided_scatter asin asinh atan atan2 atanh atleast_1d atleast_2d
atleast_3d avg_pool1d
baddbmm batch_norm bernoulli binary_cross_entropy_with_logits bincount bitwise_and bitwise_left_shift bitwise_not
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

_REDUCTIONS: Final = "can_cast equal max median min nanmedian promote_types result_type std std_mean var var_mean"
#: Functions of this name in `pytorch.reductions`: they are PyTorch's, where the methods of Tensor are NumPy's.
REDUCTIONS: Final = frozenset(_REDUCTIONS.split())

_FUNCTIONAL: Final = """
alpha_dropout bilinear celu_ channel_shuffle ctc_loss embedding_bag feature_alpha_dropout pixel_shuffle pixel_unshuffle
rrelu rrelu_ selu_ threshold_
"""
#: Functions that are those of `nn.functional`.
FUNCTIONAL: Final = frozenset(_FUNCTIONAL.split())

#: Functions of `pytorch.more_functions`.
MORE_FUNCTIONS: Final = frozenset(["chain_matmul", "clear_autocast_cache", "poisson", "unravel_index", "vander"])
#: Functions of the generator of random numbers.
SEEDS: Final = frozenset(["initial_seed", "seed"])
#: Functions of `pytorch.threads`.
THREADS: Final = frozenset(["get_num_interop_threads", "get_num_threads", "set_num_interop_threads", "set_num_threads"])

_MAKING: Final = """
arange empty eye full linspace logspace normal ones rand randint randn randperm scalar_tensor tril_indices triu_indices
zeros
"""
#: Those of the methods that make a tensor of nothing: PyTorch's have arguments in common.
MAKING: Final = frozenset(_MAKING.split())

#: Functions that are methods of Tensor with another name.
RENAMED: Final = {"concatenate": "cat", "row_stack": "vstack"}

_IN_PLACE: Final = """
abs acos acosh asin asinh atan atanh ceil clamp clamp_max clamp_min clip cos cosh deg2rad detach erf erfc
exp exp2 expm1 fill fix floor frac log log10 log1p log2 logit nan_to_num neg negative rad2deg reciprocal relu round
rsqrt sigmoid sin sinc sinh sqrt square tan tanh trunc zero
"""
#: Functions in place, of methods that have such a form.
IN_PLACE: Final = frozenset(f"{name}_" for name in _IN_PLACE.split())

#: Windows for spectra: those of `rulegrad.signal.windows`, of which these are periodic.
WINDOWS: Final = frozenset(["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"])

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
_COPIES: Final = """
alias as_strided detach diagonal expand narrow permute select split split_with_sizes squeeze t transpose unbind
unfold unsqueeze view view_as_complex view_as_real
"""
#: Functions that copy what the methods without `_copy` give a view of.
COPIES: Final = frozenset(f"{name}_copy" for name in _COPIES.split())

_OTHERS: Final = """
sparse_coo_tensor sparse_bsc sparse_bsr sparse_coo sparse_csc sparse_csr
complex32 float8_e4m3fnuz float8_e5m2fnuz qint32 qint8 quint8
PyTorchFileReader ScriptModule is_deterministic_algorithms_warn_only_enabled is_warn_always_enabled set_warn_always
Event OutOfMemoryError Size Stream SymBool ops SymFloat SymInt TensorType TypedStorage UntypedStorage _assert
_assert_async are_deterministic_algorithms_enabled as_tensor asarray channels_last channels_last_3d contiguous_format
device dtype e finfo from_dlpack from_numpy frombuffer get_autocast_dtype get_autocast_gpu_dtype get_default_device
get_default_dtype get_float32_matmul_precision iinfo inf inference_mode is_autocast_cpu_enabled is_autocast_enabled
is_grad_enabled is_inference_mode_enabled is_tensor layout memory_format meshgrid nan newaxis pi pow preserve_format
set_default_device set_default_dtype set_default_tensor_type set_float32_matmul_precision set_grad_enabled
set_printoptions strided torch typename use_deterministic_algorithms DeviceObjType Future
"""
#: All names that are there.
NAMES: Final = frozenset(
    [*METHODS, *COPIES, *SHORT_DTYPES, *TYPED, *REDUCTIONS, *FUNCTIONAL, *RENAMED, *IN_PLACE, *WINDOWS]
    + [*MORE_FUNCTIONS, *SEEDS, *THREADS]
) | frozenset([*_DTYPES.split(), *_OTHERS.split()])


def is_foreach(name: str) -> bool:
    """Whether it is the name of a function of lists of tensors, such as `_foreach_add_`."""
    return name.startswith("_foreach_")
