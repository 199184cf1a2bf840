"""Calibration: runs a float model on samples, and chooses the range and scale of each tensor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import onnx

from ..graph.errors import ModelError
from ..graph.int8_convolution import ActivationType, Quantization
from .float_model import FloatModel, assemble, constant_protos
from .histogram import Histogram, Method, Range, choose_range
from .plan import Plan
from .scales import activation_quantization

Arrays = Mapping[str, np.ndarray]
Run = Callable[[Arrays], Arrays]
"""A function from a model's inputs, by name, to all of its outputs, by name."""
Prepare = Callable[[onnx.ModelProto], Run]
"""A function that compiles a float model to a `Run`. The caller supplies it, since this package only reads and writes
models.
"""


def prepare_outputs(model: FloatModel, names: Sequence[str], prepare: Prepare) -> Run:
    """A function (`Run`) that computes the tensors `names` of the float model from the model's inputs. If `names`
    contains inputs of the model, the function returns their values unchanged.
    """
    given = {info.name for info in model.inputs}
    computed = [name for name in names if name not in given]
    if not computed:
        return lambda feeds: {name: feeds[name] for name in names}
    run = prepare(assemble(model.header, model.nodes, constant_protos(model.constants), outputs=computed))

    def run_all(feeds: Arrays) -> Arrays:
        return {**run(feeds), **{name: feeds[name] for name in names if name in given}}

    return run_all


def calibrate(
    model: FloatModel,
    plan: Plan,
    samples: Sequence[Arrays],
    run: Run,
    *,
    dtypes: Collection[ActivationType],
    method: Method,
    percentile: float,
    advance: Callable[[], None] = lambda: None,
) -> dict[ActivationType, dict[str, Quantization]]:
    """The quantization of every tensor and constant of the plan, in each of `dtypes`: by type, then by name of the
    tensor or constant.

    `run` computes all tensors of the plan; `advance` is called after each run. `method`, `percentile`: as in
    `choose_range`. Tensors that share a scale have one range. For outputs of the model (their largest values matter
    most) and for constants, every method takes the whole range. Raises ModelError if the model computes NaN or
    infinities.
    """
    names = [name for name in plan.scale_of if name not in model.constants]
    ranges: dict[str, Range] = {}

    def widen(name: str, values: np.ndarray) -> None:
        low, high = ranges.get(plan.scale_of[name], (np.inf, -np.inf))
        ranges[plan.scale_of[name]] = (min(low, float(values.min())), max(high, float(values.max())))

    for number, feeds in enumerate(samples):
        results = run(feeds)
        for name in names:
            if not np.isfinite(results[name]).all():
                raise ModelError(
                    f"{model.source}: tensor '{name}' has infinite or NaN values in calibration run {number}; check "
                    "the float model's results for these data before quantizing it"
                )
            widen(name, results[name])
        advance()
    constants = [name for name in plan.scale_of if name in model.constants]
    for name in constants:
        widen(name, model.constants[name])
    whole = {plan.scale_of[name] for name in (*constants, *model.outputs) if name in plan.scale_of}
    histograms: dict[str, Histogram] = {}
    if method != "minmax":
        histograms = {name: Histogram.empty(*limits) for name, limits in ranges.items() if name not in whole}
        for feeds in samples:
            results = run(feeds)
            for name in names:
                if plan.scale_of[name] in histograms:
                    histograms[plan.scale_of[name]].add(results[name])
            advance()
    found: dict[ActivationType, dict[str, Quantization]] = {}
    for dtype in dtypes:
        chosen = dict(ranges)
        for name, histogram in histograms.items():
            chosen[name] = choose_range(histogram, method, dtype, percentile=percentile)
        grids = {name: activation_quantization(*limits, dtype) for name, limits in chosen.items()}
        found[dtype] = {name: grids[group] for name, group in plan.scale_of.items()}
    return found
