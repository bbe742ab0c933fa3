"""`Tensor`: an array whose operations build a graph, which is compiled and run when its values are needed.

The class is a table. A row says which function a method is: `exp, exp_ = with_in_place(transcendental.exp)` is the
method `exp` and its in-place form; `a = b = …` is one method with two names, and `with_in_place(…, "absolute")` says
how errors name the second one's in-place form. The functions are in the modules of this folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.eager import eager
from rulegrad.tensor import (
    activations,
    addresses,
    advanced,
    arithmetic,
    arranging,
    attention,
    autocasting,
    autograd,
    bitwise,
    casts,
    class_losses,
    contractions,
    convolution,
    creation,
    cumulative,
    distances,
    dlpack,
    elementwise,
    facts,
    functions,
    gathering,
    hooks,
    inplace,
    joining,
    losses,
    matrices,
    movement,
    normalization,
    order_statistics,
    padding,
    placing,
    pooling,
    products,
    protocols,
    random,
    random_in_place,
    reduce,
    scattering,
    searching,
    sets,
    sorting,
    spectrograms,
    statistics,
    transcendental,
    values,
)
from rulegrad.tensor.aliasing import View
from rulegrad.tensor.casts import conversion
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.history import GradientPoint
from rulegrad.tensor.inplace import in_place, with_in_place
from rulegrad.tensor.operands import taking_old_order
from rulegrad.tensor.special_methods import SpecialMethods
from rulegrad.tensor.table import attribute, name_methods


class Tensor(SpecialMethods):
    """A lazy array on a device, with NumPy's operations and PyTorch's gradients.

    Operations build a graph of nodes (`.uop`); `realize`, `numpy`, `item`, `print` and the like compute it.

    >>> from rulegrad import Tensor
    >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> (x @ x.T).sum(axis=0).tolist()
    [16.0, 36.0]
    """

    __slots__ = ("__dict__",)  # programs set attributes of their own, as on PyTorch's tensors

    #: The mode inside a `with Tensor.train(mode):`, for `dropout` and for every module; None outside.
    training: ClassVar[bool | None] = None

    @classmethod
    @contextmanager
    def train(cls, mode: bool = True) -> Iterator[None]:
        """Inside `with Tensor.train():` every module is in training mode, and `dropout` drops; with False, neither.

        >>> with Tensor.train(False):
        ...     Tensor([1.0, 2.0]).dropout(0.5).tolist()
        [1.0, 2.0]
        """
        before, cls.training = cls.training, mode
        try:
            yield
        finally:
            cls.training = before

    # facts
    numel = nelement = facts.numel
    dim = facts.dim
    element_size = facts.element_size
    is_floating_point = facts.is_floating_point
    is_contiguous = facts.is_contiguous
    stride = facts.stride
    storage_offset = facts.storage_offset
    type_as = facts.type_as
    is_complex = facts.is_complex
    is_signed = facts.is_signed
    is_nonzero = facts.is_nonzero
    ndimension = facts.ndimension
    is_shared = is_pinned = facts.is_shared
    is_inference = facts.is_inference
    is_conj = is_neg = facts.is_no_mark
    data_ptr = addresses.data_ptr
    untyped_storage = addresses.untyped_storage

    # values and devices
    realize = values.realize
    numpy = values.numpy
    item = values.item
    tolist = values.tolist
    to = values.to
    cpu = values.cpu
    cuda = values.cuda
    get_device = values.get_device
    pin_memory = share_memory_ = to_dense = resolve_conj = resolve_neg = values.itself
    assign = values.assign
    shard = placing.shard

    # dtypes
    cast = astype = casts.cast
    bitcast = casts.bitcast

    # elementwise
    add, add_ = with_in_place(taking_old_order(elementwise.add))
    sub, sub_ = with_in_place(taking_old_order(elementwise.sub))
    subtract, subtract_ = with_in_place(taking_old_order(elementwise.sub), "subtract")
    mul, mul_ = with_in_place(elementwise.mul)
    multiply, multiply_ = with_in_place(elementwise.mul, "multiply")
    div, div_ = with_in_place(elementwise.div)
    divide, divide_ = with_in_place(elementwise.div, "divide")
    true_divide, true_divide_ = with_in_place(elementwise.div, "true_divide")
    floor_divide, floor_divide_ = with_in_place(elementwise.floor_divide)
    remainder, remainder_ = with_in_place(elementwise.remainder)
    pow, pow_ = with_in_place(elementwise.pow)
    power = pow
    neg, neg_ = with_in_place(elementwise.neg)
    negative, negative_ = with_in_place(elementwise.neg, "negative")
    maximum = elementwise.maximum
    minimum = elementwise.minimum
    clip, clip_ = with_in_place(elementwise.clip)
    clamp, clamp_ = with_in_place(elementwise.clamp)
    where = elementwise.where
    equal = eq = elementwise.equal
    eq_ = in_place(elementwise.equal, "eq_")
    not_equal, not_equal_ = with_in_place(elementwise.not_equal)
    ne, ne_ = with_in_place(elementwise.not_equal, "ne")
    less, less_ = with_in_place(elementwise.less)
    lt, lt_ = with_in_place(elementwise.less, "lt")
    less_equal, less_equal_ = with_in_place(elementwise.less_equal)
    le, le_ = with_in_place(elementwise.less_equal, "le")
    greater, greater_ = with_in_place(elementwise.greater)
    gt, gt_ = with_in_place(elementwise.greater, "gt")
    greater_equal, greater_equal_ = with_in_place(elementwise.greater_equal)
    ge, ge_ = with_in_place(elementwise.greater_equal, "ge")
    bitwise_and, bitwise_and_ = with_in_place(bitwise.bitwise_and)
    bitwise_or, bitwise_or_ = with_in_place(bitwise.bitwise_or)
    bitwise_xor, bitwise_xor_ = with_in_place(bitwise.bitwise_xor)
    bitwise_not, bitwise_not_ = with_in_place(bitwise.bitwise_not)
    bitwise_invert = bitwise_not
    logical_not, logical_not_ = with_in_place(bitwise.logical_not)
    logical_and, logical_and_ = with_in_place(bitwise.logical_and)
    logical_or, logical_or_ = with_in_place(bitwise.logical_or)
    logical_xor, logical_xor_ = with_in_place(bitwise.logical_xor)
    lshift = bitwise_left_shift = bitwise.lshift
    rshift = bitwise_right_shift = bitwise.rshift

    # transcendental
    exp, exp_ = with_in_place(transcendental.exp)
    exp2, exp2_ = with_in_place(transcendental.exp2)
    expm1, expm1_ = with_in_place(transcendental.expm1)
    log, log_ = with_in_place(transcendental.log)
    log2, log2_ = with_in_place(transcendental.log2)
    log10, log10_ = with_in_place(transcendental.log10)
    log1p, log1p_ = with_in_place(transcendental.log1p)
    logaddexp = transcendental.logaddexp
    logaddexp2 = transcendental.logaddexp2
    sqrt, sqrt_ = with_in_place(transcendental.sqrt)
    rsqrt, rsqrt_ = with_in_place(transcendental.rsqrt)
    reciprocal, reciprocal_ = with_in_place(transcendental.reciprocal)
    square, square_ = with_in_place(transcendental.square)
    hypot, hypot_ = with_in_place(transcendental.hypot)
    sin, sin_ = with_in_place(transcendental.sin)
    cos, cos_ = with_in_place(transcendental.cos)
    tan, tan_ = with_in_place(transcendental.tan)
    asin, asin_ = with_in_place(transcendental.asin)
    arcsin, arcsin_ = with_in_place(transcendental.asin, "arcsin")
    acos, acos_ = with_in_place(transcendental.acos)
    arccos, arccos_ = with_in_place(transcendental.acos, "arccos")
    atan, atan_ = with_in_place(transcendental.atan)
    arctan, arctan_ = with_in_place(transcendental.atan, "arctan")
    atan2, atan2_ = with_in_place(transcendental.atan2)
    arctan2, arctan2_ = with_in_place(transcendental.atan2, "arctan2")
    deg2rad, deg2rad_ = with_in_place(transcendental.deg2rad)
    rad2deg, rad2deg_ = with_in_place(transcendental.rad2deg)
    sinc, sinc_ = with_in_place(transcendental.sinc)
    sinh, sinh_ = with_in_place(transcendental.sinh)
    cosh, cosh_ = with_in_place(transcendental.cosh)
    tanh, tanh_ = with_in_place(transcendental.tanh)
    asinh, asinh_ = with_in_place(transcendental.asinh)
    arcsinh, arcsinh_ = with_in_place(transcendental.asinh, "arcsinh")
    acosh, acosh_ = with_in_place(transcendental.acosh)
    arccosh, arccosh_ = with_in_place(transcendental.acosh, "arccosh")
    atanh, atanh_ = with_in_place(transcendental.atanh)
    arctanh, arctanh_ = with_in_place(transcendental.atanh, "arctanh")
    erf, erf_ = with_in_place(transcendental.erf)
    erfc, erfc_ = with_in_place(transcendental.erfc)
    lgamma, lgamma_ = with_in_place(transcendental.lgamma)
    digamma, digamma_ = with_in_place(transcendental.digamma)
    erfinv, erfinv_ = with_in_place(transcendental.erfinv)
    i0, i0_ = with_in_place(transcendental.i0)
    igamma, igamma_ = with_in_place(transcendental.igamma)
    igammac, igammac_ = with_in_place(transcendental.igammac)
    mvlgamma, mvlgamma_ = with_in_place(transcendental.mvlgamma)
    polygamma, polygamma_ = with_in_place(transcendental.polygamma)
    logit, logit_ = with_in_place(transcendental.logit)

    # arithmetic
    abs, abs_ = with_in_place(arithmetic.abs)
    absolute, absolute_ = with_in_place(arithmetic.abs, "absolute")
    sign, sign_ = with_in_place(arithmetic.sign)
    sgn, sgn_ = with_in_place(arithmetic.sign, "sgn")
    signbit = arithmetic.signbit
    copysign, copysign_ = with_in_place(arithmetic.copysign)
    conj = conj_physical = arithmetic.conj
    angle = arithmetic.angle
    complex = classmethod(arithmetic.complex)
    positive = arithmetic.positive
    nextafter, nextafter_ = with_in_place(arithmetic.nextafter)
    isnan = arithmetic.isnan
    frexp = arithmetic.frexp
    ldexp, ldexp_ = with_in_place(arithmetic.ldexp)
    fmod, fmod_ = with_in_place(arithmetic.fmod)
    gcd, gcd_ = with_in_place(arithmetic.gcd)
    lcm, lcm_ = with_in_place(arithmetic.lcm)
    float_power, float_power_ = with_in_place(arithmetic.float_power)
    heaviside, heaviside_ = with_in_place(arithmetic.heaviside)
    lerp, lerp_ = with_in_place(arithmetic.lerp)
    isclose = arithmetic.isclose
    allclose = arithmetic.allclose
    nan_to_num, nan_to_num_ = with_in_place(arithmetic.nan_to_num)
    rsub = arithmetic.rsub
    polar = arithmetic.polar
    view_as_complex = arithmetic.view_as_complex
    view_as_real = arithmetic.view_as_real
    addcmul, addcmul_ = with_in_place(taking_old_order(arithmetic.addcmul))
    addcdiv, addcdiv_ = with_in_place(taking_old_order(arithmetic.addcdiv))
    xlogy, xlogy_ = with_in_place(arithmetic.xlogy)

    # rounding, kinds of values, activations
    floor, floor_ = with_in_place(functions.floor)
    ceil, ceil_ = with_in_place(functions.ceil)
    round, round_ = with_in_place(functions.round)
    trunc, trunc_ = with_in_place(functions.trunc)
    fix, fix_ = with_in_place(functions.trunc, "fix")
    isinf = functions.isinf
    isfinite = functions.isfinite
    relu, relu_ = with_in_place(functions.relu)
    leaky_relu = functions.leaky_relu
    sigmoid, sigmoid_ = with_in_place(functions.sigmoid)
    expit = sigmoid
    silu = functions.silu
    softplus = functions.softplus
    frac, frac_ = with_in_place(functions.frac)
    clamp_min, clamp_min_ = with_in_place(functions.clamp_min)
    clamp_max, clamp_max_ = with_in_place(functions.clamp_max)
    fmax = functions.fmax
    fmin = functions.fmin
    isposinf = functions.isposinf
    isneginf = functions.isneginf
    isreal = functions.isreal

    # movement
    reshape = movement.reshape
    permute = movement.permute
    expand = broadcast_to = movement.expand
    shrink = movement.shrink
    flip = movement.flip
    transpose = swapdims = swapaxes = movement.transpose
    transpose_ = swapdims_ = swapaxes_ = inplace.transpose_
    resize_ = inplace.resize_
    resize_as_ = inplace.resize_as_
    squeeze, squeeze_ = movement.squeeze, inplace.squeeze_
    unsqueeze, unsqueeze_ = movement.unsqueeze, inplace.unsqueeze_
    flatten = ravel = movement.flatten
    contiguous = movement.contiguous
    clone = movement.clone
    view = movement.view
    view_as = movement.view_as
    reshape_as = movement.reshape_as
    expand_as = movement.expand_as
    unflatten = movement.unflatten
    narrow = movement.narrow
    select = movement.select
    fliplr = movement.fliplr
    flipud = movement.flipud
    sum_to_size = movement.sum_to_size
    t, t_ = movement.t, inplace.t_
    adjoint = movement.adjoint

    # joining
    cat = joining.cat
    stack = joining.stack
    split = joining.split
    chunk = joining.chunk
    repeat = joining.repeat
    split_with_sizes = joining.split_with_sizes
    atleast_1d = joining.atleast_1d
    atleast_2d = joining.atleast_2d
    atleast_3d = joining.atleast_3d
    hsplit = joining.hsplit
    vsplit = joining.vsplit
    dsplit = joining.dsplit
    block_diag = joining.block_diag
    cartesian_prod = joining.cartesian_prod
    combinations = joining.combinations

    # creation
    full = classmethod(creation.full)
    zeros = classmethod(creation.zeros)
    empty = classmethod(creation.empty)
    ones = classmethod(creation.ones)
    full_like = creation.full_like
    zeros_like = creation.zeros_like
    ones_like = creation.ones_like
    empty_like = creation.empty_like
    arange = classmethod(creation.arange)
    linspace = classmethod(creation.linspace)
    eye = classmethod(creation.eye)
    fill = creation.fill
    scalar_tensor = classmethod(creation.scalar_tensor)
    logspace = classmethod(creation.logspace)
    new = creation.new
    new_tensor = creation.new_tensor
    new_zeros = creation.new_zeros
    new_ones = creation.new_ones
    new_empty = creation.new_empty
    new_full = creation.new_full

    # reductions
    sum = reduce.sum
    prod = reduce.prod
    mean = reduce.mean
    var = reduce.var
    std = reduce.std
    var_mean = reduce.var_mean
    std_mean = reduce.std_mean
    max = reduce.max
    min = reduce.min
    amax = reduce.amax
    amin = reduce.amin
    any = reduce.any
    all = reduce.all
    argmax = reduce.argmax
    argmin = reduce.argmin
    renorm, renorm_ = with_in_place(normalization.renorm)

    # elements at indices
    gather = gathering.gather
    take_along_axis = gathering.take_along_axis
    take_along_dim = gathering.take_along_dim
    take = gathering.take
    index_select = gathering.index_select
    embedding = gathering.embedding
    scatter, scatter_ = with_in_place(scattering.scatter)
    scatter_add, scatter_add_ = with_in_place(scattering.scatter_add)
    scatter_reduce, scatter_reduce_ = with_in_place(scattering.scatter_reduce)
    put_along_axis = scattering.put_along_axis
    index_add, index_add_ = with_in_place(scattering.index_add)
    index_copy, index_copy_ = with_in_place(scattering.index_copy)
    index_fill, index_fill_ = with_in_place(scattering.index_fill)
    index_reduce, index_reduce_ = with_in_place(scattering.index_reduce)
    put, put_ = with_in_place(scattering.put)
    masked_fill, masked_fill_ = with_in_place(gathering.masked_fill)

    # in place
    fill_ = inplace.fill_
    zero_ = inplace.zero_
    copy_ = inplace.copy_
    apply_ = inplace.apply_
    map_ = inplace.map_

    # cumulative
    cumsum, cumsum_ = with_in_place(cumulative.cumsum)
    cumprod, cumprod_ = with_in_place(cumulative.cumprod)
    cumulative_sum = cumulative.cumulative_sum
    cumulative_prod = cumulative.cumulative_prod
    cummax = cumulative.cummax
    cummin = cumulative.cummin
    logcumsumexp = cumulative.logcumsumexp
    diff = cumulative.diff
    trapezoid = trapz = cumulative.trapezoid
    cumulative_trapezoid = cumulative.cumulative_trapezoid
    gradient = cumulative.gradient

    # sorting
    argsort = sorting.argsort
    sort = sorting.sort
    msort = sorting.msort
    topk = sorting.topk
    kthvalue = order_statistics.kthvalue
    quantile = order_statistics.quantile
    median = statistics.median
    searchsorted = searching.searchsorted
    bucketize = searching.bucketize

    # sets
    nonzero = sets.nonzero
    nonzero_static = sets.nonzero_static
    argwhere = sets.argwhere
    count_nonzero = sets.count_nonzero
    unique_all = sets.unique_all
    unique_values = sets.unique_values
    unique_counts = sets.unique_counts
    unique_inverse = sets.unique_inverse
    isin = sets.isin
    bincount = sets.bincount
    histogram = sets.histogram
    histogramdd = sets.histogramdd

    # advanced
    index_put, index_put_ = with_in_place(advanced.index_put)
    masked_select = advanced.masked_select
    masked_scatter, masked_scatter_ = with_in_place(advanced.masked_scatter)
    select_scatter = advanced.select_scatter
    slice_scatter = advanced.slice_scatter
    diagonal_scatter = advanced.diagonal_scatter
    as_strided_scatter = advanced.as_strided_scatter

    # arranging
    tile = arranging.tile
    repeat_interleave = arranging.repeat_interleave
    roll = arranging.roll
    rot90 = arranging.rot90
    expand_dims = arranging.expand_dims
    moveaxis = movedim = arranging.moveaxis
    concat = arranging.concat
    hstack = arranging.hstack
    vstack = arranging.vstack
    dstack = arranging.dstack
    column_stack = arranging.column_stack
    broadcast_tensors = arranging.broadcast_tensors
    meshgrid = arranging.meshgrid
    tensor_split = array_split = arranging.tensor_split
    unbind = unstack = arranging.unbind
    tril, tril_ = with_in_place(arranging.tril)
    triu, triu_ = with_in_place(arranging.triu)
    tril_indices = classmethod(arranging.tril_indices)
    triu_indices = classmethod(arranging.triu_indices)
    diagonal = arranging.diagonal
    trace = arranging.trace
    diag = arranging.diag
    diag_embed = arranging.diag_embed
    diagflat = arranging.diagflat

    # padding
    pad = padding.pad
    unfold = padding.unfold
    as_strided = padding.as_strided
    im2col = padding.im2col
    col2im = padding.col2im
    interpolate = padding.interpolate
    constant_pad_nd = padding.constant_pad_nd

    # contractions
    einsum = staticmethod(contractions.einsum)
    inner = contractions.inner
    tensordot = contractions.tensordot
    vecdot = contractions.vecdot
    cross = contractions.cross
    kron = contractions.kron

    # products
    matmul = products.matmul
    dot = products.dot
    outer = ger = products.outer
    linear = products.linear
    mm = products.mm
    bmm = products.bmm
    mv = products.mv
    addmm, addmm_ = with_in_place(products.addmm)
    addbmm, addbmm_ = with_in_place(products.addbmm)
    addmv, addmv_ = with_in_place(products.addmv)
    addr, addr_ = with_in_place(products.addr)
    baddbmm, baddbmm_ = with_in_place(products.baddbmm)

    # random
    manual_seed = staticmethod(random.manual_seed)
    rand = classmethod(random.rand)
    uniform = classmethod(random.uniform)
    randn = classmethod(random.randn)
    normal = classmethod(random.normal)
    randint = classmethod(random.randint)
    randperm = classmethod(random.randperm)
    dropout = random.dropout
    rand_like = random.rand_like
    randn_like = random.randn_like
    randint_like = random.randint_like
    bernoulli = random.bernoulli

    # autograd
    backward = autograd.backward
    retain_grad = autograd.retain_grad
    register_hook = hooks.register_hook
    register_post_accumulate_grad_hook = hooks.register_post_accumulate_grad_hook
    detach_ = autograd.detach_

    # protocols
    tobytes = protocols.tobytes

    # dlpack
    to_device = dlpack.to_device
    from_dlpack = classmethod(dlpack.from_dlpack)

    # linear algebra
    det = matrices.det
    slogdet = matrices.slogdet
    logdet = matrices.logdet
    inverse = matrices.inverse
    pinverse = matrices.pinverse
    cholesky = matrices.cholesky
    cholesky_inverse = matrices.cholesky_inverse
    cholesky_solve = matrices.cholesky_solve
    triangular_solve = matrices.triangular_solve
    qr = matrices.qr
    geqrf = matrices.geqrf
    orgqr = matrices.orgqr
    ormqr = matrices.ormqr
    svd = matrices.svd
    svd_lowrank = matrices.svd_lowrank
    pca_lowrank = matrices.pca_lowrank
    lu = matrices.lu
    lu_solve = matrices.lu_solve
    lu_unpack = matrices.lu_unpack
    matrix_exp = matrices.matrix_exp
    matrix_power = matrices.matrix_power
    vdot = matrices.vdot
    norm = matrices.norm

    # statistics
    nansum = statistics.nansum
    nanmean = statistics.nanmean
    nanquantile = statistics.nanquantile
    nanmedian = statistics.nanmedian
    aminmax = statistics.aminmax
    cov = statistics.cov
    corrcoef = statistics.corrcoef
    histc = statistics.histc
    mode = statistics.mode
    multinomial = statistics.multinomial
    unique = statistics.unique
    unique_consecutive = statistics.unique_consecutive
    dist = statistics.dist

    # spectrograms
    stft = spectrograms.stft
    istft = spectrograms.istft

    # random values in place
    fill_diagonal_ = inplace.fill_diagonal_
    exponential_ = random_in_place.exponential_
    cauchy_ = random_in_place.cauchy_
    geometric_ = random_in_place.geometric_
    log_normal_ = random_in_place.log_normal_
    random_ = random_in_place.random_
    uniform_ = random_in_place.uniform_
    normal_ = random_in_place.normal_
    bernoulli_ = random_in_place.bernoulli_

    # activations
    hardtanh = activations.hardtanh
    relu6 = activations.relu6
    hardsigmoid = activations.hardsigmoid
    hardswish = activations.hardswish
    threshold = activations.threshold
    hardshrink = activations.hardshrink
    softshrink = activations.softshrink
    prelu = activations.prelu
    elu = activations.elu
    selu = activations.selu
    celu = activations.celu
    mish = activations.mish
    logsigmoid = activations.logsigmoid
    softsign = activations.softsign
    tanhshrink = activations.tanhshrink
    glu = activations.glu
    gelu = activations.gelu
    softmax = activations.softmax
    softmin = activations.softmin
    log_softmax = activations.log_softmax
    logsumexp = activations.logsumexp
    normalize = activations.normalize

    # normalization
    layer_norm = normalization.layer_norm
    rms_norm = normalization.rms_norm
    group_norm = normalization.group_norm
    batch_norm = normalization.batch_norm
    instance_norm = normalization.instance_norm
    local_response_norm = normalization.local_response_norm

    # attention
    scaled_dot_product_attention = attention.scaled_dot_product_attention

    # convolution
    conv1d = convolution.conv1d
    conv2d = convolution.conv2d
    conv3d = convolution.conv3d
    conv_transpose1d = convolution.conv_transpose1d
    conv_transpose2d = convolution.conv_transpose2d
    conv_transpose3d = convolution.conv_transpose3d

    # pooling
    max_pool1d = pooling.max_pool1d
    max_pool2d = pooling.max_pool2d
    max_pool3d = pooling.max_pool3d
    max_unpool1d = pooling.max_unpool1d
    max_unpool2d = pooling.max_unpool2d
    max_unpool3d = pooling.max_unpool3d
    avg_pool1d = pooling.avg_pool1d
    avg_pool2d = pooling.avg_pool2d
    avg_pool3d = pooling.avg_pool3d
    adaptive_avg_pool1d = pooling.adaptive_avg_pool1d
    adaptive_avg_pool2d = pooling.adaptive_avg_pool2d
    adaptive_avg_pool3d = pooling.adaptive_avg_pool3d
    adaptive_max_pool1d = pooling.adaptive_max_pool1d
    adaptive_max_pool2d = pooling.adaptive_max_pool2d
    adaptive_max_pool3d = pooling.adaptive_max_pool3d

    # losses
    one_hot = class_losses.one_hot
    cross_entropy = class_losses.cross_entropy
    nll_loss = class_losses.nll_loss
    multi_margin_loss = class_losses.multi_margin_loss
    binary_cross_entropy = losses.binary_cross_entropy
    binary_cross_entropy_with_logits = losses.binary_cross_entropy_with_logits
    soft_margin_loss = losses.soft_margin_loss
    hinge_embedding_loss = losses.hinge_embedding_loss
    mse_loss = losses.mse_loss
    l1_loss = losses.l1_loss
    huber_loss = losses.huber_loss
    smooth_l1_loss = losses.smooth_l1_loss
    poisson_nll_loss = losses.poisson_nll_loss
    gaussian_nll_loss = losses.gaussian_nll_loss
    kl_div = losses.kl_div
    cosine_similarity = distances.cosine_similarity
    cosine_embedding_loss = losses.cosine_embedding_loss
    margin_ranking_loss = losses.margin_ranking_loss
    pairwise_distance = distances.pairwise_distance
    cdist = distances.cdist
    pdist = distances.pdist
    triplet_margin_loss = losses.triplet_margin_loss

    # properties
    is_cpu = attribute(values.is_cpu)
    is_cuda = attribute(facts.is_on_cuda)
    is_meta = is_mps = is_nested = is_quantized = is_sparse = is_sparse_csr = attribute(facts.is_never)
    layout = attribute(facts.layout)
    _version = attribute(facts.version)
    grad_fn = attribute(autograd.grad_fn)
    real = attribute(arithmetic.real, arithmetic.set_real)
    imag = attribute(arithmetic.imag, arithmetic.set_imag)
    T = attribute(movement.all_axes_reversed)
    mT = attribute(movement.matrices_transposed)  # noqa: N815  (the array API's name)
    mH = attribute(movement.matrices_adjoint)  # noqa: N815  (PyTorch's name)
    H = attribute(movement.matrix_adjoint)
    is_leaf = attribute(autograd.is_leaf)
    retains_grad = attribute(autograd.retains_grad)
    data = attribute(autograd.data, autograd.set_data)

    # Last, for they are the names of Python's own types.
    type = facts.type
    bool = conversion("bool", "bool")
    byte = conversion("uint8", "byte")
    char = conversion("int8", "char")
    short = conversion("int16", "short")
    int = conversion("int32", "int")
    long = conversion("int64", "long")
    bfloat16 = conversion("bfloat16", "bfloat16")
    half = conversion("float16", "half")
    float = conversion("float32", "float")
    double = conversion("float64", "double")
    cfloat = conversion("complex64", "cfloat")
    cdouble = conversion("complex128", "cdouble")


name_methods("Tensor", SpecialMethods, Tensor)
autocasting.apply_table(SpecialMethods, Tensor)
eager.connect(TensorCore, Tensor, Buffer, GradientPoint, View)
