"""`torch.jit.annotations`: names of annotations, which are Python's."""

from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: UP035

__all__ = ["Any", "Dict", "Final", "List", "Optional", "Tuple", "Union"]

#: PyTorch's lists that may be given as one number, for its compiler alone.
BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingList4 = list
