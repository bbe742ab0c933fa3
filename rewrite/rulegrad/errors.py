"""The errors that rulegrad raises. Every one says what is wrong, where, and what to do."""

from __future__ import annotations

from typing import Any


class RulegradError(Exception):
    """Base of all errors that rulegrad raises on purpose.

    >>> issubclass(rg.errors.ShapeError, rg.errors.RulegradError)
    True
    """

    #: The layer of a network that it was raised in, and the user's line: "blocks.3.attn.proj (Linear) of GPT, at
    #: model.py:31"; "" outside of modules.
    layer = ""

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}\n    in the layer {self.layer}" if self.layer else text

    @property
    def problem(self) -> str:
        """The first part of the message, without the hints on how to look further.

        >>> try:
        ...     Tensor([1, 2]).reshape(3)
        ... except rg.errors.RulegradError as error:
        ...     print(error.problem)
        reshape: a tensor of shape (2,) has 2 elements and does not fit (3,)
        """
        return super().__str__().partition("\n    look further: ")[0]


class RuleError(RulegradError):
    """Rule text that is wrong; `diagnostics` lists each problem with file, line, column and sometimes a hint.

    `python -m rulegrad check FILE` prints the same.

    >>> rg.load_rules("missing.rules")
    Traceback (most recent call last):
        ...
    rulegrad.errors.RuleError: the rule file ...missing.rules does not exist
    """

    def __init__(self, message: str, diagnostics: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.diagnostics = diagnostics


class GraphError(RulegradError, ValueError):
    """A node that the op table forbids: wrong sources, attributes, dtype or shape.

    Built by hand: see the op's row in the reference. By a rule: `check=1` names it.

    >>> UOp("ADD", (UOp.const(1, "int32"),))
    Traceback (most recent call last):
        ...
    rulegrad.errors.GraphError: ADD: expected 2 sources, got 1
    """


class RewriteError(RulegradError):
    """Rewriting did not terminate, or a rule changed a dtype, a shape or, under `check=2`, a value.

    The message names the rules; `config(rules_off=[...])` switches one off.

    >>> rg.rewrite(UOp.const(2, "int32"), "no_such_pass")
    Traceback (most recent call last):
        ...
    rulegrad.errors.RewriteError: no pass is called no_such_pass
    """


class ShapeError(RulegradError, ValueError, RuntimeError):
    """Shapes that do not fit together: NumPy's ValueError, and PyTorch's RuntimeError.

    The message has the shapes and the axis; reshape or expand one of them.

    >>> Tensor([1, 2]) + Tensor([1, 2, 3])
    Traceback (most recent call last):
        ...
    rulegrad.errors.ShapeError: add: the shapes (2,) and (3,) do not broadcast: axis -1 has 2 and 3...
    """


class IndexRangeError(ShapeError, IndexError):
    """An index or an axis that is out of range.

    >>> Tensor([1, 2])[5]
    Traceback (most recent call last):
        ...
    rulegrad.errors.IndexRangeError: index: 5 is out of range for axis 0 of size 2 (shape (2,))
    """


class NoAxesError(ShapeError, TypeError):
    """A tensor without axes was used as a sequence.

    >>> len(Tensor(1.0))
    Traceback (most recent call last):
        ...
    rulegrad.errors.NoAxesError: ...
    """


class DtypeError(RulegradError, TypeError, RuntimeError):
    """A dtype that the operation or the device does not accept: NumPy's TypeError, and PyTorch's RuntimeError.

    Cast an operand, or choose another device.

    >>> Tensor([1.0]) & Tensor([1.0])
    Traceback (most recent call last):
        ...
    rulegrad.errors.DtypeError: bitwise_and: the operands promote to float32, which has no bits to...
    """


class NumberRangeError(DtypeError, OverflowError):
    """A Python number that a dtype cannot hold.

    >>> Tensor([1], dtype="int8") + 300
    Traceback (most recent call last):
        ...
    rulegrad.errors.NumberRangeError: add: the number 300 does not fit int8 (-128 to 127); cast to a wider dtype first
    """


class GradientError(RulegradError, RuntimeError):
    """A gradient that does not exist, or an update of a leaf that requires one.

    Set `requires_grad=True` on the inputs; update leaves inside `no_grad()`.

    >>> Tensor([1.0]).backward()
    Traceback (most recent call last):
        ...
    rulegrad.errors.GradientError: backward: this tensor depends on no tensor with requires_grad=True...
    """


class ModuleError(RulegradError, RuntimeError):
    """A module that lacks what is asked of it, or a state that does not fit it.

    >>> rg.nn.Linear(2, 2).load_state_dict({})
    Traceback (most recent call last):
        ...
    rulegrad.errors.ModuleError: load_state_dict: missing names ['bias', 'weight']...
    """


class NoPartError(ModuleError, AttributeError):
    """A path at which a module has no module, parameter or buffer.

    >>> rg.nn.Linear(2, 2).get_parameter("gain")
    Traceback (most recent call last):
        ...
    rulegrad.errors.NoPartError: get_parameter: no parameter 'gain' in Linear; there are ['weight', 'bias']
    """


class NotAParameterError(ModuleError, TypeError):
    """A value that is set in the place of a parameter and is none.

    >>> rg.nn.Linear(2, 2).weight = Tensor.ones(2, 2)
    Traceback (most recent call last):
        ...
    rulegrad.errors.NotAParameterError: Linear.weight is a parameter, and the new value is none...
    """


class AliasError(RulegradError, RuntimeError, ValueError):
    """An update of a view in which several elements share an address, or of memory that another library owns.

    Update a `clone()`.

    >>> view = Tensor([1.0]).expand(3)
    >>> view += 1
    Traceback (most recent call last):
        ...
    rulegrad.errors.AliasError: +=: this tensor cannot be changed in place, for several of its elements are...
    """


class NanError(RulegradError, FloatingPointError):
    """An op has made a nan, or an infinite value, while the setting `detect_nan` is on.

    The message names the op, the user's line, and the values that it was computed from.

    >>> with rg.config(detect_nan=1):
    ...     (Tensor([1.0, -1.0]).log() * 2).tolist()
    Traceback (most recent call last):
        ...
    rulegrad.errors.NanError: detect_nan: LOG (float32 2) made the first nan at ...; it is computed from ...
    """


class CaptureError(RulegradError, RuntimeError):
    """A function that `jit` cannot capture as it is: it asks for a value, or writes where a replay could not.

    The message names the user's line and what to write in its place; docs/capture.md lists all of them.

    >>> rg.jit(lambda x: x * x.sum().item())(Tensor([1.0, 2.0]))
    Traceback (most recent call last):
        ...
    rulegrad.errors.CaptureError: jit: the value of a tensor is asked for...
    """


class DeviceError(RulegradError, RuntimeError):
    """A device that is missing or failed.

    `python -m rulegrad devices` lists the devices that work, and the remedy for each other one.

    >>> Tensor([1.0], device="abacus")
    Traceback (most recent call last):
        ...
    rulegrad.errors.DeviceError: there is no device 'abacus'...
    """


class OutOfMemoryError(DeviceError, MemoryError):
    """A device has too little memory; the message lists its largest tensors with the lines that made them.

    Free tensors, use smaller batches, or `no_grad()` where gradients are not needed.

    >>> issubclass(rg.errors.OutOfMemoryError, MemoryError)
    True
    """


class FileError(RulegradError, OSError):
    """A file that is missing, damaged, or of an unsupported format.

    >>> rg.load("missing.safetensors")
    Traceback (most recent call last):
        ...
    rulegrad.errors.FileMissingError: missing.safetensors cannot be read: there is no such file
    """


class FileMissingError(FileError, FileNotFoundError):
    """A file that does not exist.

    >>> issubclass(rg.errors.FileMissingError, FileNotFoundError)
    True
    """


class OnnxError(RulegradError, RuntimeError):
    """A model of an ONNX file that is not supported or wrong, or the package `onnx` is missing.

    The message names the node, its op and its opset, or the command that installs the package.

    >>> issubclass(rg.errors.OnnxError, rg.errors.RulegradError)
    True
    """


class ConfigError(RulegradError, ValueError, RuntimeError):
    """A setting or an argument with an unknown name or value; the message lists the accepted ones.

    >>> Tensor([[[1.0]]]).interpolate(2, mode="cubist")
    Traceback (most recent call last):
        ...
    rulegrad.errors.ConfigError: interpolate: mode='cubist'...
    """


class DataError(RulegradError, RuntimeError):
    """A worker of a data loader that was killed, does not answer, or raised what cannot be sent.

    An exception that can be sent is raised as it is, and this error, with the worker's traceback, is its cause.

    >>> issubclass(rg.errors.DataError, RuntimeError)
    True
    """


class CommunicationError(RulegradError, RuntimeError):
    """Ranks that do not fit together, did not come, or failed; or a collective that is wrong.

    The message names the ranks, and what each waits for; docs/distributed.md says what to do.

    >>> from rulegrad.communication import Collective
    >>> Collective("all_reduce", (2,), (0,), "mean", 4, "float32")
    Traceback (most recent call last):
        ...
    rulegrad.errors.CommunicationError: all_reduce: its operation is one of sum, prod, max, min; this is ...
    """


def __dir__() -> list[str]:
    return [name for name in globals() if name.endswith("Error")]
