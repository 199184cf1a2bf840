"""Kind "models": ONNX models, intact or damaged, run on the accelerator, on this processor and on an emulated GPU.

`vdla run` itself compares the outputs with ONNX Runtime, the interpreter or both; its exit code is 1 if they differ.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .drawing import FLOATS, TEXTS, Draw, damaged
from .networks import OPERATORS, float_network, operator_model, quantized_network
from .outcome import Outcome, call, first_failure, judge

_EMULATED = 0.1
"""Share of the fuzzing cases that also run on the emulated GPU, which is slow."""
_DTYPES = (
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.FLOAT16,
    TensorProto.INT64,
    TensorProto.INT32,
    TensorProto.INT8,
    TensorProto.UINT8,
    TensorProto.BOOL,
    TensorProto.STRING,
    0,
    99,
)


def model_case(seed: int, index: int, folder: Path) -> Outcome:
    """Runs one random model (quantized or float) on devices; returns the first failure, else the first right outcome,
    else the last one. `seed`, `index`: the seed of the campaign and the number of the case; `folder`: an empty folder.
    """
    draw = Draw("models", seed, index)
    content, quantized = random_model(draw)
    path, out = folder / "net.onnx", folder / "out.npz"
    path.write_bytes(content)

    def run(*options: str) -> Callable[[], Outcome]:
        def attempt() -> Outcome:
            out.unlink(missing_ok=True)
            return judge(call("run", path, "--json", "--outputs", out, *options), files=[out])

        return attempt

    attempts = [run("--device", "cpu", "--no-cache")]
    if quantized or draw.chance(0.1):
        attempts.insert(0, run("--config", "tiny"))
        if draw.chance(0.1):
            attempts.append(run("--target", "vdla,llvm", "--config", "tiny"))
    if draw.chance(_EMULATED):
        attempts.append(run("--device", "cuda:emulated", "--no-cache"))
    return first_failure(attempts)


def random_model(draw: Draw) -> tuple[bytes, bool]:
    """The bytes of a model, damaged in most cases, and whether the model was quantized."""
    made = draw.of(("quantized", "quantized", "float", "operator", "operator"))
    if made == "operator":
        try:
            model = operator_model(draw)
        except (ValueError, TypeError):
            model = float_network(draw)
    else:
        model = quantized_network(draw) if made == "quantized" else float_network(draw)
    if made == "operator" or draw.chance(0.15):
        return model.SerializeToString(), made == "quantized"
    content = model.SerializeToString()
    if draw.chance(0.12):
        return damaged(draw, content), made == "quantized"
    for _ in range(1 + draw.below(3)):
        mutation = draw.of(MUTATIONS)
        before = onnx.ModelProto()
        before.CopyFrom(model)
        try:
            mutation(draw, model)
            content = model.SerializeToString()
        except (ValueError, TypeError, IndexError, KeyError):
            # Protobuf cannot represent this value, or earlier damage made the model unreadable.
            model = before
    return content, made == "quantized"


def _change_attribute(draw: Draw, model: onnx.ModelProto) -> None:
    node = draw.of([n for n in model.graph.node if n.attribute] or model.graph.node)
    if not node.attribute:
        node.attribute.append(helper.make_attribute("axis", draw.integer()))
        return
    attribute = draw.of(node.attribute)
    match draw.below(4):
        case 0:
            node.attribute.remove(attribute)
        case 1:
            attribute.name = draw.of(("axis", "pads", "group", "strides", "alpha", "", "kernel_shape"))
        case _:
            _change_value(draw, attribute)


def _change_value(draw: Draw, attribute: onnx.AttributeProto) -> None:
    if attribute.type == onnx.AttributeProto.INTS and attribute.ints:
        attribute.ints[draw.below(len(attribute.ints))] = draw.integer()
        if draw.chance(0.2):
            attribute.ints.append(draw.integer())
        elif draw.chance(0.2):
            del attribute.ints[0]
    elif attribute.type == onnx.AttributeProto.INT:
        attribute.i = draw.integer()
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = draw.float()
    elif attribute.type == onnx.AttributeProto.STRING:
        attribute.s = draw.of(TEXTS).encode()
    else:
        attribute.type = cast(Any, draw.below(14))


def _change_operator(draw: Draw, model: onnx.ModelProto) -> None:
    node = draw.of(model.graph.node)
    if draw.chance(0.8):
        node.op_type = draw.of(OPERATORS)
    else:
        node.domain = draw.of(("com.microsoft", "ai.onnx", "", *TEXTS[:6]))


def _change_wiring(draw: Draw, model: onnx.ModelProto) -> None:
    node = draw.of(model.graph.node)
    tensors = [name for n in model.graph.node for name in (*n.input, *n.output)]
    side = node.input if draw.chance(0.7) else node.output
    if not side:
        return
    at = draw.below(len(side))
    match draw.below(5):
        case 0:
            del side[at]
        case 1:
            side.append(draw.of(tensors))
        case 2:
            side[at] = ""
        case 3:
            side[at] = draw.of(TEXTS)
        case _:
            side[at] = draw.of(tensors)


def _change_nodes(draw: Draw, model: onnx.ModelProto) -> None:
    nodes = model.graph.node
    at = draw.below(len(nodes))
    match draw.below(4):
        case 0:
            del nodes[at]
        case 1:
            nodes.append(nodes[at])
        case 2:
            nodes[at].name = draw.of(TEXTS)
        case _:
            copies = [onnx.NodeProto() for _ in nodes]
            for copy, node in zip(copies, nodes, strict=True):
                copy.CopyFrom(node)
            order = draw.rng.permutation(len(copies))
            del nodes[:]
            nodes.extend([copies[i] for i in order])


def _change_constant(draw: Draw, model: onnx.ModelProto) -> None:
    constants = model.graph.initializer
    if not constants:
        return
    at = draw.below(len(constants))
    tensor = constants[at]
    match draw.below(8):
        case 0:
            tensor.dims[:] = [draw.integer() for _ in range(draw.below(4))]
        case 1:
            tensor.data_type = draw.of(_DTYPES)
        case 2:
            tensor.raw_data = tensor.raw_data[: draw.below(len(tensor.raw_data) + 1)]
        case 3:
            del constants[at]
        case 4:
            tensor.name = draw.of((*TEXTS, *[other.name for other in constants]))
        case 5:
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (
                ("location", draw.of(TEXTS)),
                ("offset", str(draw.integer())),
                ("length", "abc"),
            ):
                tensor.external_data.add(key=key, value=value)
        case _:
            _change_elements(draw, tensor)


def _change_elements(draw: Draw, tensor: TensorProto) -> None:
    array = numpy_helper.to_array(tensor).copy()
    if not array.size:
        return
    if array.dtype.kind == "f":
        values: Any = [draw.of(FLOATS) for _ in range(3)]
    elif array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        values = [int(np.clip(draw.integer(), limits.min, limits.max)), int(limits.min), int(limits.max)]
    else:
        return
    flat = array.reshape(-1)
    if draw.chance(0.2):
        flat[:] = draw.of(values)
    else:
        flat[draw.below(flat.size)] = draw.of(values)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _change_ends(draw: Draw, model: onnx.ModelProto) -> None:
    infos = model.graph.input if draw.chance(0.6) else model.graph.output
    if not infos:
        return
    info = draw.of(infos)
    kind = info.type.tensor_type
    match draw.below(6):
        case 0:
            kind.elem_type = draw.of(_DTYPES)
        case 1:
            infos.remove(info)
        case 2:
            info.name = draw.of(TEXTS)
        case 3:
            infos.append(info)
        case _:
            if not kind.shape.dim:
                kind.shape.dim.add()
            dim = draw.of(kind.shape.dim)
            if draw.chance(0.3):
                dim.dim_param = draw.of(TEXTS)
            else:
                dim.dim_value = draw.integer()
            if draw.chance(0.2):
                kind.shape.dim.add(dim_value=draw.integer())


def _change_versions(draw: Draw, model: onnx.ModelProto) -> None:
    match draw.below(4):
        case 0:
            model.ir_version = draw.of((0, 1, 3, 7, 10, 13, 99, -1))
        case 1:
            del model.opset_import[:]
        case 2:
            model.opset_import.add(domain=draw.of(TEXTS), version=draw.integer())
        case _:
            model.opset_import[0].version = draw.of((*range(1, 30), -1, 2**40))


MUTATIONS: tuple[Callable[[Draw, onnx.ModelProto], None], ...] = (
    _change_attribute,
    _change_attribute,
    _change_operator,
    _change_wiring,
    _change_nodes,
    _change_constant,
    _change_constant,
    _change_ends,
    _change_versions,
)
