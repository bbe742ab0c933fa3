"""The training step of a transformer as a schedule, by formulas: for sizes that nobody can run here.

Operations and bytes are those of products of matrices and of attention (Narayanan et al., "Efficient large-scale
language model training on GPU clusters", 2021, appendix); collectives of tensor parallel layers are Megatron's: two
sums of activations in the forward pass of a block, and two in the backward pass (Shoeybi et al. 2019).
"""

from __future__ import annotations

from dataclasses import dataclass

from rulegrad.errors import ConfigError
from rulegrad.workbench.scale.schedule import Event, Memory, Schedule
from rulegrad.workbench.scale.strategies import STATE

# Bytes of a parameter (Rajbhandari et al. 2020): bfloat16, and its gradient; a float32 copy, and Adam's two moments.
_BYTES, _STATE_BYTES = 4, 12


@dataclass(frozen=True, slots=True)
class Transformer:
    """A decoder such as GPT-3, computed in bfloat16; a block has attention, and a network of four times the width.

    >>> round(Transformer(layers=96, width=12288, heads=96, sequence=2048, vocabulary=51200).parameters / 1e9, 1)
    174.6
    """

    layers: int
    width: int
    heads: int
    sequence: int
    vocabulary: int
    recomputes: bool = True  #: whether the backward pass computes the activations of a block again

    @property
    def parameters(self) -> int:
        """How many it has: 12 width² a block, biases and norms, and the embedding of tokens and places."""
        block = 12 * self.width**2 + 13 * self.width
        return self.layers * block + (self.vocabulary + self.sequence) * self.width

    def schedule(self, micro_batch: int = 1, model: int = 1, stages: int = 1, micro_batches: int = 1) -> Schedule:
        """The schedule of a rank of a stage, in a mesh of axes `pipeline` and `model`.

        micro_batch: examples of one pass. model: ranks that divide heads and columns. Raises ConfigError where these
        do not divide heads, or stages the layers.

        >>> small = Transformer(layers=2, width=64, heads=4, sequence=32, vocabulary=100)
        >>> [event.kind for event in small.schedule(model=2).events][:4]
        ['kernel', 'all_reduce', 'kernel', 'all_reduce']
        """
        if self.heads % model or self.layers % stages:
            raise ConfigError(
                f"{self.heads} heads do not divide among {model} ranks, or {self.layers} layers among {stages} stages"
            )
        mesh = ({"pipeline": stages} if stages > 1 else {}) | ({"model": model} if model > 1 else {})
        maker = _Maker(self, micro_batch * self.sequence, model)
        blocks = self.layers // stages
        maker.forward(blocks)
        maker.head(stages)
        maker.backward(blocks)
        maker.update(self.parameters / stages / model)
        divided = tuple(mesh)
        activations = 2 * micro_batch * self.sequence * self.width * blocks
        if not self.recomputes:
            # Korthikanti et al. 2022: bytes of the activations of a block, with tensor parallel layers
            scores = 5 * self.heads * self.sequence / self.width
            activations = activations // 2 * (10 + (24 + scores) / model)  # type: ignore[assignment]
        memory = (
            Memory("parameters and gradients", float(_BYTES * self.parameters), divided),
            Memory(STATE, float(_STATE_BYTES * self.parameters), divided),
            Memory("activations", float(activations), in_flight=True),
        )
        boundary = 2 * micro_batch * self.sequence * self.width
        return Schedule(
            f"transformer of {self.parameters / 1e9:.1f} billion parameters", tuple(maker.events), mesh, memory,
            batch=micro_batch, stages=stages, micro_batches=micro_batches, boundary=boundary,
        )  # fmt: skip

    def operations(self, examples: int) -> float:
        """Operations of a step on so many examples, by the formula of Narayanan et al. (2021).

        >>> tiny = Transformer(layers=1, width=1, heads=1, sequence=6, vocabulary=16)
        >>> tiny.operations(1)
        1728.0
        """
        passes = 4 if self.recomputes else 3
        s, h, layers = self.sequence, self.width, self.layers
        return examples * s * h * (24 * passes * layers * (h + s / 6) + 6 * self.vocabulary)


class _Maker:
    """The events of one stage; `model` ranks divide the columns and rows of each matrix."""

    def __init__(self, network: Transformer, tokens: int, model: int) -> None:
        self.network, self.tokens, self.model = network, tokens, model
        self.events: list[Event] = []

    def forward(self, blocks: int) -> None:
        for number in range(blocks):
            self._block(f"block {number}", "forward", 1)

    def backward(self, blocks: int) -> None:
        """Gradients of inputs and of parameters cost as much as the forward pass each."""
        for number in reversed(range(blocks)):
            if self.network.recomputes:
                self._block(f"block {number} again", "backward", 1)
            self._block(f"gradients of block {number}", "backward", 2)

    def head(self, stages: int) -> None:
        """The logits of all tokens, forward and backward, shared among the stages: each is a part of them slower."""
        width, words = self.network.width, self.network.vocabulary
        work = 2.0 * self.tokens * width * words / self.model / stages
        moved = 2.0 * (width * words / self.model + self.tokens * (width + words / self.model)) / stages
        parameters = 2.0 * width * words / self.model / stages
        self._add("logits", "forward", work, moved, parameters)
        self._add("gradients of logits", "backward", 2 * work, 2 * moved, parameters, parameters)

    def update(self, parameters: float) -> None:
        """Adam: parameters, gradients and state are read, and written but for the gradients."""
        moved = parameters * (2 * (_BYTES + _STATE_BYTES) - 2)
        self.events.append(
            Event("update", operations=12 * parameters, bytes=moved, phase="update", follows_batch=False)
        )

    def _block(self, name: str, phase: str, times: int) -> None:
        """Attention and the network after it, each with a sum over the ranks that divide them."""
        t, h, s, model = self.tokens, self.network.width, self.network.sequence, self.model
        # columns of parameters for a column of activations; scores and their sums are 4 t s h operations
        for part, columns, scores in (("attention", 4, 4.0 * t * s * h), ("network", 8, 0.0)):
            weights = columns * h * h / model
            work = times * (2 * t * weights + scores / model)
            moved = times * 2 * (weights + t * h * (2 + columns / model))
            gradients = 2 * weights if times == 2 else 0
            self._add(f"{part} of {name}", phase, work, moved, 2 * weights, gradients)
            if self.model > 1:
                last = len(self.events) - 1
                self.events.append(
                    Event(
                        f"sum of {part} of {name}", "all_reduce", bytes=2.0 * t * h, dtype="bfloat16",
                        axes=("model",), after=(last,), phase=phase,
                    )
                )  # fmt: skip

    def _add(
        self, name: str, phase: str, work: float, moved: float, parameters: float = 0, gradients: float = 0
    ) -> None:
        after = (len(self.events) - 1,) if self.events else ()
        self.events.append(
            Event(
                name, operations=work, bytes=moved, dtype="bfloat16", after=after, phase=phase,
                parameters=parameters, gradients=gradients,
            )
        )  # fmt: skip
