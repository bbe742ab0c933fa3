"""Trains the speller in PyTorch and writes speller.pt, the state dict that `speller.py` loads without PyTorch.

    python examples/speller/train_in_pytorch.py --steps 4000 --write

Without --write it trains for a few steps, prints the loss, and leaves the file as it is.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from numbers_in_words import ALPHABET, LENGTH, is_held_out, name_of, tokens_of

WIDTH, HEADS, LAYERS = 32, 4, 2


def train(steps: int, write: bool) -> float:
    """Adam with a falling rate; returns the last loss."""
    import torch
    from torch import nn

    class Speller(nn.Module):
        """As in speller.py, where only the import differs."""

        def __init__(self) -> None:
            super().__init__()
            self.characters = nn.Embedding(len(ALPHABET), WIDTH)
            self.places = nn.Embedding(LENGTH, WIDTH)
            layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
            self.encoder = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
            self.head = nn.Linear(WIDTH, len(ALPHABET))

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.characters(tokens) + self.places(torch.arange(LENGTH))
            mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
            return self.head(self.encoder(x, mask=mask, is_causal=True))

    torch.manual_seed(1)
    numbers = [number for number in range(1000) if not is_held_out(number)]
    rows = torch.tensor(np.stack([tokens_of(f"{number}={name_of(number)}") for number in numbers]))
    model = Speller()
    adam = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(adam, 4e-3, steps, cycle_momentum=False)
    for _ in range(steps):
        chosen = rows[torch.randint(len(rows), (64,))]
        scores = model(chosen)[:, :-1]
        # The output only: nothing is learnt from the digits themselves, nor behind the first end.
        named = (chosen == ALPHABET.index("=")).cumsum(1)[:, :-1].bool()
        ended = (chosen[:, :-1] == ALPHABET.index("\n")).cumsum(1).bool()
        loss = nn.functional.cross_entropy(scores[named & ~ended], chosen[:, 1:][named & ~ended])
        adam.zero_grad()
        loss.backward()
        adam.step()
        schedule.step()
    if write:
        torch.save(model.half().state_dict(), Path(__file__).with_name("speller.pt"))
    return loss.item()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=5, help="training steps (default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="write speller.pt")
    options = parser.parse_args()
    try:
        loss = train(options.steps, options.write)
    except ImportError as error:
        print(f"{error}; only this program needs PyTorch, speller.py does not")
        return 0
    print(f"the loss after {options.steps} steps is {loss:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
