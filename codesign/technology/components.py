"""The table of components: reads and checks it, and computes area and energy of memories from it."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

from vdla.hw.synthesis.cells.sram import Scale, memory_figures
from vdla.util.errors import UserError
from vdla.util.files import MOST_TEXT_BYTES, read_file

OPERATIONS = (
    "int8_multiply",
    "int32_add",
    "int32_multiply",
    "float32_multiply",
    "float32_add",
    "flip_flop_bit",
)
"""Operations that a table of components must have as entries; each has an area (square micrometres) and an energy
(picojoules).
"""
SRAM = ("area_um2_per_bit", "energy_pj_32_kib", "port_bytes")
"""Numbers in a table's entry for memories: square micrometres of a bit, picojoules of one access through a port of a
memory of 32 KiB, and bytes of a port.
"""
MACROS = "cacti-45nm"
"""Value of the table's entry `area_um2_per_bit` that selects the SRAM macros which syntheses use."""


class ComponentsError(UserError):
    """Raised for a table of components with a missing entry, or with an entry that is no number."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Components:
    """A table of components for the technology node `node`. `area`, in square micrometres, and `energy`, in picojoules,
    are by operation (`OPERATIONS`; `energy` also has "dram_byte"); `sram` has the numbers of `SRAM`. `left_out` names
    the parts of a machine without an entry, `sources` the origin of each entry. `digest` is the hash of the file's
    text, with `modelled` also of the models' files.
    """

    name: str
    node: str
    left_out: str
    area: Mapping[str, float]
    energy: Mapping[str, float]
    sram: Mapping[str, float]
    sources: Mapping[str, str]
    digest: str
    modelled: bool = False
    """Whether models are used instead of the table: the model of syntheses (`cell_model.py`) for area and clock, the
    model of switching (`modelled_energy.py`) for energy.
    """

    def sram_area(self, size: int) -> float:
        """Area of a memory of `size` bytes in square micrometres."""
        return 8 * size * self.sram["area_um2_per_bit"]

    def sram_energy(self, size: int, width: int) -> float:
        """Picojoules of one read or write of `width` bytes in a memory of `size` bytes, which is made of macros side by
        side; the energy of a macro is proportional to the square root of its size.
        """
        port = self.sram["port_bytes"]
        macros = max(1, math.ceil(width / port))
        kib = size / macros / 1024
        return width / port * self.sram["energy_pj_32_kib"] * math.sqrt(kib / 32)


@cache
def shipped_components() -> Components:
    """The table of components that is shipped with the package."""
    text = (resources.files("vdla.codesign.technology") / "components.toml").read_bytes()
    return _parse(text, "components.toml")


@cache
def default_components() -> Components:
    """The shipped table of components, marked (`modelled`) so that area, clock and energy are predicted by the shipped
    models and not read from the table.
    """
    table, folder = shipped_components(), resources.files("vdla.codesign.technology")
    models = b"".join(
        (folder / f"{name}.json").read_bytes() for name in ("cell_model", "event_energy", "operand_rates")
    )
    return replace(table, modelled=True, digest=sha256(table.digest.encode() + models).hexdigest())


MODELS = "models"
"""Value of `--technology` that selects `default_components`."""


def load_components(path: str | Path | None) -> Components:
    """The source of clock, area and energy: the shipped models for the name "models" or None, the shipped table by its
    name, or a user's table by its path. Raises ComponentsError, which names file and entry."""
    if path is None or str(path) == MODELS:
        return default_components()
    if str(path) == shipped_components().name:
        return shipped_components()
    try:
        data = read_file(path, most=MOST_TEXT_BYTES)
    except OSError as error:
        raise ComponentsError(
            f"{path}: {error.strerror}; give {MODELS}, {shipped_components().name} or a TOML table of components"
        ) from None
    return _parse(data, str(path))


def components_from_dict(values: Mapping[str, Any]) -> Components:
    """The table of components with the fields in `values` (from `dataclasses.asdict`), as received from another
    process.
    """
    return Components(**values)


def _parse(data: bytes, where: str) -> Components:
    try:
        table = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise ComponentsError(f"{where}: not valid TOML: {error}") from None
    entries = {name: _entry(table, name, where) for name in (*OPERATIONS, "sram", "dram_byte")}
    return Components(
        name=_text(table, "name", where),
        node=_text(table, "node", where),
        left_out=_text(table, "left_out", where),
        area={name: _number(entries[name], "area_um2", f"{where}: {name}") for name in OPERATIONS},
        energy={
            name: _number(entries[name], "energy_pj", f"{where}: {name}")
            for name in (*OPERATIONS, "dram_byte")
        },
        sram={key: _number(_with_macros(entries["sram"]), key, f"{where}: sram") for key in SRAM},
        sources={name: _text(entry, "source", f"{where}: {name}") for name, entry in entries.items()},
        digest=sha256(data).hexdigest(),
    )


def _with_macros(sram: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replaces the text MACROS in the entry [sram] of a table of components by a number: the area per bit, in square
    micrometres, of an SRAM macro of 32 KiB with words of 64 bits. An entry without this text is returned unchanged.
    """
    if sram.get("area_um2_per_bit") != MACROS:
        return sram
    words, width = 4096, 64
    return {**sram, "area_um2_per_bit": memory_figures(words, width, Scale()).area / (words * width)}


def _entry(table: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    entry = table.get(name)
    if not isinstance(entry, Mapping):
        raise ComponentsError(f"{where}: has no table [{name}]")
    return entry


def _text(table: Mapping[str, Any], key: str, where: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise ComponentsError(f"{where}: {key} = {value!r}: expected a text")
    return value


def _number(table: Mapping[str, Any], key: str, where: str) -> float:
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise ComponentsError(f"{where}: {key} = {value!r}: expected a number above 0")
    return float(value)
