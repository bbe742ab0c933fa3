"""Writes the names of numbers with a small transformer that was trained in PyTorch, without PyTorch.

    python examples/speller/speller.py
    python examples/speller/speller.py 27 373 --device numpy

`speller.pt` is what `torch.save(model.state_dict(), …)` wrote in train_in_pytorch.py. The class is the same as there
but for the import. Without arguments the program spells numbers that were held out in training, and exits with status
1 when fewer than 90 % are right.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from rulegrad import Tensor, config, nn, no_grad

sys.path.insert(0, str(Path(__file__).parent))
from numbers_in_words import ALPHABET, END, LENGTH, is_held_out, name_of, tokens_of

WIDTH, HEADS, LAYERS = 32, 4, 2
WANTED = 0.9


class Speller(nn.Module):
    """Scores of the next character at every place: from tokens (batch, LENGTH) to (batch, LENGTH, characters)."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = nn.Embedding(len(ALPHABET), WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH))
        self.head = nn.Linear(WIDTH, len(ALPHABET))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.characters(tokens) + self.places(Tensor.arange(LENGTH))
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        return self.head(self.encoder(x, mask=mask, is_causal=True))


def load() -> Speller:
    """The trained network. The values are float16 in the file and float32 in the network."""
    model = Speller()
    model.load_state_dict(nn.state.torch_load(Path(__file__).with_name("speller.pt")))
    return model.eval()


def spell(model: Speller, numbers: list[int]) -> list[str]:
    """The names that the network gives, one character at a time, the likeliest each time."""
    rows = np.stack([tokens_of(f"{number}=") for number in numbers])
    begins = np.array([len(f"{number}=") for number in numbers])
    with no_grad():
        for place in range(int(begins.min()), LENGTH):
            # Rows always have the same length, so every step runs the kernels of the first one.
            following = model(Tensor(rows)).argmax(-1).numpy()[:, place - 1]
            ended = (rows[:, place - 1] == END) & (place > begins)
            rows[:, place] = np.where(place < begins, rows[:, place], np.where(ended, END, following))
            if ended.all():
                break
    texts = ["".join(ALPHABET[token] for token in row) for row in rows]
    return [text.partition("=")[2].partition("\n")[0] for text in texts]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", type=int, nargs="*", help="numbers from 0 to 999; default: 20 that were held out")
    parser.add_argument("--device", help="such as opencl or numpy; default: RULEGRAD_DEVICE, else the best")
    options = parser.parse_args()
    if any(not 0 <= number < 1000 for number in options.numbers):
        parser.error("the network knows numbers from 0 to 999")
    return options


def main() -> int:
    options = arguments()
    numbers = options.numbers or [number for number in range(1000) if is_held_out(number)][::5]
    with config(device=options.device) if options.device else nullcontext():
        names = spell(load(), numbers)
    right = [name == name_of(number) for number, name in zip(numbers, names)]
    for number, name, good in zip(numbers, names, right):
        print(f"{number:4d}  {name}{'' if good else '   (wrong)'}")
    print(f"{sum(right)} of {len(right)} are right")
    return 0 if options.numbers or sum(right) >= WANTED * len(right) else 1


if __name__ == "__main__":
    sys.exit(main())
