"""The methods of a tensor that say what it is: its size, its dtype, where its elements are."""

from __future__ import annotations

from rulegrad.tensor import addresses, autograd, facts
from rulegrad.tensor.special_methods import SpecialMethods
from rulegrad.tensor.table import attribute


class FactMethods(SpecialMethods):
    """Facts about a tensor, most under PyTorch's names, by their functions."""

    __slots__ = ()

    numel = nelement = facts.numel
    dim = facts.dim
    element_size = facts.element_size
    is_floating_point = facts.is_floating_point
    is_contiguous = facts.is_contiguous
    stride = facts.stride
    storage_offset = facts.storage_offset
    type = facts.type
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

    is_cuda = attribute(facts.is_on_cuda)
    is_meta = is_mps = is_nested = is_quantized = is_sparse = is_sparse_csr = attribute(facts.is_never)
    layout = attribute(facts.layout)
    _version = attribute(facts.version)
    grad_fn = attribute(autograd.grad_fn)
