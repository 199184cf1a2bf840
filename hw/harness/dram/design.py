"""Makes the Verilog of LiteDRAM's controller with a model of a DRAM part, and compiles it with a harness in C++."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path

from vdla.isa.dram import KINDS, READ_FIFO, WRITE_FIFO, Controller, controller, part_of
from vdla.util.errors import UserError
from vdla.util.user_cache import cached_or_made

from ..build import COMPILE, include_flags, require_tools, verilator_runtime
from ..toolchain import TIMEOUT, call, verilator

CACHE = "dram"
"""Name of the part of the user's cache that holds the Verilog and the programs."""
PACKAGES = ("litedram", "litex", "migen")
_VERILATE = (
    *("--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert", "-Wno-fatal", "-Wno-lint"),
    *("-Wno-style", "--output-split", "0", "--prefix", "Vlitedram_top", "--top-module", "litedram_top"),
)
USER = "LiteDRAM's RTL"
"""Name of the feature that needs the packages, for messages."""


@dataclass(frozen=True, slots=True)
class Design:
    """A DRAM behind LiteDRAM's controller. `part`: a name in `isa.dram.PARTS`; `clock_mhz`: the controller's clock;
    `width`: number of data lines of all chips; `grade`: speed grade ("": the fastest); `masters`: number of AXI
    masters; `bank_bytes`: consecutive bytes in one bank (0: a row); `refresh`: whether the memory is refreshed.
    """

    part: str
    clock_mhz: float
    width: int
    grade: str = ""
    masters: int = 1
    bank_bytes: int = 0
    refresh: bool = True

    @property
    def controller(self) -> Controller:
        """The timings and address widths of the design's controller. Raises ConfigError for an impossible design."""
        return controller(
            self.part,
            clock_mhz=self.clock_mhz,
            width=self.width,
            grade=self.grade or None,
            bank_bytes=self.bank_bytes or None,
            refresh=self.refresh,
        )


def missing_package() -> str:
    """The name of the first of LiteDRAM's packages that is not installed; empty if all are."""
    for name in PACKAGES:
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            return name
    return ""


def litedram_verilog(design: Design) -> Path:
    """The path of the Verilog of a design, generated once for each version of LiteDRAM, LiteX and Migen.

    Raises UserError if the extra `dram` is missing, for a part without an oracle, or if LiteDRAM refuses the design.
    """
    kind = part_of(design.part).kind
    if not KINDS[kind].oracle:
        known = ", ".join(name for name, item in KINDS.items() if item.oracle)
        raise UserError(
            f"{design.part}: LiteDRAM has no model of {kind} to run RTL with; leave out --dram litedram (the RTL then "
            f"runs on the model of LiteDRAM's controller), or give a part of {known}"
        )
    versions = _versions()
    numbers = design.controller
    words = (design.part, f"{design.clock_mhz!r}", f"{design.width}", design.grade, f"{design.bank_bytes}")
    words = (*words, f"{numbers.t_refi}", f"{design.masters}", f"{WRITE_FIFO}", f"{READ_FIFO}")
    script = resources.files("vdla.hw.harness.dram") / "generate.py"
    digest = digest_of(*words, *versions, script.read_text(encoding="utf-8"))

    def build(target: Path) -> None:
        command = [sys.executable, str(script), *words, str(target)]
        with tempfile.TemporaryDirectory(prefix="vdla-dram-") as folder:
            done = subprocess.run(
                command, capture_output=True, text=True, cwd=folder, timeout=TIMEOUT, check=False
            )
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            raise UserError(
                f"{design.part}: LiteDRAM cannot generate a controller: {lines[-1] if lines else 'no message'}"
            )

    return cached_or_made(CACHE, f"{digest}.v", build)


def build_with_litedram(
    design: Design,
    source: str,
    suffix: str,
    flags: tuple[str, ...],
    write: Callable[[Path], None] = lambda made: None,
) -> Path:
    """Compiles the Verilog of `design` together with a C++ file to a program or library, once, and returns its path.
    `source`: name of the C++ file, in this Python file's folder. `flags`: flags of g++. `write` gets the folder of the
    generated C++ and may add files that `source` includes. `suffix`, such as ".so", ends the result's name. Raises
    UserError for a missing tool.
    """
    root, version = verilator(user=USER)
    verilog = litedram_verilog(design)
    folder = resources.files("vdla.hw.harness.dram")
    names = (source, "port.h", "library.h", "commands.h", "litedram_device.h")
    texts = [(folder / name).read_text(encoding="utf-8") for name in names]
    flags = (*COMPILE, *flags, f"-DBUS_BYTES={design.controller.word_bytes}")
    digest = digest_of(verilog.read_text(encoding="utf-8"), *texts, version, *_VERILATE, *flags)

    def build(target: Path) -> None:
        compiler = require_tools()
        runtime = verilator_runtime(root, version, compiler)
        with tempfile.TemporaryDirectory(prefix="vdla-dram-") as place:
            made, built = Path(place) / "made", Path(place) / "built"
            verilate = [str(root / "bin" / "verilator"), *_VERILATE, "--Mdir", str(made), str(verilog)]
            call(verilate, {"VERILATOR_ROOT": str(root)})
            parts = sorted(made.glob("*.cpp"))
            write(made)
            for name, text in zip(names, texts, strict=True):
                (made / name).write_text(text, encoding="utf-8")
            unit = made / "unit.cc"
            included = (made / source, *parts)
            unit.write_text("".join(f'#include "{path}"\n' for path in included), encoding="utf-8")
            includes = [*include_flags(root), f"-I{made}"]
            call([compiler, *flags, *includes, str(unit), str(runtime), "-pthread", "-o", str(built)])
            shutil.copy(built, target)

    return cached_or_made(CACHE, f"{digest}{suffix}", build)


def _versions() -> tuple[str, ...]:
    """The versions of LiteDRAM's packages, in the order of PACKAGES. Raises UserError if one is not installed."""
    if missing := missing_package():
        raise UserError(f'{USER} needs the package {missing}: pip install "vdla[dram]"')
    return tuple(metadata.version(name) for name in PACKAGES)


def digest_of(*parts: str) -> str:
    """A name (32 hexadecimal digits) for a file of the cache: a hash of `parts`, texts from which the file is made."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
