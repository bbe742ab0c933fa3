"""The Python array API standard, https://data-apis.org/array-api: `from rulegrad import array_api as xp`.

The arrays are `rulegrad.Tensor` itself. Its methods are lazy, so nothing here computes anything but where it says that
it synchronises: where a shape depends on values (`nonzero`, `unique_*`, `repeat` by an array, boolean masks), and for
the decompositions of `linalg`. Files follow the standard's families of functions.

>>> from rulegrad import array_api as xp
>>> xp.sum(xp.arange(4)).item()
6
"""

from rulegrad import __version__

from . import (
    beyond,
    constants,
    creation,
    data_type_functions,
    data_types,
    elementwise,
    fft,
    indexing,
    inspection,
    linalg,
    linear_algebra,
    manipulation,
    searching,
    sets,
    sorting,
    statistical,
    utility,
)
from .beyond import *  # noqa: F403
from .constants import *  # noqa: F403
from .creation import *  # noqa: F403
from .data_type_functions import *  # noqa: F403
from .data_types import *  # noqa: F403
from .elementwise import *  # noqa: F403
from .indexing import *  # noqa: F403
from .inspection import *  # noqa: F403
from .linear_algebra import *  # noqa: F403
from .manipulation import *  # noqa: F403
from .searching import *  # noqa: F403
from .sets import *  # noqa: F403
from .sorting import *  # noqa: F403
from .statistical import *  # noqa: F403
from .utility import *  # noqa: F403

#: The revision of the standard.
__array_api_version__ = "2025.12"

__all__ = ["__array_api_version__", "__version__", "fft", "linalg"]
__all__ += beyond.__all__
__all__ += constants.__all__
__all__ += creation.__all__
__all__ += data_type_functions.__all__
__all__ += data_types.__all__
__all__ += elementwise.__all__
__all__ += indexing.__all__
__all__ += inspection.__all__
__all__ += linear_algebra.__all__
__all__ += manipulation.__all__
__all__ += searching.__all__
__all__ += sets.__all__
__all__ += sorting.__all__
__all__ += statistical.__all__
__all__ += utility.__all__


def __dir__() -> list[str]:
    return sorted(__all__)
