"""Checks a candidate's results, bit by bit and on random data, against the results of the template's default knobs."""

from __future__ import annotations

import numpy as np

from vdla.sim import simulate

from ...templates.columns import Values
from .measure_vdla import AcceleratorTask, program_alone


def agrees(task: AcceleratorTask, values: Values, seed: int = 0) -> bool:
    """Whether the outputs with the knobs `values` equal the outputs with the template's default knobs in every bit, for
    random inputs drawn with `seed`.

    The compiler's own tests compare the template's default with the integer interpreter and ONNX Runtime. Raises
    EmptySpaceError if the template's space has no legal candidate.
    """
    return bool(np.array_equal(_outputs(task, values, seed), _outputs(task, None, seed)))


def _outputs(task: AcceleratorTask, values: Values | None, seed: int) -> np.ndarray:
    alone = program_alone(task, values)
    image, chain = alone.image.copy(), np.zeros(task.config.chain_buffer_bytes, np.uint8)
    generator = np.random.default_rng(seed)
    places = {buffer.name: buffer for buffer in task.program.parameters}
    for name, buffer in places.items():
        data = _random(generator, name, buffer.shape).astype(buffer.dtype.numpy).tobytes()
        held = chain if name in alone.chained else image
        held[alone.addresses[name] : alone.addresses[name] + len(data)] = np.frombuffer(data, np.uint8)
    start = {"chain": chain} if alone.chained else None
    result = simulate(task.config, alone.instructions, image, scratchpads=start)
    assert result.memory is not None and result.scratchpads is not None
    size = int(np.prod(places["Y"].shape))
    memory = result.scratchpads.chain.reshape(-1).view(np.uint8) if "Y" in alone.chained else result.memory
    return memory[alone.addresses["Y"] : alone.addresses["Y"] + size]


def _random(generator: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    if name != "P":
        return generator.integers(-128, 128, shape)
    # Biases and scales for which results cover int8, however long the sums are.
    parameters = generator.integers(-5000, 5000, shape)
    scales = generator.uniform(1e-4, 1e-2, parameters[:, 1].shape).astype(np.float32)
    parameters[:, 1] = scales.view(np.int32)
    return parameters
