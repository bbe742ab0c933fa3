"""Definitions of models with PyTorch's names, so that the weights of other projects load.

Each file is written as for PyTorch, with the import changed: `import torch` in the place of `import rulegrad as torch`
makes it PyTorch's model. The tests and `bench/models.py` compare the two.
"""
