"""Constants that several networks share, each stored once. The networks are, for example, programs of one model for
different lengths.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ..codegen.cpu.memory import Constants
from ..graph.graph import Graph
from .launch import Launch
from .network_description import Beginnings

if TYPE_CHECKING:
    from .artifact import Compiled

KernelT = TypeVar("KernelT")


@dataclass(slots=True)
class SharedArrays:
    """Read-only arrays that several networks share, looked up by content and stored side by side
    (`codegen.cpu.memory`).

    `panels`: for matrix products on processors, maps the size of the weights (depth, columns) to the widths of the
    panels into which weights of this size are packed. Widths count vectors (`templates.cpu.panel_widths`).
    """

    panels: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    _memory: Constants = field(default_factory=Constants)
    _longer: Beginnings[np.ndarray] = field(default_factory=Beginnings)
    _known: dict[tuple[str, tuple[int, ...], bytes], np.ndarray] = field(default_factory=dict)

    def held(self, array: np.ndarray) -> np.ndarray:
        """The shared array with the type, shape and bytes of `array`.

        If `array` has at least `network_description.HEAD` bytes and an earlier array begins with the same bytes, the
        result is a view of the earlier array. Otherwise it is a copy of `array`.
        """
        flat = np.ascontiguousarray(array)
        raw = flat.reshape(-1).view(np.uint8)
        digest = hashlib.sha256(raw.data).digest()
        key = (array.dtype.str, array.shape, digest)
        if key not in self._known:
            longer = self._longer.find(raw)
            if longer is None:
                longer = self._memory.copy(raw, raw.shape)
                longer.flags.writeable = False
                self._longer.add(longer, longer)
            self._known[key] = longer[: raw.size].view(array.dtype).reshape(array.shape)
        return self._known[key]


def run_time_graph(graph: Graph) -> Graph:
    """The parts of a graph that a run needs: no nodes, and no constants except outputs that are constants."""
    outputs = {output.tensor for output in graph.outputs}
    held = {name: array for name, array in graph.constants.items() if name in outputs}
    return replace(graph, nodes=(), constants=held, views={})


def share_launches(launches: Sequence[Launch[KernelT]], shared: SharedArrays) -> tuple[Launch[KernelT], ...]:
    """The launches, where the equal array in `shared` replaces each constant. Missing arrays are added to `shared`."""
    return tuple(
        [
            replace(launch, constants={name: shared.held(array) for name, array in launch.constants.items()})
            for launch in launches
        ]
    )


def share_constants(compiled: Compiled, shared: SharedArrays) -> Compiled:
    """The compiled network without nodes. Its constants are moved from the program's image to `apart` (as arrays in
    `shared`); the image has zeros in their place.

    The system allocates no memory for pages of zeros until they are written.
    """
    program, apart = compiled.program, list(compiled.apart)
    image = np.zeros(program.image.size, np.uint8)
    for segment in program.segments:
        held = program.image[segment.address : segment.address + segment.size]
        if segment.kind == "constant":
            apart.append((segment.address, shared.held(held)))
        elif held.any():
            image[segment.address : segment.address + segment.size] = held
    return replace(
        compiled,
        graph=run_time_graph(compiled.graph),
        program=replace(program, image=image),
        apart=tuple(apart),
    )
