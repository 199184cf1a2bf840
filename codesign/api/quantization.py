"""Quantize a float network: all layers in the same way, or each layer by its effect on error and cost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from vdla.compiler.frontends.sources import Example, TorchModel, arguments, model_source, stacked
from vdla.compiler.quantize.float_model import FloatModel
from vdla.compiler.quantize.histogram import Method
from vdla.compiler.quantize.observe import Arrays
from vdla.compiler.quantize.quantize import Quantized, Recipe, quantize_model, read_model
from vdla.isa.config import Config
from vdla.util.errors import UserError
from vdla.util.files import write_whole

from ..quantization.evaluate import Target
from ..quantization.processor import Processor, parse_processor
from ..quantization.run import Goal, Outcome, decide, open_study, split
from ..quantization.study import COSTS, CostName, Found, Member, SearchSettings
from ..quantization.tables import document, front_figure, rows, write_outcome
from ..quantize_run import describe, load_calibration, prepare_here, split_samples
from ..report.frames import data_frame
from ..technology.components import load_components
from .configurations import config as named

if TYPE_CHECKING:
    import onnx
    import pandas as pd
    from matplotlib.figure import Figure

Samples = str | Path | Mapping[str, np.ndarray]
"""An npz file, or arrays by input name; the first dimension is the number of samples."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuantizedNetwork:
    """A quantized network: `content` is its ONNX file (QDQ); `account` is the JSON object of `vdla quantize --json`
    without the members on files and seconds. If `quantize` searched (it was called with `budget`), `front` has the
    non-dominated sets of decisions ("members"), and `chosen` is the member whose file is `content`.
    """

    content: bytes
    account: Mapping[str, Any]
    outcome: Outcome | None = None

    @property
    def front(self) -> tuple[Member, ...]:
        """The Pareto front of error and cost: sets of decisions ("members") that no other evaluated set dominates,
        cheapest first. Empty if `quantize` was called without `budget`, since nothing was searched.
        """
        return () if self.outcome is None else self.outcome.found.front

    @property
    def chosen(self) -> Member | None:
        """The member of the front (set of decisions) whose file is `content`; None if `quantize` was called without
        `budget`.
        """
        return None if self.outcome is None else self.outcome.chosen

    def rows(self) -> list[dict[str, Any]]:
        """After a search (`quantize` with `budget`), one dictionary for each evaluated set of decisions. Without a
        search, one dictionary for each layer, with the layer's scale and error.
        """
        return list(self.account["layers"]) if self.outcome is None else rows(self.outcome.found)

    def to_dataframe(self) -> pd.DataFrame:
        """`rows` as a pandas DataFrame."""
        return data_frame(self.rows())

    def plot(self) -> Figure:
        """A matplotlib figure of the Pareto front of error and cost. Raises UserError if `quantize` was called without
        `budget`, since there was no search.
        """
        if self.outcome is None:
            raise UserError(
                "no search was made, so there is no front to plot; search with quantize(..., budget=N)"
            )
        return front_figure(self.outcome.found, self.outcome.chosen)

    def save(self, path: str | Path) -> None:
        """Writes the ONNX file to `path`. After a search, `path` may also be a folder that exists, which gets the files
        of `vdla quantize --budget`.
        """
        path = Path(path)
        if self.outcome is not None and path.is_dir():
            write_outcome(self.outcome, path)
        else:
            write_whole(path, self.content)


def quantize(
    model: str | Path | bytes | onnx.ModelProto | TorchModel | Callable[..., Any],
    calibration: Samples | Sequence[Any],
    *,
    budget: int | None = None,
    held_out: Samples | Sequence[Any] | None = None,
    config: Config | str | Path = "vta",
    layers: Mapping[str, str | Collection[str]] | None = None,
    activations: Literal["u8", "s8"] = "u8",
    per_channel: bool = True,
    whole: bool = False,
    method: Method = "mse",
    percentile: float = 99.99,
    batch: int = 1,
    processor: Processor | str = "cortex-a9",
    technology: str | Path | None = None,
    cost: CostName = "latency",
    sqnr: float | None = None,
    latency: float | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    advance: Callable[[], None] = lambda: None,
    told: Callable[[Found], object] | None = None,
    remark: Callable[[str], None] = lambda text: None,
) -> QuantizedNetwork:
    """Quantize a float32 network to int8 from samples of its inputs: an ONNX file or model, a PyTorch module, or
    a JAX function.

    `calibration`: an npz file, arrays by input name whose first dimension is the number of samples, or a list with the
    arguments of each sample: a tensor or an array, or a tuple of them. PyTorch modules and JAX functions need such a
    list, since their shapes follow from the arguments. A sample for an ONNX model may also be a dict by input name.

    Products with weights and their epilogues compute on integers. With `whole`, element-wise functions, softmax,
    normalizations and products of activations also compute on integers; for these operators, the accelerator needs
    extensions.

    Without a `budget` all layers have the same `activations` and `per_channel` scales, except single layers listed in
    `layers`, as in {"conv1": "float", "fc": "s8,per-tensor"}. With a budget, at most `budget` sets of decisions are
    evaluated on the machine `config`: which layers stay float on the `processor`, which tensors are symmetric, which
    weights have one scale. Then `activations` and `per_channel` have no effect, decisions in `layers` stay as given,
    and `seed` decides the random choices of the search. The Pareto front of the evaluated sets trades the error (SQNR
    of the outputs on `held_out` samples, by default the last quarter of the calibration samples) against the `cost`,
    "latency" or "energy". The result is the front's cheapest set with at least `sqnr` dB, or the set with least error
    within `latency` ms; by default the knee of the front. With a `folder` evaluations are recorded there, and a
    repeated search continues from the records.

    `method`, `percentile` and `technology` are options of `vdla quantize`. A dynamic first dimension of the inputs gets
    the size `batch`. `processor` is "cortex-a9", "measured" (this machine) or "GFLOPS,GB/S,WATTS". Three functions are
    called with the progress: `advance` after each run of the float network (without a budget), `told` after each
    evaluation (with a budget), and `remark` with a line of text about each slow step. Raises UserError.
    """
    listed = None if isinstance(calibration, str | Path | Mapping) else calibration
    if listed is not None and not listed:
        raise UserError("calibration: a list without samples; give at least one")
    example = None if listed is None else Example(args=arguments(listed[0]))
    source = model_source(model, example).source
    network = read_model(source, batch=batch, whole=whole)
    samples = _samples(network, calibration, "calibration")
    recipe = Recipe(
        activations="uint8" if activations == "u8" else "int8",
        method=method,
        percentile=percentile,
        per_channel=per_channel,
        whole=whole,
    )
    choices = {
        name: words.split(",") if isinstance(words, str) else list(words)
        for name, words in (layers or {}).items()
    }
    if budget is None:
        if held_out is not None or sqnr is not None or latency is not None:
            raise UserError(
                "held_out, sqnr and latency apply to a search only; give a budget, or leave them out"
            )
        made = quantize_model(
            network,
            samples,
            lambda proto: prepare_here(proto, remark),
            recipe,
            choices=choices,
            advance=advance,
        )
        return _whole(made, recipe, samples)
    if latency is not None and not 0 < latency < inf:
        raise UserError(f"latency={latency:g} is not a limit in milliseconds; give a number above 0")
    if sqnr is not None and not isfinite(sqnr):
        raise UserError(f"sqnr={sqnr:g} is not a finite number; give a number of dB")
    if cost not in COSTS:
        raise UserError(f'no cost is called "{cost}"; there are {", ".join(COSTS)}')
    if held_out is None:
        samples, unseen = split(samples, _where(calibration, "calibration"))
    else:
        unseen = _samples(network, held_out, "held_out")
    with open_study(
        network,
        samples,
        unseen,
        target=Target(
            config=named(config),
            components=load_components(technology),
            processor=processor if isinstance(processor, Processor) else parse_processor(processor),
        ),
        recipe=recipe,
        choices=choices,
        settings=SearchSettings(budget=budget, cost=cost, seed=seed),
        remark=remark,
    ) as study:
        outcome = decide(
            study,
            goal=Goal(sqnr=sqnr, latency=latency),
            folder=None if folder is None else Path(folder),
            told=told,
            runs=len(samples),
        )
    content = outcome.proto.SerializeToString(deterministic=True)
    return QuantizedNetwork(content=content, account=document(outcome), outcome=outcome)


def _whole(made: Quantized, recipe: Recipe, samples: Sequence[Arrays]) -> QuantizedNetwork:
    content = made.proto.SerializeToString(deterministic=True)
    return QuantizedNetwork(content=content, account=describe(made, recipe, samples))


def _samples(network: FloatModel, samples: Samples | Sequence[Any], name: str) -> list[Arrays]:
    if not isinstance(samples, str | Path | Mapping):
        names = [info.name for info in network.inputs]
        samples = stacked(names, [_in_order(names, sample) for sample in samples], name)
    if isinstance(samples, Mapping):
        return list(split_samples(network, samples, name))
    return list(load_calibration(network, Path(samples)))


def _in_order(names: Sequence[str], sample: Any) -> Any:
    """Converts a `sample` that is a dict with exactly the keys `names` to a tuple of its values, in the order of
    `names`. Any other sample is returned unchanged.
    """
    by_name = isinstance(sample, Mapping) and sample.keys() == set(names)
    return tuple([sample[name] for name in names]) if by_name else sample


def _where(samples: Samples | Sequence[Any], name: str) -> str:
    return str(samples) if isinstance(samples, str | Path) else name
