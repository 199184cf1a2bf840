"""Moves a program to other memory addresses and other initial counter values; its results must not change.

With these changes, the high bits of addresses and counters are tested, too. Each kind of transfer (such as loads of
weights) gets its own copy of the memory image, high in the address space. The address of the copy is chosen so that the
addresses of the program's transfers carry into high bits. Counters start just below a carry.

Only the RTL runs the moved program. The simulator has no addresses outside its memory image, and a counter that starts
at 0 would take too long to overflow.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.hw.counters import COUNTER_BITS, COUNTERS
from vdla.hw.harness.surroundings import Surroundings
from vdla.hw.interfaces import ADDRESS_BITS
from vdla.isa.config import Config
from vdla.isa.decoding import decode_one
from vdla.isa.fields import Field
from vdla.isa.layout import formats
from vdla.isa.program import Program, instruction_address
from vdla.isa.timing import AXI_BOUNDARY

_KINDS = ("uop", "wgt", "inp", "acc", "acc8", "par", "patch", "out")
_PRESETS = 512
"""Upper bound on the distance of a counter's initial value from a carry into its high bits: after fewer increments than
this, the high bits change. Most counters are incremented more often in a run, so that the test covers the carry.
"""


def surround(config: Config, program: Program, seed: int) -> tuple[NDArray[np.uint64], Surroundings]:
    """The instructions of `program`, uint64 (n, words), moved to other addresses, and the conditions of the RTL's run
    (origins, initial counters). Equal seeds give equal results.
    """
    rng = np.random.default_rng((seed, 7))
    decoded = [decode_one(config, *words) for words in program.instructions.tolist()]
    starts: dict[str, list[int]] = {kind: [0] for kind in _KINDS}
    for name, values in decoded:
        if (kind := _kind(name)) is not None:
            starts[kind].append(values["dram_base"] * _element(config, name))
    behind = instruction_address(len(program.image))
    size = behind + config.instruction_bytes * len(decoded) + AXI_BOUNDARY
    taken: list[int] = []

    def free(reach: int, element: int, starts: list[int]) -> int:
        """A random origin (address of the first byte) for the memory image. An image at this origin does not overlap
        any image at an origin that was drawn before.

        `reach`: the origin is below this address. `element`: the origin is a multiple of this number of bytes.
        `starts`: addresses within the image at which transfers of the program begin.
        """
        while True:
            origin = _origin(rng, reach, element, size, starts)
            if all(abs(origin - other) > size for other in taken):
                taken.append(origin)
                return origin

    fetch = free(1 << ADDRESS_BITS, AXI_BOUNDARY, [behind])
    origins: dict[str, int] = {}
    for kind in _KINDS:
        element = config.element_bytes(kind)
        if kind == "par" and config.has("table"):
            element = min(element, config.element_bytes("table"))
        origins[kind] = free(element << 32, element, starts[kind])
    words = program.instructions.copy()
    for index, (name, values) in enumerate(decoded):
        if (kind := _kind(name)) is not None:
            field = formats(config)[name].field("dram_base")
            _put(words[index], field, values["dram_base"] + origins[kind] // _element(config, name))
    return words, Surroundings(
        base=int(rng.integers(1 << ADDRESS_BITS)) // AXI_BOUNDARY * AXI_BOUNDARY,
        origins=(fetch, *origins.values()),
        counts=tuple(_preset(rng) for _ in range(len(COUNTERS) + 1)),
        manners=int(rng.integers(1, 1 << 63)),
    )


def _kind(name: str) -> str | None:
    """The kind of element that instructions of format `name` transfer; None if they transfer none. Look-up tables have
    the kind par.
    """
    if name == "LOAD.TABLE":
        return "par"
    if name.startswith("STORE."):
        return "out"
    return name.removeprefix("LOAD.").lower() if name.startswith("LOAD.") else None


def _element(config: Config, name: str) -> int:
    """Size in bytes of one element in DRAM, for the memory that instructions of format `name` load or store."""
    return (
        config.out_bytes
        if name.startswith("STORE.")
        else config.element_bytes(name.partition(".")[2].lower())
    )


def _origin(rng: np.random.Generator, reach: int, element: int, size: int, starts: list[int]) -> int:
    """A random origin for an image of `size` bytes: an address below `reach` that is a multiple of `element`. The
    origin plus one address in `starts` lies just below a multiple of a large power of two, so that the addresses after
    it carry into high bits.
    """
    step = max(AXI_BOUNDARY, element)
    reach = min(reach, 1 << ADDRESS_BITS)
    page = (starts[int(rng.integers(len(starts)))] % max(size, 1) // step + 1) * step
    low = max(page, step).bit_length()
    carry = 1 << int(rng.integers(low, reach.bit_length() - 1))
    place = int(rng.integers(1, reach // carry)) * carry - page if reach > carry else 0
    highest = (reach - size) // step * step
    return max(0, min(place, highest))


def _put(word: NDArray[np.uint64], field: Field, value: int) -> None:
    """Sets `field` of the instruction `word` (words,) to `value`, modulo its range."""
    mask, place, shift = (1 << field.width) - 1, field.low // 64, field.low % 64
    word[place] = int(word[place]) & ~(mask << shift) | (value & mask) << shift


def _preset(rng: np.random.Generator) -> int:
    """An initial counter value: mostly a number whose last bits are nearly all 1, else any number."""
    value = int(rng.integers(1 << COUNTER_BITS))
    if rng.random() < 0.3:
        return value
    ones = (1 << int(rng.integers(12, COUNTER_BITS + 1))) - 1
    return (value | ones) - min(ones, int(rng.integers(_PRESETS)))
