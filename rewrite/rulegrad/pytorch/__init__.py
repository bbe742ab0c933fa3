"""Names of PyTorch's modules that have no other home here; `rulegrad.support.torch_modules` says where they are found.

import rulegrad.autograd            # the names of rulegrad.pytorch.autograd
"""
