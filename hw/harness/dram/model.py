"""Compiles the model of LiteDRAM's controller (controller.h), the second oracle of a DRAM's timing.

The model needs g++ and no other package. Its numbers are those of `isa.dram.Controller`.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from importlib import resources
from pathlib import Path

from vdla.isa.dram import Controller
from vdla.util.user_cache import cached_or_made

from ..build import COMPILE
from ..toolchain import call, require
from .design import CACHE, digest_of

_HEADERS = (
    "blocks.h", "bridge.h", "commands.h", "part.h", "controller.h", "port.h", "library.h", "model_device.h",
)  # fmt: skip


def build_with_model(
    numbers: Controller, source: str, suffix: str, flags: tuple[str, ...], *, masters: int = 1
) -> Path:
    """Compiles the model of the controller `numbers` with `masters` AXI masters together with a C++ file to a program
    or library, once, and returns its path. `source`: name of the C++ file, in this Python file's folder. `flags`: flags
    of g++. `suffix`, such as ".so", ends the result's name. Raises BuildError without g++.
    """
    (compiler,) = require("g++", user="the model of a DRAM controller")
    folder = resources.files("vdla.hw.harness.dram")
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in (source, *_HEADERS)}
    values = ",".join(f".{name}={value}" for name, value in dataclasses.asdict(numbers).items())
    defined = (f"-DNUMBERS={values}", f"-DMASTERS={masters}", f"-DBUS_BYTES={numbers.word_bytes}")
    flags = (*COMPILE, "-O2", *flags, *defined)

    def build(target: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="vdla-dram-") as place:
            for name, text in texts.items():
                (Path(place) / name).write_text(text, encoding="utf-8")
            built = Path(place) / "built"
            call([compiler, *flags, str(Path(place) / source), "-o", str(built)])
            shutil.copy(built, target)

    return cached_or_made(CACHE, f"{digest_of(*texts.values(), *flags)}{suffix}", build)
