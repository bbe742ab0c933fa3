"""The methods of a tensor that layers of networks are made of: convolutions, pools, activations, norms, losses."""

from __future__ import annotations

from rulegrad.tensor import activations, attention, class_losses, convolution, distances, losses, normalization, pooling
from rulegrad.tensor.special_methods import SpecialMethods


class LayerMethods(SpecialMethods):
    """The methods that `rulegrad.nn` is made of, by their functions."""

    __slots__ = ()

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
