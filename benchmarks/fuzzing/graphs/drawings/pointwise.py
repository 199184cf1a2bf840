"""Drawings (random nodes) of operators from their schema alone: element-wise operators, and some operators on rows and
on whole tensors.

`pointwise` draws every operator that has no drawing function of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import defs

from ..attributes import random_attributes, type_number
from ..builder import Builder, Fit, UnfitError, type_names
from ..tables import Operator
from ..values import weighted

MOST_RANK = 4


def pointwise(b: Builder, operator: Operator) -> None:
    """Adds a random node of `operator`. Its inputs have types that the operator's schema allows, and shapes that are
    equal or broadcast.
    """
    schema = b.schema(operator.name)
    constraints = {entry.type_param_str: list(entry.allowed_type_strs) for entry in schema.type_constraints}
    bound: dict[str, str] = {}
    names: list[str] = []
    ranks = range(MOST_RANK + 1) if b.draw.chance(0.5) else (2, 3, 4)
    for formal in schema.inputs:
        copies = 1
        if formal.option == defs.OpSchema.FormalParameterOption.Variadic:
            copies = 1 + b.draw.below(4)
        elif formal.option == defs.OpSchema.FormalParameterOption.Optional and b.draw.chance(0.4):
            names.append("")
            continue
        if formal.type_str not in bound:
            allowed = type_names(constraints.get(formal.type_str, [formal.type_str]))
            bound[formal.type_str] = weighted(b.draw, allowed)
        for _ in range(copies):
            names.append(_operand(b, operator.name, names, bound[formal.type_str], ranks))
    rank = b.array(names[0]).ndim
    outputs = 1
    b.node(operator, names, outputs=outputs, **random_attributes(b, operator, rank))


def _operand(b: Builder, operator: str, names: Sequence[str], dtype: str, ranks: Sequence[int]) -> str:
    given = [b.array(name).shape for name in names if name]
    fit = _fit(operator, len(given))
    if not given:
        return b.tensor([dtype], ranks=ranks, fit=fit, constant=0.1)
    if b.draw.chance(0.1) and fit(b.array(names[0])) and b.array(names[0]).dtype.name == dtype:
        return names[0]
    shape = b.draw.of(given)
    return b.tensor([dtype], shape=broadcastable(b, shape, wider=operator != "PRelu"), fit=fit, constant=0.4)


def broadcastable(b: Builder, shape: Sequence[int], *, wider: bool = True) -> tuple[int, ...]:
    """A random shape that broadcasts against `shape`. Some dimensions may be 1, and leading dimensions may be missing.
    With `wider`, the shape may also have one dimension more than `shape`.
    """
    made = [1 if b.draw.chance(0.3) else size for size in shape]
    if b.draw.chance(0.25):
        made = made[b.draw.below(len(made) + 1) :]
    elif wider and len(made) < MOST_RANK and b.draw.chance(0.1):
        made = [b.draw.of((1, 2, 3)), *made]
    return tuple(made)


def _fit(operator: str, place: int) -> Fit:
    """A function that tells whether an array may be input number `place`, from 0, of the operator named `operator`: for
    example, integer divisors are not 0 (nor -1 if signed), and shifts are shorter than the type.
    """

    def divides(array: np.ndarray) -> bool:
        if array.dtype.kind not in "iu":
            return True
        return bool(array.all()) and not (array.dtype.kind == "i" and (array == -1).any())

    def shifts(array: np.ndarray) -> bool:
        return array.dtype.kind != "u" or bool((array < array.dtype.itemsize * 8).all())

    if place == 1 and operator in ("Div", "Mod"):
        return divides
    if place == 1 and operator == "BitShift":
        return shifts
    return lambda array: True


def with_operands(*more: str):
    """Returns a drawing (function that adds a random node) for operators such as CumSum: the first input is a tensor,
    and each of the inputs named `more` is the number of an axis of this tensor.
    """

    def draw_node(b: Builder, operator: Operator) -> None:
        data = b.tensor([weighted(b.draw, b.types(operator.name, 0))], ranks=(1, 2, 3, 4))
        rank = b.array(data).ndim
        formals: dict[str, str | np.ndarray] = {b.schema(operator.name).inputs[0].name: data}
        for name in more:
            kind = np.dtype(b.draw.of(("int64", "int32")))
            formals[name] = np.asarray(b.draw.below(2 * rank) - rank, kind)
        b.apply(operator, formals, **random_attributes(b, operator, rank))

    return draw_node


def cast(b: Builder, operator: Operator) -> None:
    """Adds a random node of `operator` (Cast, CastLike or BitCast) between two types that the schema allows."""
    held = 0.15
    exact = [name for name in b.types(operator.name, 0) if name in np.sctypeDict or b.draw.chance(held)]
    data = b.tensor([weighted(b.draw, exact)], ranks=range(5), constant=0.1)
    schema = b.schema(operator.name)
    allowed = type_names(schema.outputs[0].types)
    if operator.name == "BitCast":
        allowed = [
            n for n in allowed if n in np.sctypeDict and np.dtype(n).itemsize == b.array(data).dtype.itemsize
        ]
        if not allowed:
            raise UnfitError("no type has its size")
    to = weighted(
        b.draw, [n for n in allowed if n in np.sctypeDict or n == "bfloat16" or b.draw.chance(held)]
    )
    array = b.array(data)
    if np.dtype(to).kind in "iu" if to in np.sctypeDict else False:
        limits = np.iinfo(to)
        inside = array.astype(np.float64)
        if array.dtype.kind not in "iub" and not ((inside > limits.min - 1) & (inside < limits.max)).all():
            # The result of casting such floats is undefined and depends on the processor.
            raise UnfitError("holds floats outside of the range of integers")
    attributes = random_attributes(b, operator, 0)
    if not to.startswith("float8"):
        attributes.pop("saturate", None)
    if to != "float8_e8m0fnu":
        attributes.pop("round_mode", None)
    if operator.name == "CastLike":
        b.apply(operator, {"input": data, "target_type": b.tensor([to], shape=(1,))}, **attributes)
    else:
        b.apply(operator, {"input": data}, to=type_number(to), **attributes)


def clip(b: Builder, operator: Operator) -> None:
    """Adds a random Clip with either bound, both, or none."""
    dtype = weighted(b.draw, b.types("Clip", 0))
    data = b.tensor([dtype], ranks=range(5))
    array = b.array(data)
    bounds: dict[str, np.ndarray | str | None] = {}
    for name, low, high in (("min", 0.1, 0.5), ("max", 0.5, 0.9)):
        if array.size and b.draw.chance(0.75):
            place = b.draw.rng.uniform(low, high)
            bound = np.asarray(np.quantile(array.astype(np.float64), place)).astype(array.dtype)
            as_input = "min" not in b.schema("Clip").attributes and b.draw.chance(0.15)
            bounds[name] = b.new(bound, constant=False, held=True) if as_input else bound
    b.apply(operator, {"input": data, **bounds})


def dropout(b: Builder, operator: Operator) -> None:
    """Adds a random Dropout in inference form, which changes nothing."""
    data = b.tensor([weighted(b.draw, b.types("Dropout", 0))])
    ratio = np.float32(b.draw.of((0.0, 0.5)))
    as_input = b.opset >= 12 and b.array(data).dtype == np.float32 and b.draw.chance(0.5)
    formals = {"data": data, "ratio": np.asarray(ratio) if as_input else None}
    b.apply(operator, formals, **random_attributes(b, operator, 0))


def power(b: Builder, operator: Operator) -> None:
    """Adds a random Pow of any two types that the schema allows. The exponent is a number that networks often use, or a
    random tensor.
    """
    base = b.tensor([weighted(b.draw, b.types("Pow", 0))], ranks=range(5))
    array = b.array(base)
    types = b.types("Pow", 1) if b.opset >= 12 else [array.dtype.name]
    dtype = weighted(b.draw, types)
    if b.draw.chance(0.5):
        value = b.draw.of((2, 3, 0.5, 1, 0, -1, 1.5, 4, -0.5, 0.37))
        if np.dtype(dtype).kind in "iu" if dtype in np.sctypeDict else False:
            value = abs(int(value))
        exponent = b.parameter(
            b.array(b.tensor([dtype], shape=(), old=0)) * 0 + np.asarray(value).astype(dtype)
        )
    else:
        exponent = b.tensor([dtype], shape=broadcastable(b, array.shape), fit=lambda a: bool((a >= 0).all()))
    b.node(operator, [base, exponent])
