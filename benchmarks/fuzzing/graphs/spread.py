"""Spreads: for each element of a tensor, how far another right value may be from the oracle's value (the expected one).

A result that is rounded in another way, or a sum in another order, may change every element computed from it. To find
the size of these changes, the node is run on inputs that are changed within their own spreads, in random directions.
Results of operators that only move elements, and results of integers, have no spread. A node whose result changes
abruptly with its inputs is unstable, and is not added to a graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from .oracle import NodeRun, NoValueError

TRIES = 4
"""Number of runs of a node with changed inputs, from which the tolerance ("spread") of its results is computed."""
UNITS: Mapping[str, float] = {
    "float64": 2.0**-22,
    "float32": 2.0**-22,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}
"""Relative size of the rounding errors of each type. For float32 it is four units in the last place, since functions
such as exp are not exact.
"""
MOST: Mapping[str, float] = {"float64": 2e-3, "float32": 2e-3, "float16": 0.06, "bfloat16": 0.3}
"""Largest allowed tolerance ("spread") of an element, relative to the tensor's largest element, by type. With a larger
tolerance, a comparison would be meaningless.
"""
ALLOWED = 4.0
"""Multiple of the computed tolerance ("spread") by which a float result may differ from the expected value; an integer
result may differ by the spread itself.
"""
_JUMP = 1e-2
"""Least change of a result, relative to its largest element, that counts as abrupt if a few roundings of the inputs
cause it.
"""


class UnstableError(Exception):
    """Raised for a result that cannot be checked, because a small change of the inputs may give any value."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A tolerance for each element of a tensor (`array`, float64): a correct integer result may differ from the
    expected value by at most this much, a float result by ALLOWED times as much.
    """

    array: np.ndarray

    @property
    def any(self) -> bool:
        """Whether the tolerance (spread) of any element is not zero."""
        return bool(self.array.any())

    @staticmethod
    def none(of: np.ndarray) -> Spread:
        """The spread (tolerance of each element) of an array that must be exact: zeros."""
        return Spread(np.zeros(of.shape))


def is_real(dtype: np.dtype[Any]) -> bool:
    """Whether a type is one of the float types in UNITS: float64, float32, float16 or bfloat16."""
    return dtype.name in UNITS


def spread_of(
    run: NodeRun,
    node: onnx.NodeProto,
    feeds: Mapping[str, tuple[np.ndarray, Spread]],
    results: Sequence[np.ndarray],
    *,
    coarse: float = 1.0,
) -> list[Spread]:
    """The spreads of a node's `results`, from its inputs and their spreads (`feeds`, by name). `run` computes the
    results of `node` for changed inputs. Raises UnstableError if a result changes abruptly. `coarse`: multiple of
    `MOST` that a tolerance may reach.
    """
    if node.op_type == "QuantizeLinear" or node.op_type.startswith("DynamicQuantize"):
        feeds = _near_ties(node, feeds)
    if node.op_type in DIVIDES and _may_be_zero(*feeds[node.input[-1]]):
        raise UnstableError("divides by a result that may be 0")
    rng = np.random.default_rng(len(feeds) + 7 * len(node.output))
    moved = node.op_type not in SUMS and all(
        _moved(array, [given for given, _ in feeds.values()]) for array in results
    )
    spread = any(s.any for _, s in feeds.values())
    changes = [np.zeros(array.shape) for array in results]
    if spread:
        # Inputs change by their spreads in both directions: at a bend (Relu) a result may change in one direction only.
        far = {name: (array, Spread(_allowed(array) * given.array)) for name, (array, given) in feeds.items()}
        _widen(changes, run, far, results, 0.0, rng)
        changes = [change / _allowed(array) for array, change in zip(results, changes, strict=True)]
    if not moved and any(is_real(array.dtype) for array in results):
        rounding = [np.zeros(array.shape) for array in results]
        _widen(rounding, run, feeds, results, 1.0, rng)
        for index, array in enumerate(results):
            largest = _largest(array)
            if (
                is_real(array.dtype)
                and rounding[index].max(initial=0)
                <= _JUMP * largest * (UNITS[array.dtype.name] / UNITS["float32"]) ** 0.5
            ):
                changes[index] = np.maximum(changes[index], rounding[index])
    scaled = node.op_type.startswith("QLinear")
    if scaled:
        # Within a few roundings of the scales, a value near a tie is rounded the other way.
        _widen(changes, run, feeds, results, 1.0, rng)
    if node.op_type in WEIGHTED and feeds[node.input[0]][1].any:
        changes = [np.maximum(changes[0], _largest_change(node, run, feeds))]
    spreads: list[Spread] = []
    for array, change in zip(results, changes, strict=True):
        name = array.dtype.name
        if is_real(array.dtype):
            # Also where each result is an element: another rounding of a position takes a little of its neighbour.
            inside = max(ROUNDED_INSIDE[node.op_type], UNITS[name]) if node.op_type in ROUNDED_INSIDE else 0.0
            change = np.maximum(change, inside * _largest(array) + SIGMOIDS.get(node.op_type, 0.0))
            if not moved:
                with np.errstate(all="ignore"):
                    size = np.nan_to_num(np.abs(array.astype(np.float64)), nan=0.0, posinf=0.0)
                change = 2 * change + UNITS[name] * (size + 0.25 * _largest(array))
            if change.max(initial=0) > coarse * max(MOST[name], 4 * inside) * max(_largest(array), 1e-30):
                raise UnstableError("its result jumps")
        elif node.op_type in FIXED_POINT:
            change = np.maximum(change, 1.0)
        elif change.any() and not ((scaled or node.op_type in ROUNDED) and change.max() <= 4):
            raise UnstableError("its integers depend on roundings")
        spreads.append(Spread(change))
    return spreads


WEIGHTED: Mapping[str, tuple[int, int]] = {"QLinearConv": (7, 8), "QLinearMatMul": (7, 8)}
"""Operators that compute products of integer data (inputs 0 to 2) and integer weights (inputs 3 to 5). Maps each to two
numbers: the index of the input with the result's zero point, and the index of the input with the bias.
"""


def _largest_change(
    node: onnx.NodeProto, run: NodeRun, feeds: Mapping[str, tuple[np.ndarray, Spread]]
) -> np.ndarray:
    """For a node whose operator is in `WEIGHTED`: how much each element of the result may change if the data change by
    at most their spreads (tolerances). The result is an upper bound in quantization steps of the output. `run` computes
    the node, and `feeds` has its inputs.

    The change is largest if each datum moves in the direction of the sign of its weight. Random changes rarely find
    these directions if a sum has several terms. Therefore the node itself computes the largest change: its data are
    replaced by their spreads, its weights by their magnitudes, and zero points and bias are left out.
    """
    zero, bias = WEIGHTED[node.op_type]
    data, weight, weight_zero = (feeds[node.input[i]] for i in (0, 3, 5))
    limit = int(ml_dtypes.iinfo(weight[0].dtype).max)
    centre = weight_zero[0].astype(np.int64)
    if node.op_type == "QLinearConv":
        centre = centre.reshape(-1, *[1] * (weight[0].ndim - 1))
    size = np.minimum(np.abs(weight[0].astype(np.int64) - centre), limit)
    given = {name: array for name, (array, _) in feeds.items()}
    given[node.input[0]] = data[1].array.astype(data[0].dtype)
    given[node.input[3]] = size.astype(weight[0].dtype)
    for name in [node.input[i] for i in (2, 5, zero, bias) if i < len(node.input)]:
        given[name] = np.zeros_like(given[name])
    (change,) = run(given)
    # On a finer grid every sum that changes is more than 0. A change of less than half a step can cross a tie.
    scale = node.input[6]
    given[scale] = np.full_like(given[scale], given[node.input[1]].max() * given[node.input[4]].min())
    (reached,) = run(given)
    return np.where(reached > 0, change.astype(np.float64) + 1, 0.0)


DIVIDES = frozenset(("Div", "Mod", "Reciprocal"))
"""Operators that divide by their last input."""


def _may_be_zero(array: np.ndarray, spread: Spread) -> bool:
    """Whether an element of `array` could be 0, that is, whether it is within ALLOWED times its spread (tolerance) of
    0.
    """
    with np.errstate(all="ignore"):
        distance = np.abs(array.astype(np.float64))
    return bool(((distance <= ALLOWED * spread.array) & (spread.array > 0)).any())


NEAR_TIE = 0.01
"""Distance from a rounding tie, in steps of the output, within which a value may be rounded either way. This allows for
the rounding of biases: a bias is a whole multiple of the product of both scales, so its rounding may move an output by
NEAR_TIE steps.
"""


def _near_ties(
    node: onnx.NodeProto, feeds: Mapping[str, tuple[np.ndarray, Spread]]
) -> dict[str, tuple[np.ndarray, Spread]]:
    """Returns the inputs of an operator that quantizes its first input, and enlarges the spread (tolerance) of the
    first input. The spread becomes at least NEAR_TIE of the largest quantization step, so that values near a tie may be
    rounded either way.

    The step is the operator's scale or, if the operator computes its scale at run time, a 255th of the input's range.
    """
    if not {*node.input[:2]} <= feeds.keys():
        return dict(feeds)
    data, spread = feeds[node.input[0]]
    if node.op_type == "QuantizeLinear":
        step = _largest(feeds[node.input[1]][0])
    else:
        step = 2 * _largest(data) / 255
    least = NEAR_TIE / ALLOWED * step
    return {**feeds, node.input[0]: (data, Spread(np.maximum(spread.array, least)))}


RECURRENT = frozenset(("GRU", "LSTM", "RNN"))
"""Operators that are recurrent layers."""
ROUNDED_INSIDE: Mapping[str, float] = {
    **dict.fromkeys(("DynamicQuantizeLSTM", "DynamicQuantizeMatMul"), 0.01),
    **dict.fromkeys(("Resize", "Upsample", "GridSample", "RoiAlign"), 2.0**-20),
    **dict.fromkeys((*RECURRENT, "DFT", "STFT"), 2.0**-20),
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization", "LayerNormalization"), 2.0**-17),
}
"""Allowed error of a result, relative to its largest element, by operator. These operators round intermediate values,
so that their results differ from the exact ones by more than a rounding of the result.

Dynamic quantization rounds inputs to 256 steps. Resize, GridSample and RoiAlign round positions between elements.
Recurrent layers and DFT round the sum of each step. Normalizations round the mean; if the elements of a row are equal,
the division by their small deviation makes this error large.
"""
SUMS = frozenset(("Mean", "Sum"))
"""Operators whose results always have a rounding error, even if each result equals an element of the inputs."""
SIGMOIDS: Mapping[str, float] = dict.fromkeys(
    ("Sigmoid", "Scan", "Loop", "If", *RECURRENT, "DynamicQuantizeLSTM"), 2.0**-26
)
"""Operators that may contain a Sigmoid, and the absolute error of ONNX Runtime's Sigmoid: far from 0 this error is not
relative to the result.
"""
FIXED_POINT = frozenset(("QLinearSoftmax",))
"""Operators that ONNX Runtime computes with integer tables; results differ from the definition by one step."""
ROUNDED = frozenset(("QuantizeLinear", "QLinearConv", "DynamicQuantizeLinear"))
"""Operators whose integer results are rounded, so that an adjacent integer is right too."""


def _widen(
    changes: list[np.ndarray],
    run: NodeRun,
    feeds: Mapping[str, tuple[np.ndarray, Spread]],
    results: Sequence[np.ndarray],
    roundings: float,
    rng: np.random.Generator,
) -> None:
    """Enlarges `changes`, one array for each result of the node, to the largest differences from `results` when the
    inputs `feeds` change at random. An input changes by its spread (tolerance) or by `roundings` rounding errors,
    whichever is more. Raises UnstableError if the node has no results for the changed inputs, or infinite results, or
    results of another shape.
    """
    for attempt in range(TRIES):
        given = {
            name: _pushed(array, spread, roundings, rng, attempt) for name, (array, spread) in feeds.items()
        }
        try:
            others = run(given)
        except NoValueError:
            raise UnstableError("is not defined beside its inputs") from None
        for index, (array, other) in enumerate(zip(results, others, strict=True)):
            if other.shape != array.shape:
                raise UnstableError("its shape depends on roundings")
            with np.errstate(all="ignore"):
                change = np.abs(other.astype(np.float64) - array.astype(np.float64))
            same = (other == array) | ((other != other) & (array != array))
            change = np.where(same, 0, change)
            if not np.isfinite(change).all():
                raise UnstableError("is not finite beside its inputs")
            changes[index] = np.maximum(changes[index], change)


def _pushed(
    array: np.ndarray, spread: Spread, roundings: float, rng: np.random.Generator, attempt: int
) -> np.ndarray:
    if is_real(array.dtype):
        size = np.nan_to_num(np.abs(array.astype(np.float64)), nan=0.0, posinf=0.0)
        distance = np.maximum(spread.array, roundings * UNITS[array.dtype.name] * size)
        signs = _signs(rng, array.shape, attempt)
        with np.errstate(all="ignore"):
            pushed = array.astype(np.float64) + signs * distance
        return np.asarray(pushed).astype(array.dtype)
    if not spread.any:
        return array
    limits = ml_dtypes.iinfo(array.dtype)
    signs = _signs(rng, array.shape, attempt)
    pushed = array.astype(np.float64) + signs * spread.array
    return np.clip(pushed, int(limits.min), int(limits.max)).astype(array.dtype)


def _signs(rng: np.random.Generator, shape: tuple[int, ...], attempt: int) -> np.ndarray | float:
    """Directions of changes: all up in the first attempt, all down in the second, then random."""
    return rng.choice((-1.0, 1.0), shape) if attempt > 1 else (1.0, -1.0)[attempt]


def _moved(array: np.ndarray, given: Sequence[np.ndarray]) -> bool:
    """Whether each element of `array` is equal, up to sign, to an element of an input in `given`, or is a fill value
    (0, infinity, NaN).
    """
    if not is_real(array.dtype):
        return False
    known = [np.abs(other.astype(np.float64)).reshape(-1) for other in given if other.dtype == array.dtype]
    values = np.abs(array.astype(np.float64)).reshape(-1)
    values = values[~np.isnan(values)]
    return bool(np.isin(values, np.concatenate([*known, [0.0, np.inf]])).all())


def _allowed(array: np.ndarray) -> float:
    return ALLOWED if is_real(array.dtype) else 1.0


def _largest(array: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        size = np.abs(array.astype(np.float64))
    return float(size[np.isfinite(size)].max(initial=0.0))


def distance(got: np.ndarray, wanted: np.ndarray, spread: Spread, steps: float = 0.0) -> str | None:
    """The difference between the result `got` and the result `wanted`, as text; None if they agree.

    A difference is another shape, another type, or an element that is too far away. Floats may differ by ALLOWED times
    the spread, a rounding error, and the smallest normal number, because processors may treat smaller numbers as 0.
    Integers may differ by the spread (by 1 at least, if it is not 0) and by `steps`.
    """
    if got.shape != wanted.shape:
        return f"has shape {got.shape}, not {wanted.shape}"
    if got.dtype != wanted.dtype:
        return f"is {got.dtype}, not {wanted.dtype}"
    with np.errstate(all="ignore"):
        ours, theirs = got.astype(np.float64), wanted.astype(np.float64)
        allowed = ALLOWED * spread.array
        if is_real(wanted.dtype):
            allowed = allowed + UNITS[wanted.dtype.name] * 0.25 * np.nan_to_num(np.abs(theirs), posinf=0.0)
            allowed = allowed + float(ml_dtypes.finfo(wanted.dtype).smallest_normal)
        else:
            allowed = np.where(allowed > 0, np.maximum(spread.array, 1.0), 0.0) + steps
        near = (np.abs(ours - theirs) <= allowed) | (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    if near.all():
        return None
    at = tuple(np.argwhere(~near)[0].tolist()) if near.ndim else ()
    return (
        f"{int((~near).sum())} of {near.size} elements differ, the first at {at}: {got[at]}, not {wanted[at]} "
        f"within {float(np.asarray(allowed)[at]) if np.ndim(allowed) else float(allowed):.3g}"
    )
