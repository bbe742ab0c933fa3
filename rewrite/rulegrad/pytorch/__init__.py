"""What PyTorch's modules have that has no other place here; `rulegrad.support.torch_modules` says under which names.

import rulegrad.autograd            # the names of rulegrad.pytorch.autograd
"""
