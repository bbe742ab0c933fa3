"""Optimisers and schedules. `step` computes all new values, and the losses they came from, in one call."""

from rulegrad.optim import lr_scheduler, swa_utils
from rulegrad.optim._adafactor import Adafactor
from rulegrad.optim._adam import LAMB, Adam, AdamW, Muon
from rulegrad.optim._descent import ASGD, SGD, Adadelta, Adagrad, RMSprop, Rprop
from rulegrad.optim._lbfgs import LBFGS
from rulegrad.optim._moments import Adamax, NAdam, RAdam
from rulegrad.optim._optimizer import Optimizer
from rulegrad.support.torch_modules import modules_below

__all__ = [
    "ASGD",
    "LAMB",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]

__getattr__ = modules_below("optim")


def __dir__() -> list[str]:
    return __all__
