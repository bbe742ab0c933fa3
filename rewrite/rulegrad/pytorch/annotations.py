"""`torch.jit.annotations`: names of annotations, which are Python's."""

from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: UP035

__all__ = ["Any", "Dict", "Final", "List", "Optional", "Tuple", "Union"]
