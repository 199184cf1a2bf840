"""The description of an accelerator program as one of several in a file: inputs, outputs, and addresses.

Micro-ops, constants and instructions are stored as arrays in the file's pool. Instructions repeat, so their array is
compressed. The file does not say to which layer an instruction belongs.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from vdla.isa.errors import ConfigError
from vdla.isa.program import Program
from vdla.isa.program_file import config_from_dict
from vdla.util.machine_memory import memory_problem

from ..graph.graph import Graph, GraphInput, GraphOutput, Tensor, quantized_tensor
from ..graph.int8_convolution import ActivationType, Quantization
from ..graph.layout import Layout, activation_bytes
from ..ir.types import DType
from .archive_fields import Field
from .artifact import Compiled
from .network_description import ConstantPool, named_array

_LAYOUTS = ("blocked", "interleaved")


def describe_program(compiled: Compiled, pool: ConstantPool) -> dict[str, Any]:
    """Describes a compiled network, whose constants are in `Compiled.apart`, as JSON values. Its arrays are added to
    the pool.
    """
    graph, program = compiled.graph, compiled.program
    ends = dict.fromkeys(item.tensor for item in (*graph.inputs, *graph.outputs))
    written = [
        (segment.address, program.image[segment.address : segment.address + segment.size])
        for segment in program.segments
        if segment.kind == "uop"
    ]
    return {
        "name": graph.name,
        "config": program.config.to_dict(),
        "instructions": len(program.instructions),
        "words": pool.add("words", np.frombuffer(zlib.compress(program.instructions.tobytes()), np.uint8)),
        "image_bytes": program.image.size,
        "parts": [
            {"address": address, "data": pool.add(f"part{number}", array)}
            for number, (address, array) in enumerate((*written, *compiled.apart))
        ],
        "tensors": {
            name: {
                "shape": list(graph.tensors[name].shape),
                "quantization": _described(graph.tensors[name].grid),
                "layout": compiled.layouts[name],
                "address": compiled.addresses[name],
            }
            for name in ends
        },
        "inputs": [
            {
                "name": item.name,
                "tensor": item.tensor,
                "shape": list(item.shape),
                "dtype": str(item.dtype),
                "permutation": None if item.permutation is None else list(item.permutation),
            }
            for item in graph.inputs
        ],
        "outputs": [
            {
                "name": item.name,
                "tensor": item.tensor,
                "shape": list(item.shape),
                "dtype": str(item.dtype),
                "quantization": None if item.quantization is None else _described(item.quantization),
                "view": None if item.view is None else _described_view(item.view, pool, f"view{number}"),
            }
            for number, item in enumerate(graph.outputs)
        ],
    }


def read_program(entry: Field, constants: Mapping[str, np.ndarray]) -> Compiled:
    """The compiled network that `describe_program` described in `entry`. Raises ArchiveError."""
    try:
        config = config_from_dict(cast(dict[str, Any], entry.at("config").value))
    except ConfigError as error:
        raise entry.at("config").fail(str(error)) from None
    size = entry.at("image_bytes").integer()
    if problem := memory_problem(size):
        raise entry.at("image_bytes").fail(problem)
    apart: list[tuple[int, np.ndarray]] = []
    for part in entry.at("parts").items():
        data = named_array(part.at("data"), constants).reshape(-1).view(np.uint8)
        address = part.at("address").integer()
        if address + data.size > size:
            raise part.at("address").fail(
                f"is {address}, and {data.size:,} bytes from there end beyond the image"
            )
        apart.append((address, data))
    words = _instructions(entry, config.instruction_words, constants)
    tensors = {name: _tensor(name, item) for name, item in entry.at("tensors").entries().items()}
    layouts: dict[str, Layout] = {}
    addresses: dict[str, int] = {}
    for name, item in entry.at("tensors").entries().items():
        layouts[name] = cast(Layout, item.at("layout").one_of(_LAYOUTS))
        addresses[name] = item.at("address").integer()
        if addresses[name] + activation_bytes(config, tensors[name].nchw, layouts[name]) > size:
            raise item.at("address").fail(f"is {addresses[name]}, and the tensor ends beyond the image")
    graph = Graph(
        name=entry.at("name").text(),
        inputs=tuple([_input(item, tensors) for item in entry.at("inputs").items()]),
        outputs=tuple([_output(item, tensors, constants) for item in entry.at("outputs").items()]),
        nodes=(),
        tensors=tensors,
    )
    program = Program(
        config=config,
        instructions=words,
        image=np.zeros(size, np.uint8),
        group_of=np.full(len(words), -1, np.int32),
    )
    return Compiled(
        program=program,
        graph=graph,
        layouts=layouts,
        addresses=addresses,
        sizes={name: activation_bytes(config, t.nchw, layouts[name]) for name, t in tensors.items()},
        virtual_threads=1,
        compile_seconds=0.0,
        apart=tuple(apart),
    )


def _instructions(entry: Field, words: int, constants: Mapping[str, np.ndarray]) -> np.ndarray:
    """The instructions that `entry` describes, uint64 [instructions, words]. `words`: 64-bit words of an instruction.
    Raises ArchiveError.
    """
    count = entry.at("instructions").integer()
    if problem := memory_problem(8 * count * words):
        raise entry.at("instructions").fail(problem)
    unpack = zlib.decompressobj()
    try:
        # Ask for one byte more than expected, to detect longer data.
        data = unpack.decompress(named_array(entry.at("words"), constants).tobytes(), 8 * count * words + 1)
    except zlib.error:
        data = b""
    if len(data) != 8 * count * words or not unpack.eof:
        raise entry.at("words").fail(f"is not a list of {count:,} instructions of {words} words")
    return np.frombuffer(data, np.dtype("<u8")).reshape(count, words)


def _described_view(view: np.ndarray, pool: ConstantPool, name: str) -> dict[str, Any]:
    """A view (for each output element its position in a tensor), for JSON.

    If possible, the first position and the step along each axis describe the positions. If a step or the first position
    would be negative, or steps vary, an array of all positions is added to `pool` as `name`.
    """
    start = int(view.flat[0]) if view.size else 0
    steps = [
        int(view[tuple(int(axis == other) for other in range(view.ndim))]) - start
        if view.size and size > 1
        else 0
        for axis, size in enumerate(view.shape)
    ]
    if min((start, *steps)) >= 0 and np.array_equal(_strided_indices(start, steps, view.shape), view):
        return {"start": start, "steps": steps}
    return {"places": pool.add(name, view)}


def _strided_indices(start: int, steps: Sequence[int], shape: tuple[int, ...]) -> np.ndarray:
    places = np.full(shape, start, np.int64)
    for axis, (step, size) in enumerate(zip(steps, shape, strict=True)):
        along = np.arange(size, dtype=np.int64) * step
        places += along.reshape([-1 if axis == other else 1 for other in range(len(shape))])
    return places


def _read_view(
    entry: Field, shape: tuple[int, ...], size: int, constants: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Reads a view, an int64 array of the output's `shape`: for each element of the output, the element's position in a
    tensor of `size` elements, or -1. Raises ArchiveError.
    """
    if entry.find("places") is not None:
        view = named_array(entry.at("places"), constants)
    else:
        steps = entry.at("steps").shape()
        if len(steps) != len(shape) or sum(steps) + entry.at("start").integer() > 2**40:
            raise entry.at("steps").fail(
                f"are {list(steps)}, but must be {len(shape)} steps, one for each dimension, that add up with the "
                "start to at most 2**40"
            )
        if problem := memory_problem(8 * prod(shape)):
            raise entry.fail(problem)
        view = _strided_indices(entry.at("start").integer(), steps, shape)
    if (
        view.dtype != np.int64
        or view.shape != shape
        or not -1 <= view.min(initial=0) <= view.max(initial=0) < size
    ):
        raise entry.fail(
            f"has the type {view.dtype}, the shape {list(view.shape)} and values from {view.min(initial=0)} to "
            f"{view.max(initial=0)}, but must be int64 of shape {list(shape)} with values from -1 to {size - 1}"
        )
    return view


def _described(quantization: Quantization) -> dict[str, Any]:
    return {
        "scale": float(quantization.scale),
        "zero_point": quantization.zero_point,
        "dtype": quantization.dtype,
    }


def _quantization(entry: Field) -> Quantization:
    dtype = entry.at("dtype").one_of(("int8", "uint8"))
    low = entry.at("zero_point").value
    limits = np.iinfo(dtype)
    if not isinstance(low, int) or not limits.min <= low <= limits.max:
        raise entry.at("zero_point").fail(f"is {low!r:.60}, not a value of {dtype}")
    scale = np.float32(entry.at("scale").number())
    return Quantization(scale=scale, zero_point=low, dtype=cast(ActivationType, dtype))


def _tensor(name: str, entry: Field) -> Tensor:
    shape = entry.at("shape").shape()
    if len(shape) not in (2, 4):
        raise entry.at("shape").fail(f"is {list(shape)}, but must have 2 or 4 dimensions")
    return quantized_tensor(name, shape, _quantization(entry.at("quantization")))


def _input(entry: Field, tensors: Mapping[str, Tensor]) -> GraphInput:
    shape, permutation = entry.at("shape").shape(), None
    tensor = tensors[entry.at("tensor").one_of(list(tensors))]
    if entry.at("permutation").value is not None:
        permutation = entry.at("permutation").shape()
        if sorted(permutation) != list(range(len(shape))):
            raise entry.at("permutation").fail(f"is not a permutation of {len(shape)} axes")
    _check_size(entry, shape, tensor)
    return GraphInput(
        name=entry.at("name").text(),
        tensor=tensor.name,
        shape=shape,
        dtype=_type(entry),
        permutation=permutation,
    )


def _output(entry: Field, tensors: Mapping[str, Tensor], constants: Mapping[str, np.ndarray]) -> GraphOutput:
    shape, view, quantization = entry.at("shape").shape(), None, None
    tensor = tensors[entry.at("tensor").one_of(list(tensors))]
    if entry.at("quantization").value is not None:
        quantization = _quantization(entry.at("quantization"))
    if entry.at("view").value is None:
        _check_size(entry, shape, tensor)
    else:
        view = _read_view(entry.at("view"), shape, tensor.size, constants)
    return GraphOutput(
        name=entry.at("name").text(),
        tensor=tensor.name,
        shape=shape,
        dtype=_type(entry),
        quantization=quantization,
        view=view,
    )


def _type(entry: Field) -> DType:
    return DType(entry.at("dtype").one_of(("float32", "int8", "uint8")))


def _check_size(entry: Field, shape: tuple[int, ...], tensor: Tensor) -> None:
    if np.prod(shape, dtype=np.int64) != tensor.size:
        raise entry.at("shape").fail(
            f"is {list(shape)}, but tensor {tensor.name!r} has {tensor.size} elements"
        )
