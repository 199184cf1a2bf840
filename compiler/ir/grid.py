"""Loops that are a GPU's grid of blocks and threads: how they may nest, and which memories lie in one of them."""

from __future__ import annotations

from .bounds import interval, loop_ranges
from .expr import Buffer
from .stmt import Alloc, Assign, Copy, For, Intrinsic, Node, Reduce
from .visit import children, expressions, loads_in, walk

AXES = ("block.x", "block.y", "block.z", "thread.x", "thread.y", "thread.z")
"""The kinds of loops that are axes of a grid. The interpreter runs their iterations in order."""

_OWNERS = {"shared": ("block",), "local": ("block", "thread"), "register": ("block", "thread")}
"""Scopes of which each block, or each thread, has its own memory."""


def grid_obstacle(node: Node) -> tuple[str, str] | None:
    """What is wrong with the grid loops of a program, and the loop at fault; None if nothing is.

    No axis runs within itself, blocks not within threads, neither within loops that a processor's threads or lanes
    share out; extents have a constant bound (that many are launched); and what lies in a memory that each block (scope
    "shared") or thread ("local", "register") has for itself is allocated within these loops.
    """
    if not any(isinstance(n, For) and n.kind in AXES for n in walk(node)):
        return None
    return _visit(node, (), ())


def _visit(
    node: Node, around: tuple[For, ...], held: tuple[tuple[Buffer, int], ...]
) -> tuple[str, str] | None:
    """`held`: the buffers allocated outside, each with the number of loops that were around its allocation."""
    match node:
        case For(name=name, kind=kind):
            if kind in AXES:
                for loop in around:
                    if loop.kind == kind:
                        return f"{name} is {kind} inside {loop.name}, which is {kind} too", name
                    if loop.kind in ("parallel", "vectorize"):
                        return f"{name} is {kind} inside {loop.name}, which is {loop.kind}", name
                    if kind.startswith("block") and loop.kind.startswith("thread"):
                        return f"{name} is {kind} inside {loop.name}, which is {loop.kind}", name
                if interval(node.extent, loop_ranges(around)).high is None:
                    return f"the extent of {name}, which is {kind}, has no constant bound", name
            around = (*around, node)
        case Alloc(buffer=buffer):
            held = (*held, (buffer, len(around)))
        case Assign() | Reduce() | Copy() | Intrinsic():
            if any(loop.kind in AXES for loop in around):
                used = _buffers(node)
                for buffer, depth in held:
                    owners = _OWNERS.get(buffer.scope, ())
                    for loop in around[depth:] if buffer.name in used else ():
                        if loop.kind.partition(".")[0] in owners:
                            whose = f"each {owners[-1]} has its own {buffer.scope} memory"
                            return (
                                f"{buffer.name} is used by all iterations of {loop.name}, but {whose}",
                                loop.name,
                            )
    for child in children(node):
        found = _visit(child, around, held)
        if found is not None:
            return found
    return None


def _buffers(statement: Assign | Reduce | Copy | Intrinsic) -> set[str]:
    names = {e.buffer.name for top in expressions(statement) for e in loads_in(top)}
    match statement:
        case Assign(buffer=buffer) | Reduce(buffer=buffer):
            names.add(buffer.name)
        case Copy(destination=destination, source=source):
            names |= {destination.buffer.name, source.buffer.name}
        case Intrinsic(operands=operands):
            names |= {r.buffer.name for r in operands}
    return names
