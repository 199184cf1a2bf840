"""The pages' pictures, drawn from the committed report of the demonstration."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from vdla.codesign.report.accounts import run_account
from vdla.codesign.report.plots import layers_png, roofline_png
from vdla.isa.config import load_config

from .page import Document

COLOURS = 64
"""Enough for these plots; with them a picture takes a quarter of the bytes."""
PICTURE_NAMES = ("layers.png", "roofline.png")
DRAWN_FROM = "Source"
"""The PNG's text that holds `digest` of the report it was drawn from."""


def digest(document: Document) -> str:
    """SHA-256 of the report of benchmarks/results/demo.json, however its keys are ordered."""
    return hashlib.sha256(json.dumps(document["report"], sort_keys=True).encode()).hexdigest()


def pictures(document: Document) -> Mapping[str, bytes]:
    """File name to PNG, for docs/pictures."""
    account = run_account(document["report"])
    drawn = (layers_png(account), roofline_png(account, load_config(account.config)))
    return {name: _small(data, digest(document)) for name, data in zip(PICTURE_NAMES, drawn, strict=True)}


def drawn_from(data: bytes) -> str:
    """The digest of the report that a picture was drawn from, empty if it does not say."""
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
