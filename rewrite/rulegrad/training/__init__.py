"""Helpers around a training step: checkpoints to go on from, early stopping, a progress bar, files of metrics.

Averages of parameters are in `rulegrad.optim.swa_utils`, limits on gradients in `rulegrad.nn.utils`, mixed precision in
`rulegrad.amp`, loaders in `rulegrad.data`.
"""

from rulegrad.training._checkpoint import Checkpoint
from rulegrad.training._early_stopping import EarlyStopping
from rulegrad.training._metrics import Metrics
from rulegrad.training._progress import Progress

__all__ = ["Checkpoint", "EarlyStopping", "Metrics", "Progress"]
