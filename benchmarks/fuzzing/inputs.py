"""Kind "inputs": files of input arrays with wrong shapes, types or values, or damaged, for a network on two devices."""

from __future__ import annotations

import functools
import io
from pathlib import Path
from typing import Any

import numpy as np

from .drawing import FLOATS, TEXTS, Draw, damaged
from .networks import quantized_network
from .outcome import Outcome, call, judge

_DTYPES = ("f4", "f8", "f2", "i1", "u1", "i4", "i8", "b1", "c8", "U3", "S2", ">f4", "M8[s]", "O", "V3")


def input_case(seed: int, index: int, folder: Path) -> Outcome:
    """Runs a network on one random, perhaps damaged, file of input arrays and returns the verdict. `seed`, `index`: the
    seed of the campaign and the number of the case; `folder`: an empty folder for files.
    """
    draw = Draw("inputs", seed, index)
    model, path = folder / "net.onnx", folder / draw.of(("in.npz", "in.npz", "in.npy"))
    content, shape = _network()
    model.write_bytes(content)
    path.write_bytes(random_inputs(draw, shape, path.suffix))
    arguments = ["run", model, "--inputs", path, "--json"]
    device = ["--config", "tiny"] if draw.chance(0.5) else ["--device", "cpu"]
    return judge(call(*arguments, *device))


@functools.cache
def _network() -> tuple[bytes, tuple[int, ...]]:
    model = quantized_network(Draw("a network for inputs", 0, 1))
    dims = model.graph.input[0].type.tensor_type.shape.dim
    return model.SerializeToString(), tuple([dim.dim_value for dim in dims])


def random_inputs(draw: Draw, shape: tuple[int, ...], suffix: str) -> bytes:
    """The bytes of a random file of inputs for a network whose input has `shape`: a file of one array if `suffix` is
    ".npy", else an archive of arrays by name.
    """
    array: Any = draw.rng.normal(size=shape).astype(np.float32)
    match draw.below(7):
        case 0:
            array = array.astype(draw.of(_DTYPES[:8]))
        case 1:
            array = np.zeros(draw.shape(range(6)), draw.of(_DTYPES))
        case 2:
            array.reshape(-1)[draw.below(array.size)] = draw.of(FLOATS)
        case 3:
            array = np.asfortranarray(array)
        case 4:
            array = array[..., : draw.below(shape[-1])]
        case _:
            pass
    buffer = io.BytesIO()
    if suffix == ".npy":
        np.save(buffer, array, allow_pickle=True)
    else:
        named = {"input": array}
        if draw.chance(0.15):
            named[draw.of(TEXTS[1:])] = array
        if draw.chance(0.1):
            del named["input"]
        (np.savez_compressed if draw.chance(0.3) else np.savez)(buffer, allow_pickle=True, **named)
    content = buffer.getvalue()
    return damaged(draw, content) if draw.chance(0.4) else content
