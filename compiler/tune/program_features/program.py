"""Features of a scheduled program for cost models: a vector of fixed length, comparable between workloads and targets.

Features describe the statement with the most work in detail; sums describe all statements together. `leaves.py` counts
each statement. Counts and sizes are given as log2(1 + x), shares and ratios unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log2, prod

import numpy as np

from ...ir.expr import Buffer
from ...ir.stmt import Copy, Intrinsic, Program
from ...templates.columns import Values
from .leaves import AccessFeatures, Counted, Leaf, accesses, count, volumes

Read = Callable[[Values], np.ndarray]
"""A function from a point of a search space (values of a template's knobs) to the features of the scheduled program,
float64 [names]. All features are NaN if the point has no program. The result depends on the values alone, so that it
may be cached. (A search reads the features of its whole history each time it proposes points.)
"""
SCOPES = ("dram", "workspace", "register", "inp", "wgt", "acc", "par")
"""Memories that have features of their own, by the scope of allocations. The scope "local" counts as "register". All
other scopes count as "other".
"""
CAPACITIES = tuple(1 << k for k in range(10, 25, 2))
"""Memory capacities in bytes. There is a feature for each capacity: the number of executions of the statement for each
byte that must be loaded into a memory of this size.
"""
INNER_LEVELS = 8
"""Number of loops that have features of their own: the innermost ones of the loops around the statement with the most
work.
"""
KINDS = ("vectorize", "unroll", "parallel", "virtual_thread")

_SUMS = ("executions", "multiplications", "additions", "other", "calls", "accessed bytes", "compulsory bytes")
FEATURES = (
    *(f"all.{name}" for name in _SUMS),
    "all.operations a compulsory byte",
    "all.statements",
    "all.statements written out",
    "all.share in vectors",
    "all.share in parallel",
    "all.share by intrinsics",
    *(
        f"all.{what}.{scope}"
        for scope in (*SCOPES, "other")
        for what in ("accessed bytes", "allocated bytes")
    ),
    "copies.issued",
    "copies.asynchronous",
    "copies.bytes",
    "copies.bytes a run",
    "copies.shortest run",
    "commits",
    "waits",
    *(f"main.{name}" for name in _SUMS),
    "main.operations a compulsory byte",
    "main.share of the work",
    *(f"main.{kind}" for kind in KINDS),
    "main.loops",
    "main.executions a start of the innermost loop",
    "main.steps written out",
    "main.accumulators",
    "main.loads of a step",
    "main.sums a load",
    "main.share of scattered loads",
    *(f"main.level {k}.{what}" for k in range(INNER_LEVELS) for what in ("extent", "touched bytes", "reuse")),
    *(f"main.executions a byte beyond {capacity} bytes" for capacity in CAPACITIES),
)
"""Names of the entries of `program_features`, in order."""


def program_features(program: Program) -> np.ndarray:
    """The features of a scheduled (or lowered) program: float64 [FEATURES], all finite.

    Raises ValueError for a program without statements, or whose extents read memory.
    """
    counted = count(program)
    if not counted.leaves:
        raise ValueError(f"{program.name} has no statements, so it has no features")
    leaves = counted.leaves
    used = [volumes(leaf) for leaf in leaves]
    main = max(range(len(used)), key=lambda k: leaves[k].work)
    parts = [_sums(leaf, uses) for leaf, uses in zip(leaves, used, strict=True)]
    total = [sum(column) for column in zip(*parts, strict=True)]
    values = [
        *map(_log, total),
        _intensity(total),
        *_program(counted, used),
        *_copies(counted),
        *map(_log, parts[main]),
        _intensity(parts[main]),
        *_main(leaves[main], accesses(leaves[main]), leaves[main].work / sum(leaf.work for leaf in leaves)),
    ]
    return np.array(values, dtype=np.float64)


def _log(value: float) -> float:
    return log2(1.0 + value)


def _ratio(a: float, b: float) -> float:
    return a / b if b else 0.0


def _bytes(access: AccessFeatures) -> int:
    return access.buffer.dtype.bits // 8


Volumes = Sequence[tuple[Buffer, int, int]]


def _sums(leaf: Leaf, uses: Volumes) -> tuple[int, ...]:
    """The counts whose names are in `_SUMS`, for one leaf (innermost statement) in all its executions.

    `uses`: for each access of the leaf, (buffer, elements of all executions, elements of one execution). The numbers
    count different elements that the access touches.
    """
    n, own = leaf.executions, leaf.arithmetic
    return (
        n,
        n * own.multiplications,
        n * own.additions,
        n * own.other,
        n * own.calls,
        sum(n * once * buffer.dtype.bits // 8 for buffer, _, once in uses),
        sum(whole * buffer.dtype.bits // 8 for buffer, whole, _ in uses),
    )


def _intensity(sums: Sequence[int]) -> float:
    return _log(_ratio(sum(sums[1:5]), sums[6]))


def _program(counted: Counted, used: Sequence[Volumes]) -> list[float]:
    leaves = counted.leaves
    work = sum(leaf.work for leaf in leaves)
    by_kind = {
        kind: sum(leaf.work for leaf in leaves if any(level.loop.kind == kind for level in leaf.levels))
        for kind in ("vectorize", "parallel")
    }
    moved: dict[str, int] = dict.fromkeys((*SCOPES, "other"), 0)
    for leaf, uses in zip(leaves, used, strict=True):
        for buffer, _, once in uses:
            moved[_scope(buffer.scope)] += leaf.executions * once * buffer.dtype.bits // 8
    held = dict.fromkeys(moved, 0)
    for scope, size in counted.allocated.items():
        held[_scope(scope)] += size
    return [
        _log(len(leaves)),
        _log(sum(_written_out(leaf) for leaf in leaves)),
        _ratio(by_kind["vectorize"], work),
        _ratio(by_kind["parallel"], work),
        _ratio(sum(leaf.work for leaf in leaves if isinstance(leaf.statement, Intrinsic)), work),
        *(_log(size) for scope in moved for size in (moved[scope], held[scope])),
    ]


def _scope(scope: str) -> str:
    return "register" if scope == "local" else scope if scope in SCOPES else "other"


def _written_out(leaf: Leaf) -> int:
    """Number of copies of a statement in the code after loops are unrolled."""
    return prod(level.extent for level in leaf.levels if level.loop.kind == "unroll")


def _copies(counted: Counted) -> list[float]:
    issued = asynchronous = moved = 0
    runs = 0.0
    shortest = 0
    for leaf in counted.leaves:
        copy = leaf.statement
        if not isinstance(copy, Copy) or not leaf.copied:
            continue
        size = copy.source.buffer.dtype.bits // 8
        issued += leaf.executions
        asynchronous += leaf.executions if copy.asynchronous else 0
        moved += leaf.copied * size
        runs += leaf.copied / leaf.run
        shortest = min(shortest or leaf.run * size, leaf.run * size)
    return [
        _log(issued),
        _log(asynchronous),
        _log(moved),
        _log(_ratio(moved, runs)),
        _log(shortest),
        _log(counted.commits),
        _log(counted.waits),
    ]


def _main(leaf: Leaf, uses: Sequence[AccessFeatures], share: float) -> list[float]:
    # Loops of one iteration are left out.
    kept = [k for k, level in enumerate(leaf.levels) if level.extent != 1]
    levels, depth = [leaf.levels[k] for k in kept], len(kept)
    places = [*kept, len(leaf.levels)]
    values = [
        share,
        *(_log(prod(level.extent for level in levels if level.loop.kind == kind)) for kind in KINDS),
        _log(depth),
        _log(_ratio(leaf.executions, levels[-2].iterations if depth > 1 else 1)),
        *_step(leaf, uses),
    ]
    # entries[k]: how often the loops from the k-th inwards run as a whole.
    entries = [1, *(level.iterations for level in levels)]
    # Registers are not counted as memory traffic.
    moved = [use for use in uses if _scope(use.buffer.scope) != "register"]
    touched = [sum(use.touched[k] * _bytes(use) for use in moved) for k in places]
    accessed = [
        _ratio(leaf.executions, entries[k]) * sum(use.touched[-1] * _bytes(use) for use in moved)
        for k in range(depth + 1)
    ]
    for k in range(depth - 1, depth - 1 - INNER_LEVELS, -1):
        if k < 0:
            values += [_log(1), _log(touched[0]), _log(_ratio(accessed[0], touched[0]))]
        else:
            values += [
                _log(levels[k].extent),
                _log(touched[k]),
                _log(_ratio(accessed[k], touched[k])),
            ]
    for capacity in CAPACITIES:
        # The outermost loop whose data fits, with all loops inside: its data is loaded once each time it
        # runs.
        level = next((k for k in range(depth + 1) if touched[k] <= capacity), depth)
        values.append(_log(_ratio(leaf.executions, entries[level] * touched[level])))
    return values


def _step(leaf: Leaf, uses: Sequence[AccessFeatures]) -> list[float]:
    """Features of one execution of the register tile (the innermost unrolled and vectorized loops). They are the
    numbers of vector operations, of vectors that are kept, and of loads, as logarithms; the operations for each load;
    and the share of scattered loads.

    A vector of contiguous elements takes one load, and so does one element that all lanes read. Scattered elements take
    one load for each lane.
    """
    start = len(leaf.levels)
    while start and leaf.levels[start - 1].loop.kind in ("unroll", "vectorize"):
        start -= 1
    inner = leaf.levels[start:]
    length = next((level.extent for level in inner if level.loop.kind == "vectorize"), 1)
    steps = prod(level.extent for level in inner) / max(1, length)
    held = loads = scattered = 0.0
    for use in uses:
        whole = use.touched[start] / (length if use.stride == 1 else 1)
        if use.write:
            held += whole
        elif _scope(use.buffer.scope) != "register":
            loads += whole
            scattered += whole if use.stride not in (0, 1) and length > 1 else 0
    return [_log(steps), _log(held), _log(loads), _log(_ratio(steps, loads)), _ratio(scattered, loads)]
