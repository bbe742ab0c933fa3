"""A matrix product on the toy accelerator: its program, and the answer.

The folder toy_accelerator is a backend of its own: docs/adding-an-accelerator.md builds it step by step.
"""

import os
from pathlib import Path

# The toy declares an op of its own, so it is named before the first node is made.
os.environ["RULEGRAD_BACKENDS"] = str(Path(__file__).with_name("toy_accelerator"))

from rulegrad import Tensor, profile

a = Tensor(
    [[1.0, 2.0, 0.0, 0.0], [0.0, 1.0, 0.0, 3.0], [2.0, 0.0, 1.0, 0.0], [0.0, 0.0, 4.0, 1.0]], device="toy_accelerator"
)
with profile() as seen:
    product = (a @ a + 1).numpy()
print(seen.kernels[0].source)
print(product)
assert product.tolist() == (a.numpy() @ a.numpy() + 1).tolist()
