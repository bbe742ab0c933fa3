"""Signal processing: `windows`.

>>> from rulegrad import signal
>>> signal.windows.hann(3).tolist()
[0.0, 1.0, 0.0]
"""

from rulegrad.signal import windows

__all__ = ["windows"]
