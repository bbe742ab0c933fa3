"""Text in a picture: PP-OCRv4 from its three ONNX files finds lines, turns those that are upside down, and reads them.

    pip install "rulegrad[examples,onnx]" && pip install --no-deps rapidocr-onnxruntime
    python examples/read_picture.py                      a picture that is drawn here
    python examples/read_picture.py scan.png --boxes found.png

The models are those of PaddleOCR (Apache-2.0), in Chinese and English. Nothing of the package is imported; its files
are run by `rulegrad.onnx`. The detector gives each pixel the probability that it belongs to text (Liao et al. 2020,
"Real-time scene text detection with differentiable binarization"); the reader gives each column of a line the
probabilities of all characters, which connectionist temporal classification (Graves et al. 2006) makes a text of. Boxes
have upright sides: text that leans is found, but read badly.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from scipy import ndimage

import onnx
import rulegrad as rg
from rulegrad import Tensor

IS_TEXT, IS_LINE, IS_TURNED = 0.3, 0.5, 0.9  # probabilities: of a pixel, on average in a box, of being upside down
GROWTH = 1.6  # the detector's regions are smaller than the text; area * GROWTH / perimeter is missing on each side
HEIGHT, DIRECTION_WIDTH = 48, 192  # what the other two models take
WIDTH_STEP = 320  # widths of lines are rounded up to this, so that few sizes are compiled
LINES = (
    "rulegrad reads a picture",
    "with 3 models in 16 MB:",
    "detection, direction, recognition",
    "(this line stands on its head)",
)
FILES = {"find": "ch_PP-OCRv4_det_infer", "turn": "ch_ppocr_mobile_v2.0_cls_infer", "read": "ch_PP-OCRv4_rec_infer"}

Pixels = np.ndarray[Any, Any]  # float32, (height, width, blue green red), -1 to 1


@dataclass
class Line:
    """A text, the model's confidence, and its box: left, top, right, bottom, in pixels."""

    text: str
    confidence: float
    box: tuple[int, int, int, int]


class Reader:
    """The three models, each captured once for every size of its input."""

    def __init__(self, folder: Path) -> None:
        paths = {task: folder / f"{name}.onnx" for task, name in FILES.items()}
        models = {task: rg.onnx.load(path).eval() for task, path in paths.items()}
        self.find, self.turn, self.read = (rg.jit(models[task]) for task in FILES)
        described = {entry.key: entry.value for entry in onnx.load(paths["read"]).metadata_props}
        self.characters = ["", *described["character"].splitlines(), " "]  # the first stands between characters

    def lines(self, picture: Image.Image) -> list[Line]:
        """The lines of text in the picture, from top to bottom."""
        boxes = self.boxes(picture)
        return [Line(*self.text(picture.crop(box)), box) for box in sorted(boxes, key=lambda box: box[1])]

    def boxes(self, picture: Image.Image) -> list[tuple[int, int, int, int]]:
        """The boxes of lines of text."""
        width, height = (max(32, round(size / 32) * 32) for size in picture.size)
        with rg.no_grad():
            shares = self.find(batch([picture.resize((width, height))])).numpy()[0, 0]
        across, down = picture.width / width, picture.height / height
        found = []
        regions, _ = ndimage.label(shares > IS_TEXT, np.ones((3, 3)))
        for rows, columns in ndimage.find_objects(regions):
            tall, wide = rows.stop - rows.start, columns.stop - columns.start
            if min(tall, wide) < 3 or shares[rows, columns].mean() < IS_LINE:
                continue
            more = tall * wide * GROWTH / (2 * (tall + wide))
            left, right = max(0, columns.start - more), min(width, columns.stop + more)
            top, bottom = max(0, rows.start - more), min(height, rows.stop + more)
            found.append((round(left * across), round(top * down), round(right * across), round(bottom * down)))
        return found

    def text(self, line: Image.Image) -> tuple[str, float]:
        """The text of a line, and how sure the model is."""
        with rg.no_grad():
            if self.turn(batch([fitted(line, DIRECTION_WIDTH)])).numpy()[0, 1] > IS_TURNED:
                line = line.rotate(180)
            needed = HEIGHT * line.width / line.height
            width = math.ceil(needed / WIDTH_STEP) * WIDTH_STEP
            shares = self.read(batch([fitted(line, width)])).numpy()[0]  # (columns, characters)
        best = shares.argmax(1)
        is_new = (best != 0) & (best != np.roll(best, 1)) | ((np.arange(len(best)) == 0) & (best != 0))
        confidence = float(shares.max(1)[is_new].mean()) if is_new.any() else 0.0
        return "".join(self.characters[place] for place in best[is_new]), confidence


def fitted(line: Image.Image, width: int) -> Image.Image:
    """The line at the models' height, grey on the right where it is shorter than `width`."""
    scaled = line.resize((min(width, max(1, round(HEIGHT * line.width / line.height))), HEIGHT))
    whole = Image.new("RGB", (width, HEIGHT), (127, 127, 127))
    whole.paste(scaled)
    return whole


def batch(pictures: list[Image.Image]) -> Tensor:
    """Pictures of one size as the models take them: (pictures, blue green red, height, width), -1 to 1."""
    values: Pixels = np.stack([np.asarray(picture.convert("RGB"), np.float32)[:, :, ::-1] for picture in pictures])
    return Tensor(np.ascontiguousarray((values / 127.5 - 1).transpose(0, 3, 1, 2)))


def drawn(lines: tuple[str, ...] = LINES) -> Image.Image:
    """A page with these lines, the last one upside down."""
    page = Image.new("RGB", (640, 96 * len(lines)), "white")
    for number, text in enumerate(lines):
        strip = Image.new("RGB", (640, 80), "white")
        ImageDraw.Draw(strip).text((30, 20), text, "black", ImageFont.load_default(size=34))
        page.paste(strip.rotate(180) if number == len(lines) - 1 else strip, (0, 96 * number + 8))
    return page


def models_folder() -> Path:
    """The folder of models in the package rapidocr-onnxruntime."""
    package = importlib.util.find_spec("rapidocr_onnxruntime")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("there are no models; give --models FOLDER, or: pip install --no-deps rapidocr-onnxruntime")
    return Path(package.submodule_search_locations[0]) / "models"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", nargs="?", type=Path, help="a PNG or JPEG; without it one is drawn")
    parser.add_argument("--models", type=Path, help="the folder of the three ONNX files")
    parser.add_argument("--boxes", type=Path, metavar="FILE", help="write the picture with the boxes that were found")
    given = parser.parse_args()
    picture = Image.open(given.picture).convert("RGB") if given.picture else drawn()
    reader = Reader(given.models or models_folder())
    start = time.perf_counter()
    lines = reader.lines(picture)
    first, start = time.perf_counter() - start, time.perf_counter()
    reader.lines(picture)
    for line in lines:
        print(f"{line.confidence:5.0%}  {line.text}")
    print(f"[{len(lines)} lines: {first:.1f} s, then {time.perf_counter() - start:.2f} s]", file=sys.stderr)
    if given.boxes:
        pen = ImageDraw.Draw(picture)
        for line in lines:
            pen.rectangle(line.box, outline="red", width=2)
        picture.save(given.boxes)


if __name__ == "__main__":
    main()
