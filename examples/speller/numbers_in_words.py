"""The data of the speller: numbers below 1,000 and their names, as rows of tokens.

    python examples/speller/numbers_in_words.py 27

prints the name of a number, by the plain program that wrote the examples.
"""

from __future__ import annotations

import sys

import numpy as np

ONES = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
#: The end comes first: rows are filled up with it.
ALPHABET = "\n =0123456789" + "".join(sorted(set("".join(ONES + TENS) + "hundred")))
END = ALPHABET.index("\n")
#: "373=three hundred seventy three", the longest, and its end.
LENGTH = 32


def name_of(number: int) -> str:
    """The name of a number from 0 to 999 in words: `three hundred seventy three`."""
    hundreds, rest = divmod(number, 100)
    words = [ONES[hundreds], "hundred"] if hundreds else []
    if rest >= 20:
        words += [TENS[rest // 10 - 2]] + ([ONES[rest % 10]] if rest % 10 else [])
    elif rest or not hundreds:
        words.append(ONES[rest])
    return " ".join(words)


def tokens_of(text: str) -> np.ndarray:
    """The places of the characters in the alphabet, filled up with ends to LENGTH."""
    row = np.full(LENGTH, END, np.int64)
    row[: len(text)] = [ALPHABET.index(character) for character in text]
    return row


def is_held_out(number: int) -> bool:
    """Whether the network never saw this number in training: a tenth of them, all digits alike, none below 20."""
    return number >= 20 and number * 919 % 1000 < 100


if __name__ == "__main__":
    for argument in sys.argv[1:] or ["373"]:
        print(f"{argument}={name_of(int(argument))}")
