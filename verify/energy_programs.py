"""Short random programs for energy measurements, with all kinds of instructions and very different operands.

Two of three programs are compiled layers of networks (convolutions, also depthwise, dense layers, pools, sums), with
inputs and weights that are zeros, sparse, rectified, narrow, constant or uniform. The third is random
(`random_programs`), with instructions that compilers do not emit. Equal arguments give equal programs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph.graph import Graph, quantized_tensor
from vdla.compiler.pipeline import compile_program
from vdla.isa.config import Config
from vdla.isa.program import Program
from vdla.sim import simulate
from vdla.util.errors import UserError

from .random_programs import random_program
from .small_networks import QUANTIZATION, NetworkBuilder

LEAST_CYCLES, MOST_CYCLES = 250, 2500
"""Least and largest number of cycles of a program: shorter programs do little but start up, longer ones take long to
replay.
"""

_TRIES = 200

Values = Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.int8]]


def _uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int8]:
    return rng.integers(-127, 128, shape).astype(np.int8)


def _zeros(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int8]:
    return np.zeros(shape, np.int8)


def _sparse(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int8]:
    return _uniform(rng, shape) * (rng.random(shape) < rng.choice([0.1, 0.3])).astype(np.int8)


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int8]:
    return np.clip(rng.normal(0, rng.choice([3, 12, 35]), shape), -127, 127).astype(np.int8)


def _rectified(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int8]:
    return np.maximum(_normal(rng, shape), 0)


def _held(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int8]:
    return np.full(shape, rng.integers(-127, 128), np.int8)


INPUTS: tuple[Values, ...] = (_uniform, _rectified, _sparse, _normal, _zeros, _rectified, _held)
WEIGHTS: tuple[Values, ...] = (_normal, _uniform, _normal, _sparse, _held)


def energy_program(config: Config, seed: int) -> Program:
    """The program of seed `seed` for `config`. Raises UserError if no program of LEAST_CYCLES to MOST_CYCLES cycles was
    found.
    """
    for number in range(_TRIES):
        rng = np.random.default_rng((seed, number))
        if seed % 3 == 2:
            program = random_program(config, int(rng.integers(1 << 31)), length=int(rng.integers(4, 12)))
        else:
            try:
                program = _layers(config, rng)
            except (UserError, ValueError):
                continue
        cycles = simulate(config, program.instructions, program.image, data=False).cycles
        if LEAST_CYCLES <= cycles <= MOST_CYCLES:
            return program
    raise UserError(f"{config.name}: no program of {LEAST_CYCLES} to {MOST_CYCLES} cycles was found")


def _layers(config: Config, rng: np.random.Generator) -> Program:
    program = compile_program(_graph(config, rng), config, virtual_threads=int(rng.integers(1, 3))).program
    image = program.image.copy()
    for segment in program.segments:
        if segment.kind == "input":
            values = INPUTS[rng.integers(len(INPUTS))](rng, (segment.size,))
            image[segment.address : segment.address + segment.size] = values.view(np.uint8)
    return dataclasses.replace(program, image=image)


def _graph(config: Config, rng: np.random.Generator) -> Graph:
    """One or two layers whose numbers of channels are multiples of the machine's blocks. With the extension `fold`, a
    layer may have as few channels as the array has columns, so that the array's rows work in groups.
    """

    def pick(*choices: int) -> int:
        return int(rng.choice(choices))

    block = max(config.block_in, config.block_out)
    channels, size = block * pick(1, 1, 2, 3), pick(3, 4, 6, 8)
    builder = NetworkBuilder(
        rng=rng, tensors={"input": quantized_tensor("input", (1, channels, size, size), QUANTIZATION)}
    )
    weights = WEIGHTS[rng.integers(len(WEIGHTS))]

    def convolution(data: str, filters: int, kernel: int, stride: int = 1, groups: int = 1) -> str:
        shape = (filters, builder.tensors[data].nchw[1] // groups, kernel, kernel)
        return builder.convolution(data, filters, kernel, stride, groups, weights(rng, shape))

    square = config.block_in == config.block_out
    kinds = (0, 0, 1, 2, 3, 4, 5) if square else (0, 1, 5)
    match pick(*kinds, 6, 6, 6) if config.has("fold") else pick(*kinds):
        case 0:
            last = convolution("input", block * pick(1, 2), 3, pick(1, 1, 2))
        case 1:
            last = convolution("input", block * pick(1, 2, 4), 1)
        case 2 if config.has("depthwise"):
            last = convolution(convolution("input", channels, 3, groups=channels), block, 1)
        case 3:
            first = convolution("input", channels, 1)
            last = builder.add_tensors(first, "input")
        case 4:
            last = builder.max_pool(convolution("input", block, 1), 2, 2)
        case 6:
            few = convolution("input", config.columns, 1)
            last = convolution(few, block * pick(1, 2), pick(1, 3))
        case _:
            last = convolution(convolution("input", block * pick(1, 2), 1), block, pick(1, 3))
    return builder.graph("layers", ("input",), last)
