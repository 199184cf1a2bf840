"""Random schedules of small programs: schedule primitives with random arguments. Some of these steps are legal; the
others must be refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import vdla
from vdla.compiler.ir.stmt import Alloc, For, Program
from vdla.compiler.ir.visit import walk
from vdla.compiler.schedule.trace import PRIMITIVES

A, B = vdla.placeholder("A", (6, 8)), vdla.placeholder("B", (8, 5))
K = vdla.reduce_axis("k", 8)


def product() -> vdla.Program:
    return vdla.program_of(vdla.compute("C", (6, 5), lambda i, j: vdla.reduce_sum(A[i, K] * B[K, j], K)))


def rectified_product() -> vdla.Program:
    c = vdla.compute("C", (6, 5), lambda i, j: vdla.reduce_sum(A[i, K] * B[K, j], K))
    return vdla.program_of(vdla.compute("D", (6, 5), lambda i, j: vdla.maximum(c[i, j] + 1.0, 0.0)))


def chain() -> vdla.Program:
    x = vdla.compute("X", (6, 8), lambda i, j: A[i, j] * 2.0)
    y = vdla.compute("Y", (6, 8), lambda i, j: x[i, j] + A[i, j])
    return vdla.program_of(vdla.compute("Z", (8, 6), lambda i, j: y[j, i] - 1.0))


def convolution() -> vdla.Program:
    data, weight = vdla.placeholder("P", (2, 9, 9)), vdla.placeholder("W", (3, 2, 3, 3))
    c, r, s = vdla.reduce_axis("c", 2), vdla.reduce_axis("r", 3), vdla.reduce_axis("s", 3)
    return vdla.program_of(
        vdla.compute(
            "O",
            (3, 7, 7),
            lambda f, y, x: vdla.reduce_sum(data[c, y + r, x + s] * weight[f, c, r, s], c, r, s),
        )
    )


def pads() -> vdla.Program:
    data = vdla.placeholder("Q", (5,))
    padded = vdla.compute("R", (8,), lambda i: vdla.select(i < 5, data[i], 0.0))
    return vdla.program_of(vdla.compute("S", (4,), lambda i: padded[i * 2] + padded[i * 2 + 1]))


def without_greatest() -> vdla.Program:
    greatest = vdla.compute("M", (6,), lambda i: vdla.reduce_max(A[i, K], K))
    return vdla.program_of(vdla.compute("E", (6, 8), lambda i, j: A[i, j] - greatest[i]))


MAKERS: tuple[Callable[[], Program], ...] = (
    product,
    rectified_product,
    chain,
    convolution,
    pads,
    without_greatest,
)

_NUMBERS = (1, 2, 3, 4, 5, 7, 8)
_OFTEN = (
    "split",
    "split",
    "peel",
    "guard",
    "prefetch",
    "compute_at",
    "cache_read",
    "cache_write",
    "compute_inline",
)
"""Primitives that are drawn more often, because most other primitives need their results."""
_NAMES = tuple(name for name in PRIMITIVES if name != "tensorize")


def draw_step(random: Random, program: Program) -> tuple[str, tuple[Any, ...]]:
    """A random primitive's name and arguments: names in the program, and suitable numbers. The step need not
    be legal.
    """
    loops = [node.name for node in walk(program.body) if isinstance(node, For)] or ["none"]
    statements = [
        node.name for node in walk(program.body) if not isinstance(node, For) and hasattr(node, "name")
    ]
    buffers = [parameter.name for parameter in program.parameters]
    buffers += [node.buffer.name for node in walk(program.body) if isinstance(node, Alloc)]
    pair = random.randrange(max(1, len(loops) - 1))
    drawn: Mapping[str, Callable[[], Any]] = {
        "the name of a loop": lambda: random.choice(loops),
        "the name of a loop, or null": lambda: random.choice([None, *random.choices(loops, k=3)]),
        "the name of a statement": lambda: random.choice(statements or ["none"]),
        "the name of a buffer": lambda: random.choice(buffers),
        "a memory scope": lambda: random.choice(["local", "shared", "register", "dram", "inp"]),
        "an integer": lambda: random.choice(_NUMBERS),
        "first or last": lambda: random.choice(["first", "last"]),
        "a list of [dimension, size]": lambda: tuple(
            (random.randrange(3), random.choice(_NUMBERS)) for _ in range(random.randint(0, 2))
        ),
        "a list of dimensions": lambda: tuple(random.sample(range(3), random.randint(1, 3))),
        "a list of [axis, threads]": lambda: (("thread.x", random.choice(_NUMBERS)),),
    }
    name = random.choice(_NAMES + _OFTEN)
    if name == "annotate":
        return name, (random.choice(loops), random.choice(["serial", "unroll", "vectorize", "parallel"]))
    if name == "compute_early":
        ahead = random.choice(buffers), random.choice(["exp", "tanh", "round_tf32", "none"])
        return name, random.choice([(random.choice(statements or ["none"]),), ahead])
    if name == "fuse":
        return name, tuple(loops[pair : pair + 2] if len(loops) > 1 else loops * 2)
    if name == "reorder":
        return name, tuple(random.sample(loops, min(len(loops), random.randint(1, 4))))
    return name, tuple([drawn[kind.text]() for kind in PRIMITIVES[name]])


def draw_schedule(
    seed: int,
) -> tuple[Callable[[], Program], vdla.Schedule, list[tuple[str, tuple[Any, ...]]]]:
    """Returns (function that makes a program, its schedule after up to six random legal steps, the steps in order)."""
    random = Random(seed)
    make = random.choice(MAKERS)
    schedule, steps = vdla.Schedule(make()), []
    wanted = random.randint(1, 6)
    for _ in range(25):
        if len(steps) == wanted:
            break
        name, arguments = draw_step(random, schedule.program)
        try:
            getattr(schedule, name)(*arguments)
        except vdla.LegalityError:
            continue
        steps.append((name, arguments))
    return make, schedule, steps
