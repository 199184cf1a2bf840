"""The knob values of a point of a search space as names and numbers that a user can read."""

from __future__ import annotations

from vdla.isa.config import Config

from ..columns import Values
from .rolling_pool import PATCH_CONV2D_POOL
from .template import space_of
from .tiles import CHUNK, INNERMOST, OUTERMOST, TILE_ORDERS
from .workload import LayerShape, Workload


def settings_of(config: Config, workload: Workload, values: Values) -> dict[str, int | str]:
    """The settings of a point of a workload's space, by axis name: the point's `values`, with letters for three axes.

    "order": the loops over tiles that run more than once, outermost first, a letter each: o (output blocks), y (rows),
    x (columns). "data_level" and "weights_level": the letters of the loops in which the buffer of data or weights is
    filled; a c is added if the buffer is filled for each chunk of the reduction.
    """
    if workload.template == PATCH_CONV2D_POOL.name:
        return dict(values)
    space, shape = space_of(config, workload), LayerShape.of(config, workload)
    effective = space.cost(space.columns(space.point(values)[None])).effective
    alike = {name: int(column[0]) for name, column in effective.items()}
    sizes = {"o": values["output_blocks"], "y": values["rows"], "x": values["columns"]}
    repeated = {letter for letter in sizes if sizes[letter] < shape.extents[letter]}
    window = (values.get("window_rows", shape.kernel[0]), values.get("window_columns", shape.kernel[1]))
    chunked = (
        values.get("reduction_blocks", shape.input_blocks) < shape.input_blocks or window != shape.kernel
    )

    def around(level: int) -> str:
        loops = TILE_ORDERS[alike["order"]][: OUTERMOST - level + 1]
        return "".join(letter for letter in loops if letter in repeated) + (
            "c" if level == CHUNK and chunked else ""
        )

    found: dict[str, int | str] = {**values, "order": around(INNERMOST)}
    return found | {name: around(alike[name]) for name in values if name.endswith("_level")}
