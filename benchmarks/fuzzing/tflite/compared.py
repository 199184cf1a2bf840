"""Verdict on a compiled random TFLite graph: its outputs are compared with LiteRT's. If they differ, the result of each
operator is compared with LiteRT's result on the same operands.

LiteRT has two sets of kernels: the default kernels and the reference kernels. A step is a difference of 1 between
integers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

import vdla
from vdla.benchmarks.harness.tflite_files import Written, WrittenOperator, litert
from vdla.compiler.frontends.tflite.step import BOUNDS
from vdla.util.errors import UserError

from ..graphs.compared import traced
from ..outcome import Outcome
from .builder import TfliteBuilder, one_operator

RELATIVE = 4e-6
"""Largest allowed difference of a float result, relative to the largest value of the result and its float operands."""
ALONE = 1e-5
"""Largest allowed difference between a float output of the graph and the same tensor in a second run, in which all
tensors of the graph are outputs. In the second run fewer operators are fused, so that sums may have another order. The
difference is relative to the largest float from which the output is computed, or absolute if this float is below 1.
"""
NEAR = ("RESIZE_BILINEAR", "TRANSPOSE_CONV")
"""8-bit operators whose results may differ from the default kernel's by one step at every element. LiteRT rounds the
sums of TRANSPOSE_CONV twice, ours are rounded once. LiteRT rounds the weights of RESIZE_BILINEAR to 10 or 11 bits, and
the accelerator rounds resized columns to 8 bits before it resizes rows.
"""
BYTES = ("BATCH_MATMUL", "L2_NORMALIZATION", "PRELU")
"""The operators of `EXACT` that are compared with the exact result even if all their operands have 8 bits. LiteRT
rounds the results of these operators more than once; the accelerator rounds once.
"""
EXACT: Mapping[str, Callable[..., np.ndarray]] = MappingProxyType(
    {
        "ADD": lambda a, b: a + b,
        "SUB": lambda a, b: a - b,
        "MUL": lambda a, b: a * b,
        "PRELU": lambda x, slope: np.where(x < 0, x * slope, x),
        "BATCH_MATMUL": lambda a, b, x, y: (
            (a.swapaxes(-1, -2) if x else a) @ (b.swapaxes(-1, -2) if y else b)
        ),
        "L2_NORMALIZATION": lambda x: x / np.maximum(np.sqrt((x * x).sum(-1, keepdims=True)), 1e-6),
        "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
        "TANH": np.tanh,
        "MEAN": lambda x, axes, keep: x.mean(tuple(axes.reshape(-1).astype(int)), keepdims=bool(keep)),
        "SUM": lambda x, axes, keep: x.sum(tuple(axes.reshape(-1).astype(int)), keepdims=bool(keep)),
    }
)
"""Operators for which LiteRT's kernels of int16 round more than once, or read function values from a table. For the
operators in `BYTES`, this is also true of the kernels of 8-bit integers. If our result differs from LiteRT's, it must
be the exact result, rounded. A function here computes the exact result from the real (dequantized) operands and the
operator's attributes (ATTRIBUTES). BATCH_MATMUL of int16 must equal LiteRT's.
"""
STEPS: Mapping[str, int] = MappingProxyType({"TANH": 2, "LOGISTIC": 2})
"""For operators of `EXACT`, the largest allowed difference of our result from LiteRT's in steps; 1 if not listed."""
ATTRIBUTES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"BATCH_MATMUL": ("AdjX", "AdjY"), "MEAN": ("KeepDims",), "SUM": ("KeepDims",)}
)
"""Operators whose exact results (`EXACT`) depend on attributes: names of the attributes, by operator. Their values are
the last arguments of the function in EXACT.
"""
HALF = 0.51
"""Largest distance, in steps, of a rounded result from the exact one: half a step for the rounding, the rest for errors
of float32 arithmetic on 16-bit integers.
"""
POSITION = 2.0**-23
"""Allowed error of a position in a float RESIZE_BILINEAR, relative to the length of the axis: positions are computed in
float32, by other formulas than LiteRT's.
"""
SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)
"""The smallest normal float32. Some kernels round smaller numbers to 0."""
HYBRID = 1.02 / 127
"""Step of quantized activations, relative to their largest absolute value, with a margin of 2%. LiteRT rounds float
activations to multiples of this step before it multiplies them by int8 weights.
"""


def compiled_outcome(builder: TfliteBuilder, target: str, **options: object) -> Outcome:
    """Compiles the graph of `builder` for `target`, with the `options` of `vdla.compile`; compares its outputs with
    LiteRT's and returns the verdict.
    """
    model, operators = builder.model, tuple(dict.fromkeys(kind for kind, *_ in builder.model.operators))
    theirs = builder.expected
    try:
        ours = outputs_of(model, builder.feeds(), target, **options)
        if problem := _shapes(ours, theirs):
            return Outcome("wrong", problem, operators)
        if all(np.array_equal(mine, other) for mine, other in zip(ours, theirs, strict=True)):
            return Outcome("right", "", operators)
        problem = _operators_problem(builder, ours, target, **options)
    except UserError as error:
        text = str(error)
        if not all(line.isprintable() for line in text.splitlines()):
            return Outcome("wrong", f"refused with control characters: {text[:300]!r}", operators)
        named = set(re.findall(r"\(([A-Z0-9_]+)\)", text))
        return Outcome("refused", text, operators, tuple(kind for kind in operators if kind in named))
    except MemoryError:
        return Outcome("memory", traced(), operators)
    except Exception:
        return Outcome("traceback", traced(), operators)
    return (
        Outcome("wrong", problem, operators)
        if problem
        else Outcome("right", "operator by operator", operators)
    )


def outputs_of(
    model: Written, feeds: Sequence[np.ndarray], target: str, **options: object
) -> list[np.ndarray]:
    """The outputs of `model` on the inputs `feeds`, compiled for `target`; in the model's order."""
    with vdla.compile(model.content(), target=target, cache=False, **options) as network:  # pyright: ignore
        found = network.run({port.name: array for port, array in zip(network.inputs, feeds, strict=True)})
        return [np.asarray(found[port.name]) for port in network.outputs]


def _shapes(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> str:
    """An error message if outputs differ in number, shape or element type, else an empty text."""
    found, wanted = ([(array.shape, array.dtype.name) for array in arrays] for arrays in (ours, theirs))
    return "" if found == wanted else f"outputs are {found}, LiteRT's {wanted}"


def _operators_problem(
    builder: TfliteBuilder, ours: Sequence[np.ndarray], target: str, **options: object
) -> str:
    """Compiles the graph for `target` with `options` so that all results become outputs, and checks the result of each
    operator on the operands that we computed. `ours`: the outputs of the graph before, which must be the same. Returns
    an error message, or "" if all results are right.
    """
    model, whole = builder.model, Written()
    whole.tensors, whole.operators, whole.inputs = model.tensors, model.operators, model.inputs
    whole.outputs = [index for _, _, outputs, *_ in model.operators for index in outputs]
    values = dict(zip(model.inputs, builder.feeds(), strict=True))
    values |= zip(whole.outputs, outputs_of(whole, builder.feeds(), target, **options), strict=True)
    for operator in model.operators:
        if problem := operator_problem(model, operator, values):
            return problem
    largest = _largest_before(model, values)
    for index, mine in zip(model.outputs, ours, strict=True):
        if mine.dtype.kind == "f":
            problem = _float_problem(mine, values[index], ALONE * max(1.0, largest[index]))
        else:
            problem = "" if np.array_equal(mine, values[index]) else "differ"
        if problem:
            return f"output {index} alone and beside all results: {problem}"
    return ""


def _largest_before(model: Written, values: Mapping[int, np.ndarray]) -> dict[int, float]:
    """For each activation, the largest magnitude of any float number in the activation itself and in all activations
    from which it is computed.
    """
    largest = {
        index: float(np.abs(array).max(initial=0)) if array.dtype.kind == "f" else 0.0
        for index, array in values.items()
    }
    for _, inputs, outputs, *_ in model.operators:
        for index in outputs:
            largest[index] = max(largest[index], *(largest.get(source, 0.0) for source in inputs))
    return largest


def operator_problem(model: Written, operator: WrittenOperator, values: dict[int, np.ndarray]) -> str:
    """Compares our results of one operator with LiteRT's. `values`: arrays by tensor number; they contain the
    operator's operands, on which LiteRT runs, and our results. Returns "" if both agree within the tolerances of this
    module, else an error message.
    """
    kind, inputs, places, *_ = operator
    one, read = one_operator(model, operator)
    content, operands = one.content(), [values[index] for index in read]
    default = litert(content, operands)
    try:
        reference = litert(content, operands, reference=True)
    except (RuntimeError, ValueError):
        reference = default
    for index, first, second in zip(places, default, reference, strict=True):
        mine = values[index]
        if mine.dtype.kind == "f":
            problem = _float_problem(mine, first, _tolerance(model, operator, values))
        else:
            byte = all(model.tensors[i]["dtype"] != np.int16 for i in (*inputs, index) if i >= 0)
            problem = _integer_problem(mine, first, second, anywhere=byte and kind in NEAR)
            away = np.abs(mine.astype(np.int64) - first)
            exact = kind in BYTES if byte else kind in {*EXACT} - {"BATCH_MATMUL"}
            if problem and exact and away.max() <= STEPS.get(kind, 1):
                problem = problem if (_from_exact(model, operator, values) > HALF)[away > 0].any() else ""
        if problem:
            forms = "/".join(model.tensors[i]["dtype"].name for i in (*(i for i in inputs if i >= 0), index))
            return f"{kind} {forms} (t{index}): {problem}"
    return ""


def _integer_problem(mine: np.ndarray, default: np.ndarray, reference: np.ndarray, *, anywhere: bool) -> str:
    """Compares the integers `mine` with the integers of LiteRT's `default` kernel, which they must equal. They may
    differ by 1 where LiteRT's `reference` kernel also gives another integer or, with `anywhere`, at every element.
    Returns an error message, or "" if all are right.
    """
    ours, first, second = (array.astype(np.int64) for array in (mine, default, reference))
    away = np.abs(ours - first)
    allowed = 1 if anywhere else np.minimum(np.abs(first - second), 1)
    if (away <= allowed).all():
        return ""
    return f"{np.count_nonzero(away > allowed)} of {away.size} elements, up to {away.max()} steps"


def _from_exact(model: Written, operator: WrittenOperator, values: Mapping[int, np.ndarray]) -> np.ndarray:
    """The distance, in steps, of each element of an operator's result from the exact result (`EXACT`)."""
    kind, inputs, (place, *_), _, fields = operator
    operands: list[Any] = [_real(model, index, values) for index in inputs]
    operands += [fields[name] for name in ATTRIBUTES.get(kind, ())]
    tensor, exact = model.tensors[place], EXACT[kind](*operands)
    limits = np.iinfo(tensor["dtype"])
    exact = np.clip(exact, *BOUNDS[fields.get("FusedActivationFunction", 0)])
    exact = exact / np.float64(tensor["scale"][0]) + tensor["zero"][0]
    return np.abs(values[place] - np.clip(exact, limits.min, limits.max))


def _real(model: Written, index: int, values: Mapping[int, np.ndarray]) -> np.ndarray:
    """The real (dequantized) values of the tensor `index` in float64."""
    tensor = model.tensors[index]
    array = (values[index] if tensor["data"] is None else tensor["data"]).astype(np.float64)
    return array if tensor["scale"] is None else (array - tensor["zero"][0]) * np.float64(tensor["scale"][0])


def _tolerance(model: Written, operator: WrittenOperator, values: dict[int, np.ndarray]) -> float:
    """The largest allowed absolute difference of an operator's float result from LiteRT's (`values`: by tensor)."""
    kind, inputs, places, *_ = operator
    floats = [values[i] for i in (*inputs, *places) if i in values and values[i].dtype.kind == "f"]
    floats += [model.tensors[i]["data"] for i in inputs if i >= 0 and model.tensors[i]["data"] is not None]
    largest = max(
        (float(np.abs(a.astype(np.float64)).max(initial=0)) for a in floats if a.dtype.kind == "f"),
        default=1.0,
    )
    relative = RELATIVE
    if kind == "RESIZE_BILINEAR":
        relative += POSITION * max(model.shape(inputs[0])[1:3])
    return relative * largest + SMALLEST_NORMAL + _hybrid_tolerance(model, operator, values)


def _hybrid_tolerance(model: Written, operator: WrittenOperator, values: dict[int, np.ndarray]) -> float:
    """The part of `_tolerance` for products of float activations and int8 weights, whose activations LiteRT rounds to
    integers; 0 for other operators.
    """
    kind, inputs, *_ = operator
    if kind not in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED") or values[inputs[0]].dtype.kind != "f":
        return 0.0
    weights = model.tensors[inputs[1]]
    if weights["dtype"] != np.int8:
        return 0.0
    scale = float(np.max(weights["scale"]))
    integers = np.abs(weights["data"].astype(np.float64))
    if kind == "DEPTHWISE_CONV_2D":
        sums = integers.sum(axis=(0, 1, 2)).max()
    else:
        sums = integers.reshape(len(integers), -1).sum(axis=1).max()
    return float(HYBRID * np.abs(values[inputs[0]]).max() * scale * sums)


def _float_problem(mine: np.ndarray, other: np.ndarray, tolerance: float) -> str:
    away = float(np.abs(mine.astype(np.float64) - other).max(initial=0))
    return "" if away <= tolerance else f"{away:.3g} away of {tolerance:.3g}"
