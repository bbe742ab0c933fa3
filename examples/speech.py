"""Speech detection: Silero VAD, a small recurrent network, from its ONNX file.

    pip install "rulegrad[examples,onnx]" && pip install --no-deps silero-vad
    python examples/speech.py                            sound that is made here: noise, vowels, a tone, vowels again
    python examples/speech.py talk.wav --threshold 0.6

The model (MIT licence) takes 32 ms of sound at 16 kHz with the 4 ms before them, and the state of its LSTM; it gives
the probability of speech. A stretch begins where that rises above the threshold, and ends where it falls 0.15 below it
for 100 ms, as its authors do. The step is captured once and replayed for each chunk.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import wave
from pathlib import Path
from typing import Any

import numpy as np
from scipy import signal

import rulegrad as rg
from rulegrad import Tensor

RATE, CHUNK, BEFORE = 16000, 512, 64  # samples: in a second, of a step, of the step before it
HYSTERESIS, SILENCE, SHORTEST = 0.15, 0.1, 0.2  # of the probability; seconds

Sound = np.ndarray[Any, Any]  # float32, (samples,), -1 to 1


class Detector:
    """The model with its state."""

    def __init__(self, path: Path) -> None:
        model = rg.onnx.load(path).eval()
        self.step = rg.jit(lambda chunk, state: model(input=chunk, state=state, sr=RATE))

    def probabilities(self, sound: Sound) -> Sound:
        """The probability of speech in each chunk; the last one is filled up with silence."""
        count = -(-len(sound) // CHUNK)
        padded = np.concatenate([np.zeros(BEFORE), sound, np.zeros(count * CHUNK - len(sound))]).astype(np.float32)
        state, found = Tensor.zeros(2, 1, 128), []
        with rg.no_grad():
            for place in range(count):
                chunk = padded[place * CHUNK : (place + 1) * CHUNK + BEFORE]
                share, state = self.step(Tensor(chunk[None]), state)
                found.append(share.item())
        return np.array(found, np.float32)


def stretches(shares: Sound, threshold: float) -> list[tuple[float, float]]:
    """Where speech begins and ends, in seconds."""
    second = CHUNK / RATE
    found: list[tuple[float, float]] = []
    start = silent = None
    for place, share in enumerate([*shares, *[0.0] * (2 + int(SILENCE / second))]):
        now = place * second
        if share >= threshold:
            start, silent = now if start is None else start, None
        elif start is not None and share < threshold - HYSTERESIS:
            silent = now if silent is None else silent
            if now - silent >= SILENCE:
                if silent - start >= SHORTEST:
                    found.append((start, min(silent, len(shares) * second)))
                start = silent = None
    return found


def vowels(seconds: float, pitch: float, seed: int) -> Sound:
    """Syllables: pulses of a voice through the resonances of four vowels (Peterson and Barney 1952)."""
    generator = np.random.default_rng(seed)
    formants = {"a": (730, 1090, 2440), "i": (270, 2290, 3010), "u": (300, 870, 2240), "e": (530, 1840, 2480)}
    parts: list[Sound] = []
    while sum(map(len, parts)) < seconds * RATE:
        length = int(generator.uniform(0.12, 0.25) * RATE)
        glide = (
            pitch * np.linspace(1.1, 0.9, length) * (1 + 0.02 * generator.normal(size=length).cumsum() / length**0.5)
        )
        voice = np.diff(np.floor(glide.cumsum() / RATE), prepend=0.0) + 0.01 * generator.normal(size=length)
        for frequency in formants[generator.choice(list(formants))]:
            radius = np.exp(-np.pi * 80 / RATE)  # a bandwidth of 80 Hz
            poles = [1, -2 * radius * np.cos(2 * np.pi * frequency / RATE), radius**2]
            voice = signal.lfilter([sum(poles)], poles, voice)
        parts += [voice * np.hanning(length), np.zeros(int(generator.uniform(0.02, 0.08) * RATE))]
    made = np.concatenate(parts)[: int(seconds * RATE)]
    return (0.5 * made / np.abs(made).max()).astype(np.float32)


def made() -> tuple[Sound, list[tuple[str, float]]]:
    """Eight seconds of sound, and what they are."""
    generator = np.random.default_rng(0)
    tone = 0.3 * np.sin(2 * np.pi * 1000 * np.arange(int(1.5 * RATE)) / RATE)
    parts = [
        ("noise", np.zeros(int(1.5 * RATE))),
        ("voice", vowels(2.0, 120, 1)),
        ("tone", tone),
        ("noise", np.zeros(RATE)),
        ("voice", vowels(2.0, 190, 2)),
    ]
    sound = np.concatenate([part for _, part in parts])
    sound = sound + 0.003 * generator.normal(size=len(sound))
    return sound.astype(np.float32), [(name, len(part) / RATE) for name, part in parts]


def read(path: Path) -> Sound:
    """A wav file of 16-bit samples, its channels averaged, at the model's rate."""
    try:
        with wave.open(str(path)) as file:
            if file.getsampwidth() != 2:
                raise SystemExit(f"{path} has samples of {8 * file.getsampwidth()} bits; convert it to 16")
            raw = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels())
            rate = file.getframerate()
    except (OSError, EOFError, wave.Error) as error:
        raise SystemExit(f"{path} cannot be read as a wav file: {error}") from None
    sound = raw.mean(1) / 32768
    return signal.resample_poly(sound, RATE, rate).astype(np.float32)


def model_file() -> Path:
    """The file of the package silero-vad."""
    package = importlib.util.find_spec("silero_vad")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("there is no model; give --model FILE.onnx, or: pip install --no-deps silero-vad")
    return Path(package.submodule_search_locations[0]) / "data" / "silero_vad_16k_op15.onnx"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sound", nargs="?", type=Path, help="a wav file; without it sound is made")
    parser.add_argument("--model", type=Path, help="silero_vad_16k_op15.onnx")
    parser.add_argument("--threshold", type=float, default=0.5, help="the probability from which on it is speech")
    given = parser.parse_args()
    sound, parts = (read(given.sound), []) if given.sound else made()
    detector = Detector(given.model or model_file())
    detector.probabilities(sound[:CHUNK])  # compiles
    start = time.perf_counter()
    shares = detector.probabilities(sound)
    seconds = time.perf_counter() - start
    if parts:
        print("made of", ", ".join(f"{name} {length:.1f} s" for name, length in parts))
    print("".join(" .:-=+*#%@"[min(9, int(10 * share))] for share in shares[:: max(1, len(shares) // 100)]))
    for begin, end in stretches(shares, given.threshold):
        print(f"speech from {begin:.2f} to {end:.2f} s")
    length = len(sound) / RATE
    print(f"[{length:.1f} s of sound in {seconds:.2f} s: {length / seconds:.0f} times as fast]", file=sys.stderr)


if __name__ == "__main__":
    main()
