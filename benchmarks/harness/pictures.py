"""Makes the pictures of the pages from the committed report of the demonstration (`vdla demo`) and from tables in the
code.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from vdla.codesign.report.canvas import png
from vdla.codesign.report.cycle_breakdown import run_account
from vdla.codesign.report.diagrams import compiler_figure, machine_figure
from vdla.codesign.report.plots import layers_png, roofline_png
from vdla.isa.config import load_config

from .page import Document
from .results import ROOT

COLOURS = 64
"""Number of colours of a picture: enough for these plots, in a quarter of the bytes."""
PICTURES = ROOT / "docs" / "pictures"
DRAWN_FROM = "Source"
"""Key of the PNG's text entry that holds the digest of the data shown."""


def digest(document: Document) -> str:
    """SHA-256 of the report of benchmarks/results/demo.json, independent of the order of keys."""
    return hashlib.sha256(json.dumps(document["report"], sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of docs/pictures: `source` is a digest of the data it shows, `draw` makes its PNG."""

    name: str
    source: str
    draw: Callable[[], bytes]

    @property
    def path(self) -> Path:
        """The picture's file in the repository."""
        return PICTURES / self.name

    @property
    def is_kept(self) -> bool:
        """Whether the picture in the repository shows the present data."""
        return self.path.is_file() and drawn_from(self.path.read_bytes()) == self.source

    def data(self) -> bytes:
        """The bytes of the picture as PNG, with the digest of the data that it shows as a text entry."""
        return _small(self.draw(), self.source)


def pictures(demo: Document) -> tuple[Picture, ...]:
    """All pictures of the pages: two made from the demonstration's report, and diagrams of the machine and the
    compiler.
    """
    account, config = run_account(demo["report"]), load_config(demo["report"]["config"])
    diagrams = {"machine.png": machine_figure(config), "compiler.png": compiler_figure(config)}
    return (
        Picture("layers.png", digest(demo), lambda: layers_png(account)),
        Picture("roofline.png", digest(demo), lambda: roofline_png(account, config)),
        *(Picture(name, _words(figure), partial(png, figure)) for name, figure in diagrams.items()),
    )


def _words(figure: Figure) -> str:
    """SHA-256 of all words in a diagram, in their order; it changes when the diagram shows something else."""
    texts = [text.get_text() for text in figure.axes[0].texts]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def drawn_from(data: bytes) -> str:
    """The digest of the data that a picture shows; empty if the file contains none."""
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        text: Any = getattr(image, "text", {})
        return text.get(DRAWN_FROM, "")


def _small(data: bytes, source: str) -> bytes:
    info = PngInfo()
    info.add_text(DRAWN_FROM, source)
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(data)) as image:
        reduced = image.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        reduced.save(buffer, format="PNG", optimize=True, pnginfo=info)
    return buffer.getvalue()
