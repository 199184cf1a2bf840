"""The generated Verilog of the preset `tiny`, made once for all processes of a test run: it takes some seconds."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from shipped import FOLDER

from vdla.hw.verilog import generate_verilog
from vdla.isa.config import load_config


def tiny_verilog() -> str:
    """What `generate_verilog` gives."""
    folder = os.environ.get(FOLDER)
    path = Path(folder or "/nonexistent") / "tiny.v"
    if path.exists():
        return path.read_text(encoding="utf-8")
    text = generate_verilog(load_config("tiny"))
    if folder:
        partial = path.with_name(f"{uuid.uuid4()}.partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    return text
