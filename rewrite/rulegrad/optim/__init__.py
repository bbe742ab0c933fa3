"""Optimisers and schedules. `step` computes all new values, and the losses they came from, in one call."""

from rulegrad.optim import lr_scheduler, swa_utils
from rulegrad.optim.adam import LAMB, Adam, AdamW, Muon
from rulegrad.optim.descent import SGD, Adadelta, Adagrad, RMSprop
from rulegrad.optim.optimizer import Optimizer

__all__ = [
    "LAMB",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Muon",
    "Optimizer",
    "RMSprop",
    "lr_scheduler",
    "swa_utils",
]
