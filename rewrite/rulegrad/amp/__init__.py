"""Mixed precision, by PyTorch's names: `autocast` for the forward pass, `GradScaler` for gradients in float16.

>>> from rulegrad import Tensor, amp, nn, optim
>>> model = nn.Linear(2, 1, bias=False)
>>> optimizer, scaler = optim.SGD(model.parameters(), lr=0.5), amp.GradScaler(init_scale=1024.0)
>>> with amp.autocast(dtype="float16"):
...     loss = model(Tensor([[1.0, 2.0]])).square().mean()
>>> _ = scaler.scale(loss).backward()
>>> scaler.step(optimizer); scaler.update()
>>> model.weight.dtype, scaler.get_scale()
(DType('float32'), 1024.0)
"""

from rulegrad.amp._custom import custom_bwd, custom_fwd
from rulegrad.amp._scaler import GradScaler
from rulegrad.support.torch_modules import modules_below
from rulegrad.tensor.autocasting import autocast

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

__getattr__ = modules_below("amp")


def __dir__() -> list[str]:
    return __all__
