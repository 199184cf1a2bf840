"""Drawings (random nodes) of operators that move elements, of operators that only change or return a tensor's shape,
and of operators that make new elements (EyeLike, Range, ConstantOfShape).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..attributes import axes, axis, random_attributes, type_number
from ..builder import Builder, UnfitError
from ..tables import Operator
from ..values import weighted
from .pointwise import broadcastable


def _any(b: Builder, operator: Operator, ranks: tuple[int, ...] = (1, 2, 3, 4)) -> str:
    dtype = weighted(b.draw, b.types(operator.name, 0))
    return b.tensor([b.array(b.following).dtype.name if b.following else dtype], ranks=ranks, constant=0.1)


def reshape(b: Builder, operator: Operator) -> None:
    """Adds a random Reshape to any shape of the same size, also written with 0 and -1."""
    data = _any(b, operator, (0, 1, 2, 3, 4))
    shape = b.array(data).shape
    size = int(np.prod(shape))
    made: list[int] = []
    left = size
    for _ in range(b.draw.below(4)):
        part = b.draw.of([n for n in range(1, left + 1) if left % n == 0])
        made.append(part)
        left //= part
    if left > 1 or (not made and b.draw.chance(0.5)):
        made.append(left)
    if b.draw.chance(0.5):
        made = list(shape)
        b.draw.rng.shuffle(made)
    target = np.array(made, np.int64)
    if len(made) and b.draw.chance(0.4):
        target[b.draw.below(len(made))] = -1
    for place in range(min(len(made), len(shape))):
        if target[place] == shape[place] and b.draw.chance(0.3):
            target[place] = 0
    b.apply(operator, {"data": data, "shape": target})


def squeeze(b: Builder, operator: Operator) -> None:
    """Adds, as `operator` says, a random Squeeze of all or some dimensions of size 1, or a random Unsqueeze."""
    data = _any(b, operator, (0, 1, 2, 3, 4))
    shape = b.array(data).shape
    if operator.name == "Squeeze":
        ones = [i - len(shape) * b.draw.chance(0.4) for i, size in enumerate(shape) if size == 1]
        given = [i for i in ones if b.draw.chance(0.7)]
        formal = np.array(given, np.int64) if given and b.draw.chance(0.8) else None
    else:
        rank = len(shape) + 1 + b.draw.below(2)
        formal = np.array(axes(b.draw, rank, count=rank - len(shape)), np.int64)
    b.apply(operator, {"data": data, "axes": formal})


def transpose(b: Builder, operator: Operator) -> None:
    """Adds a random Transpose in a random or the reversed order of axes."""
    data = _any(b, operator)
    order = [int(i) for i in b.draw.rng.permutation(b.array(data).ndim)]
    b.apply(operator, {"data": data}, perm=order if b.draw.chance(0.85) else None)


def concat(b: Builder, operator: Operator) -> None:
    """Adds a random Concat of one to four tensors; one tensor may occur several times."""
    data = _any(b, operator)
    array = b.array(data)
    along = axis(b.draw, array.ndim)
    names = [data]
    for _ in range(b.draw.below(4)):
        shape = list(array.shape)
        shape[along] = 1 + b.draw.below(5)
        same = b.draw.chance(0.25)
        names.append(data if same else b.tensor([array.dtype.name], shape=shape, constant=0.3, old=0.9))
    b.draw.rng.shuffle(names)
    b.apply(operator, {b.schema("Concat").inputs[0].name: names}, axis=along)


def split(b: Builder, operator: Operator) -> None:
    """Adds a random Split into equal parts, or into parts of given sizes."""
    data = _any(b, operator)
    array = b.array(data)
    along = axis(b.draw, array.ndim)
    size = array.shape[along]
    where = {"axis": along} if along != 0 or b.draw.chance(0.5) else {}
    equal = [n for n in range(1, min(size, 4) + 1) if size % n == 0]
    if b.draw.chance(0.5):
        count = b.draw.of(equal)
        numbered = {"num_outputs": count} if b.opset >= 18 else {}
        b.apply(operator, {"input": data}, outputs=count, **where, **numbered)
        return
    if b.opset >= 18 and b.draw.chance(0.3):
        count = 1 + b.draw.below(min(size, 4))
        b.apply(operator, {"input": data}, outputs=count, num_outputs=count, **where)
        return
    cuts = sorted(int(i) for i in b.draw.rng.choice(size + 1, min(2, size), replace=False))
    parts = [int(n) for n in np.diff([0, *cuts, size]) if n]
    b.apply(operator, {"input": data, "split": np.array(parts, np.int64)}, outputs=len(parts), **where)


def cut(b: Builder, operator: Operator) -> None:
    """Adds a random Slice forwards or backwards, whose bounds may be beyond the ends."""
    data = _any(b, operator)
    array = b.array(data)
    along = axes(b.draw, array.ndim) if b.draw.chance(0.85) else list(range(1 + b.draw.below(array.ndim)))
    named = along != list(range(len(along))) or b.draw.chance(0.5)
    starts, ends, steps = [], [], []
    for place in along:
        size = array.shape[place]
        step = b.draw.of((1, 1, 1, 2, 3, -1, -2)) if b.opset >= 10 else 1
        first, last = sorted((b.draw.below(size), 1 + b.draw.below(size)))
        last = max(last, first + 1)
        if step < 0:
            first, last = last - 1, first - 1
            last = -size - 1 - b.draw.below(2) if last < 0 else last
        elif b.draw.chance(0.3):
            last = b.draw.of((2**31 - 1, 2**63 - 1, size + 3))
        if b.draw.chance(0.3) and step > 0:
            first -= size
        starts.append(first)
        ends.append(last)
        steps.append(step)
    kind = b.draw.of(("int64", "int64", "int32")) if b.opset >= 10 and max(ends) < 2**31 else "int64"
    formals: dict[str, Any] = {"data": data, "starts": np.array(starts, kind), "ends": np.array(ends, kind)}
    if named:
        formals["axes"] = np.array(along, kind)
    if any(step != 1 for step in steps) or (b.opset >= 10 and b.draw.chance(0.4)):
        if not named:
            formals["axes"] = np.array(along, kind)
        formals["steps"] = np.array(steps, kind)
    b.apply(operator, formals)


def gather(b: Builder, operator: Operator) -> None:
    """Adds a random node of `operator`: Gather, GatherElements or GatherND. Indices may be constants or inputs of the
    model, and may be negative.
    """
    data = _any(b, operator)
    array = b.array(data)
    attributes: dict[str, Any] = {}
    kind = b.draw.of(("int64", "int64", "int32"))
    low = 1 if b.opset >= 11 else 0
    if operator.name == "GatherND":
        kind = "int64"
        batch = b.draw.below(min(2, array.ndim)) if b.opset >= 12 else 0
        depth = 1 + b.draw.below(array.ndim - batch)
        lead = (*array.shape[:batch], *b.draw.of(((2,), (3,), (2, 2))))
        columns = [b.draw.rng.integers(-low * n, n, lead) for n in array.shape[batch : batch + depth]]
        indices = np.stack(columns, -1)
        attributes = {"batch_dims": batch} if batch else {}
    else:
        along = axis(b.draw, array.ndim)
        size = array.shape[along]
        shape = b.draw.of(((), (1,), (3,), (2, 2)))
        if operator.name == "GatherElements":
            shape = tuple([1 + b.draw.below(n) for n in array.shape])
        indices = b.draw.rng.integers(-low * size, size, shape)
        attributes = {"axis": along} if along != 0 or b.draw.chance(0.5) else {}
    name = b.new(np.asarray(indices, kind), constant=b.draw.chance(0.5), held=True)
    b.apply(operator, {"data": data, "indices": name}, **attributes)


def scatter(b: Builder, operator: Operator) -> None:
    """Adds a random node of `operator` (ScatterElements or ScatterND) with any reduction; it writes no element
    twice.
    """
    data = _any(b, operator)
    array = b.array(data)
    attributes = random_attributes(b, operator, array.ndim, "axis")
    if array.dtype == bool:
        attributes.pop("reduction", None)
    if operator.name == "ScatterND":
        depth = 1 + b.draw.below(array.ndim)
        places = np.stack(
            np.unravel_index(
                b.draw.rng.permutation(int(np.prod(array.shape[:depth])))[:4], array.shape[:depth]
            ),
            -1,
        )
        updates = (len(places), *array.shape[depth:])
        indices = places.astype(np.int64)
    else:
        along = axis(b.draw, array.ndim)
        updates = tuple([1 + b.draw.below(n) for n in array.shape])
        order = np.argsort(
            b.draw.rng.random(
                (*updates[: along % array.ndim], array.shape[along], *updates[along % array.ndim + 1 :])
            ),
            along,
        )
        indices = np.take(order, range(updates[along]), along).astype(b.draw.of(("int64", "int64", "int32")))
        attributes |= {"axis": along} if along != 0 or b.draw.chance(0.5) else {}
    name = b.new(indices, constant=b.draw.chance(0.5), held=True)
    b.apply(
        operator,
        {"data": data, "indices": name, "updates": b.tensor([array.dtype.name], shape=updates)},
        **attributes,
    )


def expand(b: Builder, operator: Operator) -> None:
    """Adds a random Expand. The tensor's shape and the requested shape broadcast, so that both may have sizes of 1."""
    data = _any(b, operator, (0, 1, 2, 3))
    shape = b.array(data).shape
    target = [b.draw.of((2, 3)) if size == 1 else size for size in shape]
    target = [*[b.draw.of((1, 2, 3)) for _ in range(b.draw.below(2))], *target]
    target = [1 if b.draw.chance(0.15) else size for size in target]
    b.apply(operator, {"input": data, "shape": np.array(target, np.int64)})


def tile(b: Builder, operator: Operator) -> None:
    """Adds a random Tile that repeats axes one to three times."""
    data = _any(b, operator)
    repeats = np.array([b.draw.of((1, 1, 2, 3)) for _ in b.array(data).shape], np.int64)
    b.apply(operator, {"input": data, "repeats": repeats})


def pad(b: Builder, operator: Operator) -> None:
    """Adds a random Pad in any mode; negative pads crop."""
    data = _any(b, operator) if b.opset >= 11 else b.tensor(["float32"], ranks=(1, 2, 3, 4))
    array = b.array(data)
    modes = ["constant", "constant", "reflect", "edge"] + (["wrap"] if b.opset >= 19 else [])
    mode = b.draw.of(modes)
    along = axes(b.draw, array.ndim) if b.opset >= 18 and b.draw.chance(0.3) else list(range(array.ndim))
    pads = [b.draw.of((0, 0, 1, 2)) for _ in range(2 * len(along))]
    pads = [
        min(n, array.shape[along[i % len(along)]] - 1) if mode != "constant" else n
        for i, n in enumerate(pads)
    ]
    if b.draw.chance(0.15):
        pads = [
            -1 if b.draw.chance(0.3) and array.shape[along[i % len(along)]] > 3 else n
            for i, n in enumerate(pads)
        ]
    formals: dict[str, Any] = {"data": data, "pads": np.array(pads, np.int64)}
    attributes: dict[str, Any] = {"mode": mode} if mode != "constant" or b.draw.chance(0.5) else {}
    if len(along) < array.ndim or (b.opset >= 18 and b.draw.chance(0.2)):
        formals["axes"] = np.array(along, np.int64)
    if mode == "constant" and b.draw.chance(0.5):
        value = b.draw.of((0, 1, 3, -2, 0.3, 40))
        if b.opset >= 11:
            formals["constant_value"] = np.asarray(value).astype(array.dtype)
        else:
            attributes["value"] = float(value)
    b.apply(operator, formals, **attributes)


def blocks(b: Builder, operator: Operator) -> None:
    """Adds a random node of `operator` (DepthToSpace or SpaceToDepth)."""
    size = b.draw.of((2, 2, 3, 1))
    if operator.name == "DepthToSpace":
        shape = (
            b.draw.of((1, 2)),
            size * size * b.draw.of((1, 2, 3)),
            1 + b.draw.below(3),
            1 + b.draw.below(3),
        )
    else:
        shape = (
            b.draw.of((1, 2)),
            1 + b.draw.below(3),
            size * (1 + b.draw.below(3)),
            size * (1 + b.draw.below(2)),
        )
    dtype = weighted(b.draw, b.types(operator.name, 0))
    modes: dict[str, Any] = (
        {"mode": b.draw.of(("DCR", "CRD"))}
        if "mode" in b.schema(operator.name).attributes and b.draw.chance(0.7)
        else {}
    )
    b.apply(operator, {"input": b.tensor([dtype], shape=shape)}, blocksize=size, **modes)


def trilu(b: Builder, operator: Operator) -> None:
    """Adds a random Trilu: the upper or lower part, from a random diagonal on."""
    data = _any(b, operator, (2, 3, 4))
    k = np.asarray(b.draw.below(9) - 4, np.int64) if b.draw.chance(0.6) else None
    b.apply(operator, {"input": data, "k": k}, **random_attributes(b, operator, 2))


def reverse_sequence(b: Builder, operator: Operator) -> None:
    """Adds a random ReverseSequence with a length for each sequence."""
    data = _any(b, operator, (2, 3))
    time = b.draw.below(2)
    shape = b.array(data).shape
    lengths = b.draw.rng.integers(1, shape[time] + 1, shape[1 - time])
    name = b.parameter(lengths.astype(np.int64), run_time=0.2)
    given = b.draw.chance(0.6) or time == 1
    b.apply(
        operator,
        {"input": data, "sequence_lens": name},
        **({"time_axis": time, "batch_axis": 1 - time} if given else {}),
    )


def shape(b: Builder, operator: Operator) -> None:
    """Adds a random Shape that returns all sizes of a tensor, or some consecutive ones."""
    b.apply(operator, {"data": _any(b, operator, (0, 1, 2, 3, 4))}, **random_attributes(b, operator, 3))


def eye(b: Builder, operator: Operator) -> None:
    """Adds a random EyeLike: ones on a diagonal, in the shape of a tensor."""
    data = _any(b, operator, (2,))
    attributes = random_attributes(b, operator, 2)
    if b.draw.chance(0.5):
        attributes["dtype"] = type_number(b.draw.of(("float32", "int64", "int32", "float16")))
    b.apply(operator, {"input": data}, **attributes)


def counted(b: Builder, operator: Operator) -> None:
    """Adds a random node of `operator` (Range or ConstantOfShape) with constant inputs, and an Add of the node's result
    and a tensor that is not constant.
    """
    kind = b.draw.of(("float32", "int64", "int32"))
    count = 1 + b.draw.below(6)
    if operator.name == "Range":
        start, step = b.draw.below(5), b.draw.of((1, 2, -1))
        values = [np.asarray(n, kind) for n in (start, start + step * count, step)]
        (made,) = _known(b, operator, values, {})
    else:
        from onnx import numpy_helper

        value = (
            {"value": numpy_helper.from_array(np.array([b.draw.below(4)], kind))}
            if b.draw.chance(0.8)
            else {}
        )
        kind = kind if value else "float32"
        (made,) = _known(b, operator, [np.array([count], np.int64)], value)
    other = b.tensor([kind], shape=broadcastable(b, (3, count)), constant=0, old=0)
    b.node(Operator("", "Add"), [made, other])


def _known(b: Builder, operator: Operator, arrays: list[np.ndarray], attributes: dict[str, Any]) -> list[str]:
    for _ in range(40):
        names = [b.new(array, constant=True, held=True) for array in arrays]
        try:
            return b.node(operator, names, **attributes)
        except UnfitError as error:
            if "constants alone" not in str(error):
                raise
    raise UnfitError("of constants alone")
