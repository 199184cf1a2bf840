"""Outputs of a network of kernels, held against ONNX Runtime."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vdla.compiler.graph.abilities import EVERYTHING
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.graph.onnx_import import import_model
from vdla.compiler.graph.onnx_read import is_quantized
from vdla.compiler.graph.quantize.error import Error

from .evaluate import (
    ONNXRUNTIME,
    RefusedModelError,
    compare_layers,
    interpreter_outputs,
    reference_to_use,
    session_runs,
)
from .verdict import LAYER_STEPS_TOLERANCE, relative_tolerance, widened, within


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCheck:
    """Outputs against a reference: max |a - b| / max |b| over all of them, and whether all vectors have equal top-1.

    The first is None where only one side is finite, or where b is all zeros and a is not; the second for networks
    without a vector among their outputs. `passed` says that the outputs are within `tolerance` of the reference's; or,
    where `mode` is "layer by layer", that each quantized layer is within `verdict.LAYER_STEPS_TOLERANCE` of it.
    """

    against: str
    max_relative_error: float | None
    top1_equal: bool | None
    tolerance: float
    passed: bool
    mode: str = "end to end"


def check_outputs(
    model: Path,
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    wanted: str,
    *,
    tensor_float: bool = False,
) -> tuple[OutputCheck | None, str | None]:
    """Holds outputs against ONNX Runtime's, where that is installed; else None, and why.

    `wanted` is auto or onnxruntime; `tensor_float`: products were allowed to use tf32. Raises CheckError.
    """
    against, remark = reference_to_use(wanted, model)
    if against != ONNXRUNTIME:
        return None, remark
    try:
        wanted_outputs = _reference_outputs(model, inputs, list(outputs), optimized=True)
    except RefusedModelError as error:
        if wanted == ONNXRUNTIME:
            raise
        return None, f"ONNX Runtime refuses the model: {error.reason}"
    error = relative_difference(wanted_outputs, outputs)
    tolerance = relative_tolerance(quantized=is_quantized(model), tensor_float=tensor_float)
    passed = _allowed(error, wanted_outputs, outputs, tolerance)
    if not passed:
        plain = _reference_outputs(model, inputs, list(outputs), optimized=False)
        tolerance = widened(tolerance, relative_difference(plain, wanted_outputs))
        passed = _allowed(error, wanted_outputs, outputs, tolerance) or _allowed(
            relative_difference(plain, outputs), plain, outputs, tolerance
        )
    mode = "end to end"
    if not passed and _layers_agree(model, inputs, outputs):
        mode, passed = "layer by layer", True
    top1: list[float] = []
    for name, values in wanted_outputs.items():
        found = Error()
        found.add(*_without_equal_infinities(values, outputs[name]))
        if found.top1 is not None:
            top1.append(found.top1)
    return OutputCheck(
        against=against,
        max_relative_error=error,
        top1_equal=min(top1) == 1.0 if top1 else None,
        tolerance=tolerance,
        passed=passed,
        mode=mode,
    ), None


def _layers_agree(model: Path, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> bool:
    """Whether outputs are what the model's integers give, and each layer's are within a step of the reference's.

    End to end one rounding may become many steps, or most of a small output. False where not all is quantized.
    """
    try:
        graph = import_model(model, abilities=EVERYTHING)
    except ModelError:
        return False
    arrays = {name: np.asarray(array) for name, array in inputs.items()}
    own = interpreter_outputs(graph, arrays)
    if not all(np.array_equal(own[name], outputs[name]) for name in own):
        return False
    largest, _ = compare_layers(model, [arrays])
    return largest <= LAYER_STEPS_TOLERANCE


def _reference_outputs(
    model: Path, inputs: Mapping[str, np.ndarray], names: list[str], *, optimized: bool
) -> dict[str, np.ndarray]:
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
    """Whether outputs are within a tolerance; those that should be all zeros by their own size."""
    if error is not None:
        return within(error, tolerance)
    for name, values in expected.items():
        error = relative_difference({name: values}, {name: got[name]})
        small = not np.any(values) and bool(np.abs(got[name]).max(initial=0) <= tolerance)
        if not small and not within(error, tolerance):
            return False
    return True


def relative_difference(expected: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray]) -> float | None:
    """The largest max |a - b| / max |b| of outputs by name; None where only one side is finite, or b is all zeros and a
    is not."""
    parts: list[float | None] = []
    for name, values in expected.items():
        error = Error()
        error.add(*_without_equal_infinities(np.asarray(values), got[name]))
        part = error.relative_maximum
        parts.append(part if part is not None and math.isfinite(part) else None)
    known = [part for part in parts if part is not None]
    return max(known, default=0.0) if len(known) == len(parts) else None


def _without_equal_infinities(expected: np.ndarray, got: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both arrays with zeros where they hold the same infinity, or both NaN: there they agree."""
    same = ~np.isfinite(expected) & ((expected == got) | (np.isnan(expected) & np.isnan(got)))
    return np.where(same, 0, expected), np.where(same, 0, got)
