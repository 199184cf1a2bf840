"""Steps of `vdla quantize`: post-training quantization of one ONNX file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from vdla.compiler.cpu_stages import SharedKernels, cpu_now
from vdla.compiler.graph.errors import ModelError, NodeError
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.quantize.float_model import FloatModel
from vdla.compiler.quantize.observe import Run
from vdla.compiler.quantize.quantize import Quantized, Recipe
from vdla.util.errors import UserError

from .evaluate import Arrays, load_launches, split_launches


class CalibrationError(UserError):
    """Raised for calibration data with NaN or infinities, and for a model whose input has no dimension for samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInput:
    """An input of a model; `dtype` is numpy's name of the type."""

    name: str
    shape: tuple[int, ...]
    dtype: str


def model_inputs(model: FloatModel) -> tuple[ModelInput, ...]:
    """The inputs of a float model."""
    return tuple(
        ModelInput(
            name=info.name,
            shape=model.static_shapes[info.name],
            dtype=onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type).name,
        )
        for info in model.inputs
    )


def load_calibration(model: FloatModel, path: Path) -> list[Arrays]:
    """The arrays of the npz file at `path`, as one dict for each run of the model; the first dimension of each array is
    the number of samples.

    Raises CalibrationError or CheckError, which name file and input, for data that do not match the model or are not
    finite.
    """
    return _checked(load_launches(_inputs_with_samples(model), path), str(path))


def _inputs_with_samples(model: FloatModel) -> tuple[ModelInput, ...]:
    inputs = model_inputs(model)
    for item in inputs:
        if not item.shape:
            raise CalibrationError(
                f"{model.source}: input '{item.name}' is a single number without a dimension for samples; "
                "make it a constant, or give it a first dimension"
            )
    return inputs


def _checked(samples: list[Arrays], where: str) -> list[Arrays]:
    for name in samples[0]:
        kind = samples[0][name].dtype.kind
        if kind == "f" and not all(np.isfinite(sample[name]).all() for sample in samples):
            raise CalibrationError(
                f"{where}: input {name!r} contains NaN or infinities, which cannot be quantized; remove those samples"
            )
    return samples


def parse_choices(texts: Sequence[str]) -> dict[str, list[str]]:
    """Choices by layer, from texts like "conv1=u8,per-tensor". Raises UserError for invalid texts and a
    repeated name.
    """
    choices: dict[str, list[str]] = {}
    for text in texts:
        # Names may contain "="; choices do not.
        name, _, words = text.rpartition("=")
        if not name or not words:
            raise UserError(f'--layer "{text}": write NAME=CHOICE, as in conv1=float or conv1=s8,per-tensor')
        if name in choices:
            raise UserError(
                f'--layer: "{name}" is given twice; name its choices together, as in {name}=s8,per-tensor'
            )
        choices[name] = words.split(",")
    return choices


def split_samples(model: FloatModel, arrays: Mapping[str, np.ndarray], where: str) -> list[Arrays]:
    """Splits the arrays in memory into one dict for each run of the model, after the checks that `load_calibration`
    makes for a file. `where` names the arrays in messages.
    """
    return _checked(split_launches(_inputs_with_samples(model), arrays, where), where)


def prepare_here(
    model: onnx.ModelProto, remark: Callable[[str], None], kernels: SharedKernels | None = None
) -> Run:
    """Prepares a float model to run on our own kernels. If these lack an operator, the model runs on ONNX's reference
    implementation, which is slow but supports the whole standard, and `remark` is called with the reason. `kernels`:
    compiled kernels that several models share. The returned function raises ModelError if the reference cannot run the
    model either.
    """
    try:
        return compile_kernels(model.SerializeToString(), cpu_now(kernels=kernels)).run
    except ModelError as error:
        # Without the error's advice, which is on running the model, and refers to the temporary model.
        why = (
            f"node '{error.node}' ({error.op_type}): {error.problem}"
            if isinstance(error, NodeError)
            else error
        )
        remark(f"calibrating on ONNX's reference implementation, which is slow: {why}")
        return _on_reference(model)


def _on_reference(model: onnx.ModelProto) -> Run:
    names = [info.name for info in model.graph.output]
    evaluator = ReferenceEvaluator(model)

    def run(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        try:
            results = evaluator.run(names, dict(feeds))
        except Exception as error:
            # The reference raises any exception that its numpy code raises.
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ModelError(
                f"neither vdla nor the reference implementation of ONNX can compute the float model: {reason}; "
                "check the model with onnxruntime"
            ) from None
        assert isinstance(results, list)
        return {name: np.asarray(value) for name, value in zip(names, results, strict=True)}

    return run


def describe(quantized: Quantized, recipe: Recipe, samples: Sequence[object]) -> dict[str, object]:
    """The result of a quantization as a JSON object: settings, number of calibration runs, scale and error of each
    layer, errors of the outputs, and the operators that stay float. `samples`: one item for each calibration run.
    """
    return {
        "activations": recipe.activations,
        "method": recipe.method,
        "per_channel": recipe.per_channel,
        "runs": len(samples),
        "layers": [
            {
                "name": layer.name,
                "operator": layer.operator,
                "tensor": layer.tensor,
                "scale": float(layer.quantization.scale),
                "zero_point": layer.quantization.zero_point,
                "sqnr_db": layer.error.sqnr,
                "relative_error": layer.error.relative,
            }
            for layer in quantized.layers
        ],
        "outputs": [
            {
                "name": name,
                "max_relative_error": error.relative_maximum,
                "sqnr_db": error.sqnr,
                "top1_agreement": error.top1,
            }
            for name, error in quantized.outputs.items()
        ],
        "float_operators": quantized.float_operators,
    }
