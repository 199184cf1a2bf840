"""Compares the outputs of a network on processors and GPUs with ONNX Runtime's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.frontends.onnx.model.read import ReadModel, Source, is_quantized, read_model
from vdla.compiler.graph.abilities import EVERYTHING
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.quantize.error import Error

from .evaluate import (
    ONNXRUNTIME,
    LayerDifferences,
    RefusedModelError,
    compare_layers,
    interpreter_outputs,
    reference_to_use,
    session_runs,
)
from .verdict import (
    LAYER_STEPS_TOLERANCE,
    NOTHING,
    Compared,
    relative_tolerance,
    why_widened,
    widened,
    within,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCheck:
    """Result of comparing a network's outputs a with a reference's outputs b.

    `max_relative_error` is the largest max |a - b| / max |b| of all outputs. It is None if a and b differ in an element
    that is not finite, or if b is all zeros and a is not. `top1_equal`: whether the top-1 classes agree; None if no
    output is a vector.

    `mode` says what decides whether the check has `passed`. Usually, the error must be within `tolerance`;
    `tolerance_because` is the reason if the tolerance is larger than usual. If `mode` is "layer by layer", every step
    (quantization of inputs, each layer, dequantization of outputs) was compared by itself, and must differ by at most
    `layer_tolerance` quantization steps; `layer_steps` is the largest difference, and `compared` counts the steps. A
    check that compares nothing does not pass.
    """

    against: str
    max_relative_error: float | None
    top1_equal: bool | None
    tolerance: float
    passed: bool
    mode: str = "end to end"
    tolerance_because: str = ""
    layer_steps: int | None = None
    layer_tolerance: int = LAYER_STEPS_TOLERANCE
    compared: Compared = NOTHING


def check_outputs(
    model: Path,
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    wanted: str,
    *,
    tensor_float: bool = False,
) -> tuple[OutputCheck | None, str | None]:
    """Compares outputs with ONNX Runtime's. `wanted` is auto or onnxruntime; `tensor_float`: products were allowed to
    use tf32.

    Returns (the check, None). With auto, returns (None, the reason) if ONNX Runtime is not installed, refuses the
    model, or may compute wrong sums on this processor. With onnxruntime, raises CheckError if ONNX Runtime is not
    installed or refuses the model.
    """
    against, remark = reference_to_use(wanted, model)
    if against != ONNXRUNTIME:
        return None, remark
    try:
        wanted_outputs = _reference_outputs(model, inputs, list(outputs), optimized=True)
    except RefusedModelError as error:
        if wanted == ONNXRUNTIME:
            raise
        return None, f"ONNX Runtime cannot run the model: {error.reason}"
    error = relative_difference(wanted_outputs, outputs)
    read = read_model(model)
    tolerance, why = (
        relative_tolerance(
            quantized=is_quantized(read), tensor_float=tensor_float, floats=coarsest_float(read)
        ),
        "",
    )
    passed = _allowed(error, wanted_outputs, outputs, tolerance)
    if not passed:
        plain = _reference_outputs(model, inputs, list(outputs), optimized=False)
        differs = relative_difference(plain, wanted_outputs)
        if (wider := widened(tolerance, differs)) > tolerance:
            tolerance, why = wider, why_widened(differs, "of the largest value")
        passed = _allowed(error, wanted_outputs, outputs, tolerance) or _allowed(
            relative_difference(plain, outputs), plain, outputs, tolerance
        )
    found: LayerDifferences | None = None
    if not passed:
        found = _layers_alone(model, inputs, outputs)
        passed = found is not None and found.compared.anything and found.largest <= LAYER_STEPS_TOLERANCE
    return OutputCheck(
        against=against,
        max_relative_error=error,
        top1_equal=_top1_equal(wanted_outputs, outputs),
        tolerance=tolerance,
        passed=passed and bool(wanted_outputs),
        mode="end to end" if found is None else "layer by layer",
        tolerance_because=why,
        layer_steps=None if found is None else found.largest,
        compared=Compared(outputs=len(wanted_outputs)) if found is None else found.compared,
    ), None


def _top1_equal(expected: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray]) -> bool | None:
    top1: list[float] = []
    for name, values in expected.items():
        found = Error()
        found.add(*_without_equal_infinities(values, got[name]))
        if found.top1 is not None:
            top1.append(found.top1)
    return min(top1) == 1.0 if top1 else None


def _layers_alone(
    model: Path, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]
) -> LayerDifferences | None:
    """Compares our integer interpreter with ONNX Runtime layer by layer. In both, each layer gets ONNX Runtime's
    integers as its input, because over a whole network one rounding difference can grow to many quantization steps.

    Returns None if some layers are not quantized. Also returns None if the interpreter does not compute exactly
    `outputs`: then a comparison of its layers would say nothing about `outputs`.
    """
    try:
        graph = import_model(model, abilities=EVERYTHING)
    except ModelError:
        return None
    arrays = {name: np.asarray(array) for name, array in inputs.items()}
    own = interpreter_outputs(graph, arrays)
    if not all(np.array_equal(own[name], outputs[name]) for name in own):
        return None
    return compare_layers(model, [arrays])


def _reference_outputs(
    model: Path, inputs: Mapping[str, np.ndarray], names: list[str], *, optimized: bool
) -> dict[str, np.ndarray]:
    if not names:
        return {}  # An empty list would request all outputs, also those whose types ONNX Runtime cannot name.
    (found,) = session_runs(
        str(model), names, [dict(inputs)], optimized=optimized, way_out="leave out --check"
    )
    return {name: np.asarray(values) for name, values in zip(names, found, strict=True)}


def _allowed(
    error: float | None,
    expected: Mapping[str, np.ndarray],
    got: Mapping[str, np.ndarray],
    tolerance: float,
) -> bool:
    """Whether the outputs `got` are close enough to the outputs `expected`. `error` is the largest relative difference,
    which must be at most `tolerance`. If `error` is None (it could not be computed), each output is judged alone, and
    an output that should be all zeros may differ from zero by at most `tolerance`.
    """
    if error is not None:
        return within(error, tolerance)
    for name, values in expected.items():
        error = relative_difference({name: values}, {name: got[name]})
        small = not np.any(values) and bool(np.abs(got[name]).max(initial=0) <= tolerance)
        if not small and not within(error, tolerance):
            return False
    return True


def relative_difference(expected: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray]) -> float | None:
    """The largest of max |a - b| / max |b| over all outputs, where a is an output in `got` and b the same output in
    `expected`.

    None if a and b differ in an element that is not finite, or if b is all zeros and a is not.
    """
    parts: list[float | None] = []
    for name, values in expected.items():
        error = Error()
        error.add(*_without_equal_infinities(np.asarray(values), got[name]))
        part = error.relative_maximum
        parts.append(part if part is not None and math.isfinite(part) else None)
    known = [part for part in parts if part is not None]
    return max(known, default=0.0) if len(known) == len(parts) else None


def _without_equal_infinities(expected: np.ndarray, got: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both arrays with zeros at the elements where both have the same infinity, or both NaN."""
    same = ~np.isfinite(expected) & ((expected == got) | (np.isnan(expected) & np.isnan(got)))
    return np.where(same, 0, expected), np.where(same, 0, got)


def coarsest_float(source: Source | ReadModel) -> str:
    """The least precise float type in which a model computes: "float32", "float16" or "bfloat16".

    Weights of 16 bits do not count if the model converts them to float32 before use. float64 counts as float32. Raises
    ModelError as `read_model` does.
    """
    graph = (source if isinstance(source, ReadModel) else read_model(source)).bare.graph
    held = {item.name: item.data_type for item in graph.initializer}
    found = {info.type.tensor_type.elem_type for info in graph.input if info.name not in held}
    for node in graph.node:
        if node.op_type != "Cast":
            found.update(held[name] for name in node.input if name in held)
        elif node.input[0] not in held:
            found.update(attribute.i for attribute in node.attribute if attribute.name == "to")
    if onnx.TensorProto.BFLOAT16 in found:
        return "bfloat16"
    return "float16" if onnx.TensorProto.FLOAT16 in found else "float32"
