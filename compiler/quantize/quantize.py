"""Static quantization of a float32 model with calibration data: the model in QDQ form, and its errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from vdla.util.errors import UserError

from ..graph.int8_convolution import ActivationType, Quantization
from .decisions import ACTIVATION_TYPES, Calibrated, check_products, fix, layers_of, uniform
from .error import Error
from .float_model import FloatModel, read_float_model
from .fold import fold
from .histogram import LEAST_PERCENTILE, Method
from .observe import Arrays, Prepare, Run, calibrate, prepare_outputs
from .plan import Plan, plan_quantization
from .simulate import simulated
from .write_qdq import QuantizedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Options of quantization. `activations`: the integer type of activations; `method` and `percentile`: how
    calibration chooses ranges (`histogram`); `per_channel`: weights have one scale for each channel, not one scale in
    all.

    `whole`: quantize functions, softmax, normalizations and products of two activations too. Raises UserError for a
    percentile that is not from `LEAST_PERCENTILE` to 100.
    """

    activations: ActivationType = "uint8"
    method: Method = "mse"
    percentile: float = 99.99
    per_channel: bool = True
    whole: bool = False

    def __post_init__(self) -> None:
        if not LEAST_PERCENTILE <= self.percentile <= 100:
            raise UserError(
                f"percentile={self.percentile:g}: give the percentage of values that a range contains, from "
                f"{LEAST_PERCENTILE:g} to 100"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedLayer:
    """A node that computes on integers: the `tensor` of the float model that it computes, the tensor's quantization and
    its error.
    """

    name: str
    operator: str
    tensor: str
    quantization: Quantization
    error: Error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quantized:
    """The model in QDQ form, its layers, the errors of its outputs, and the number of float nodes by operator."""

    proto: onnx.ModelProto
    layers: tuple[QuantizedLayer, ...]
    outputs: dict[str, Error]
    float_operators: dict[str, int]


def read_model(source: str | Path | bytes, *, batch: int | None = None, whole: bool = False) -> FloatModel:
    """Reads a float32 model of opset 13 or later, and simplifies it for quantization (`fold`). A dynamic first
    dimension of inputs becomes `batch`.

    With `whole` a recurrent node becomes the nodes of all its steps.

    Raises ModelError, also for a model that is quantized already.
    """
    model = read_float_model(source, batch=batch, unroll=whole)
    fold(model)
    return model


def quantize_model(
    model: FloatModel,
    samples: Sequence[Arrays],
    prepare: Prepare,
    recipe: Recipe,
    *,
    choices: Mapping[str, Collection[str]] | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Quantized:
    """Quantizes a model that `read_model` returned. `samples` has the model's inputs by name, one mapping for each run;
    scales are chosen from the values in these runs.

    `prepare` makes a float model ready to run. `choices`: decisions for single layers (`decisions.fix`). `advance` is
    called after each of the `runs_needed` runs. Raises ModelError if there is no product to quantize, or if the model
    computes NaN or infinities from the samples. Raises ScaleError for scales that float32 cannot represent.
    """
    plan = plan_quantization(model, whole=recipe.whole)
    check_products(model, plan)
    layers = layers_of(plan)
    wanted = uniform(layers, recipe.activations, per_channel=recipe.per_channel)
    decisions = fix(model.source, layers, choices or {}).over(wanted)
    calibrated, run = calibrate_model(model, plan, samples, prepare, recipe, advance=advance)
    decided = calibrated.plan_of(decisions)
    written = calibrated.write(decisions)
    outputs = _float_outputs(model)
    errors = {name: Error() for name in dict.fromkeys([*(tensor for _, tensor in decided.layers), *outputs])}
    _measure(errors, model, written, samples, run, prepare, advance)
    grids = calibrated.grids_of(decisions)
    return Quantized(
        proto=written.proto,
        layers=tuple(
            QuantizedLayer(
                name=node.name,
                operator=node.op_type,
                tensor=tensor,
                quantization=grids[tensor],
                error=errors[tensor],
            )
            for node, tensor in decided.layers
        ),
        outputs={name: errors[name] for name in model.outputs if name in errors},
        float_operators=dict(Counter(node.op_type for node in model.nodes if not decided.computes(node))),
    )


def calibrate_model(
    model: FloatModel,
    plan: Plan,
    samples: Sequence[Arrays],
    prepare: Prepare,
    recipe: Recipe,
    *,
    advance: Callable[[], None] = lambda: None,
) -> tuple[Calibrated, Run]:
    """Computes a scale for each tensor that `plan` quantizes, from the values in runs of the float model on `samples`.
    There is one set of scales for uint8 and one for int8 activations. `recipe` names the method that derives a scale
    from the values.

    `prepare` compiles the float model; `advance` is called after each run on a sample. Returns the model with its
    scales, and a `Run`. The `Run` computes the values of all quantized tensors, and the model's float outputs, in
    float32.
    """
    observed = [name for name in plan.scale_of if name not in model.constants]
    run = prepare_outputs(model, list(dict.fromkeys([*observed, *_float_outputs(model)])), prepare)
    grids = calibrate(
        model,
        plan,
        samples,
        run,
        dtypes=ACTIVATION_TYPES,
        method=recipe.method,
        percentile=recipe.percentile,
        advance=advance,
    )
    return Calibrated(model=model, plan=plan, grids=grids), run


def _float_outputs(model: FloatModel) -> list[str]:
    return [name for name in model.outputs if model.is_float(name)]


def runs_needed(recipe: Recipe, samples: int) -> int:
    """Number of times that `quantize_model` calls `advance` for `samples` samples."""
    return (2 if recipe.method == "minmax" else 3) * samples


def _measure(
    errors: dict[str, Error],
    model: FloatModel,
    written: QuantizedModel,
    samples: Sequence[Arrays],
    run: Run,
    prepare: Prepare,
    advance: Callable[[], None],
) -> None:
    """Measures the errors of the quantized model `written`. Runs it on all `samples`, and compares its tensors with
    those of the float model, which `run` computes. Adds the differences to `errors` (keys: tensors of the float model).
    `prepare` compiles the quantized model. `advance` is called after each sample.
    """
    kept = {name: name if name in model.outputs else written.dequantized[name] for name in errors}
    given = {info.name for info in model.inputs}
    run_quantized = prepare(simulated(written.proto, [name for name in kept.values() if name not in given]))
    for feeds in samples:
        expected, got = run(feeds), {**feeds, **run_quantized(feeds)}
        for name, error in errors.items():
            error.add(expected[name], got[kept[name]])
        advance()
