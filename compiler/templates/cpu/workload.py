"""Workloads on processors: operators described completely, as data, so that another process can build them again.

Schedules are tuned and recorded for a workload. If its template has knobs, its tensor expression is the plain operator:
operators that a network fuses beyond an `Epilogue`'s parts change neither loops nor good knobs. If sketch rules make
the space (`SketchCpu`), the workload is the whole program, with all fused operators.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from math import prod
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from ...ir.expr import Expr
from ...ir.regions import write_buffers
from ...ir.stmt import Program
from ...ir.types import DType
from ...ir.work import statement_runs
from ...te.blocks import Pads, Window
from ...te.epilogue import Activation, Epilogue
from ...te.merge import Shape, merge_broadcast
from ...te.ops.blocked_convolution import FloatSums, blocked_convolution, blocked_depthwise
from ...te.ops.convolution import Convolution
from ...te.ops.float_elementwise import float_elementwise
from ...te.ops.float_pool import float_pool
from ...te.ops.product import Matrices, product
from ..workload_limits import MOST_ELEMENTS as MOST_TENSOR
from ..workload_limits import MOST_POSITIONS, MOST_STEP, WorkloadError

if TYPE_CHECKING:
    from ...te.scalar_steps import Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a sum's epilogue, without an activation's limits."""

    bias: bool = False
    operand: bool = False
    activation: Activation = "none"

    @staticmethod
    def of(epilogue: Epilogue) -> Parts:
        """The parts present in an epilogue."""
        return Parts(bias=epilogue.bias, operand=epilogue.operand, activation=epilogue.activation)

    @property
    def epilogue(self) -> Epilogue:
        """An epilogue with these parts."""
        return Epilogue(bias=self.bias, operand=self.operand, activation=self.activation)


class _Described:
    """Base class of workloads: conversion to JSON."""

    __slots__ = ()

    def to_dict(self: Any) -> dict[str, Any]:
        """The workload as a JSON object, from which `workload_from_dict` makes an equal one."""
        return json.loads(json.dumps(asdict(self)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2dCpu(_Described):
    """`te.ops.blocked_convolution`, scheduled by `conv2d_cpu`; `height` and `width` are results of `flattened`."""

    template: Literal["conv2d_cpu"] = "conv2d_cpu"
    batch: int
    channels: int
    height: int
    width: int
    filters: int
    groups: int = 1
    window: Window
    block_in: int
    block_out: int
    parts: Parts = field(default_factory=Parts)

    def program(self, epilogue: Epilogue | None = None) -> Program:
        """The tensor expression, with an epilogue of its parts. Raises ValueError if the sizes are inconsistent."""
        shape = Convolution(
            batch=self.batch,
            channels=self.channels,
            height=self.height,
            width=self.width,
            filters=self.filters,
            window=self.window,
            groups=self.groups,
        )
        sums = FloatSums(epilogue=epilogue or self.parts.epilogue)
        return blocked_convolution(shape, block_in=self.block_in, block_out=self.block_out, sums=sums)


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseCpu(_Described):
    """`te.ops.blocked_convolution.blocked_depthwise`, scheduled by `depthwise_cpu`."""

    template: Literal["depthwise_cpu"] = "depthwise_cpu"
    batch: int
    channels: int
    height: int
    width: int
    window: Window
    block: int
    parts: Parts = field(default_factory=Parts)

    def program(self, epilogue: Epilogue | None = None) -> Program:
        """The tensor expression, with an epilogue of its parts. Raises ValueError if the window does not fit."""
        shape = Convolution(
            batch=self.batch,
            channels=self.channels,
            height=self.height,
            width=self.width,
            filters=self.channels,
            window=self.window,
            groups=self.channels,
        )
        return blocked_depthwise(
            shape, block=self.block, sums=FloatSums(epilogue=epilogue or self.parts.epilogue)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseCpu(_Described):
    """`te.ops.product`, scheduled by `dense_cpu`."""

    template: Literal["dense_cpu"] = "dense_cpu"
    rows: int
    depth: int
    columns: int
    parts: Parts = field(default_factory=Parts)

    def program(self, epilogue: Epilogue | None = None) -> Program:
        """The tensor expression, with an epilogue of its parts."""
        sizes = Matrices(rows=self.rows, depth=self.depth, columns=self.columns)
        return product(sizes, epilogue=epilogue or self.parts.epilogue)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCpu(_Described):
    """`te.ops.float_pool`, scheduled by `pool_cpu`."""

    template: Literal["pool_cpu"] = "pool_cpu"
    outer: int
    height: int
    width: int
    lanes: int
    window: Window
    kind: Literal["max", "average"]
    counted: Pads = (0, 0, 0, 0)

    def program(self) -> Program:
        """The tensor expression. Raises ValueError if the window does not fit."""
        return float_pool(
            outer=self.outer,
            height=self.height,
            width=self.width,
            lanes=self.lanes,
            window=self.window,
            kind=self.kind,
            counted=self.counted,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementwiseCpu(_Described):
    """`te.ops.float_elementwise` on float32, scheduled by `elementwise_cpu`; a fused node is one workload.

    `shapes` are the inputs' shapes, with as few dimensions as possible; `steps` describe the computation.
    """

    template: Literal["elementwise_cpu"] = "elementwise_cpu"
    shapes: tuple[Shape, ...]
    steps: Steps

    @staticmethod
    def of(shapes: Sequence[Shape], body: Expr) -> ElementwiseCpu:
        """The workload of an expression over inputs of these shapes. Raises ValueError if there is none, see
        `steps_of`.
        """
        from ...te.scalar_steps import steps_of

        return ElementwiseCpu(shapes=merge_broadcast(shapes)[1], steps=steps_of(body))

    def program(self) -> Program:
        """The tensor expression. Raises ValueError if the shapes do not broadcast, or the steps are invalid."""
        from ...te.scalar_steps import expression

        return float_elementwise(self.shapes, expression(self.steps))


Operator: TypeAlias = Literal["matmul", "softmax", "normalization", "reduction", "conv_transpose", "generic"]
"""Operators whose schedule has no space of knobs; "generic": all operators without a schedule of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SketchCpu(_Described):
    """Any tensor expression, scheduled by rules (`sketch`); without knobs by the template of its `operator`.

    Its parameters are float32, and it writes only the last one. `constants`: names of parameters that may be packed
    ahead, in the order of the parameters. `window`: of a transposed convolution.
    """

    template: Literal["sketch_cpu"] = "sketch_cpu"
    operator: Operator
    window: Window | None = None
    constants: tuple[str, ...] = ()
    expression: Program

    def program(self) -> Program:
        """The tensor expression."""
        return self.expression

    def refusal(self) -> str | None:
        """The reason why the workload cannot be measured; None if it can."""
        if (reason := expression_refusal(self.expression, self.constants)) is not None:
            return reason
        if (self.window is None) == (self.operator == "conv_transpose"):
            return "a conv_transpose has a window, and nothing else has"
        return None

    def to_dict(self) -> dict[str, Any]:
        """The workload as a JSON object, from which `workload_from_dict` makes an equal one."""
        from ...ir.program_json import program_to_dict

        return {
            "template": self.template,
            "operator": self.operator,
            "window": None if self.window is None else json.loads(json.dumps(asdict(self.window))),
            "constants": list(self.constants),
            "expression": program_to_dict(self.expression),
        }


CpuWorkload: TypeAlias = Conv2dCpu | DepthwiseCpu | DenseCpu | PoolCpu | ElementwiseCpu | SketchCpu
_CLASSES: tuple[type[CpuWorkload], ...] = get_args(CpuWorkload)
_WORDS = {"activation": get_args(Activation), "kind": ("max", "average"), "operator": get_args(Operator)}
_NESTED: dict[str, type] = {"window": Window, "parts": Parts}
_LENGTHS = {"pads": 4, "counted": 4, "kernel": 2, "strides": 2, "dilations": 2}
_MAY_BE_ZERO = ("pads", "counted")
MOST_SIZE = 1 << 24
"""Largest size in a workload; no tensor has larger ones."""
MOST_RUNS = 1 << 36
"""Most statement executions of a program: about a minute at a nanosecond each."""
MOST_ELEMENTS = 1 << 40
"""Largest size of merged dimensions."""
_MOST = {"height": MOST_POSITIONS} | dict.fromkeys(_MAY_BE_ZERO, MOST_STEP)
"""Largest height and pads, by field name: choices of blocks try every row."""


def workload_from_dict(values: Mapping[str, Any]) -> CpuWorkload:
    """The workload of a JSON object. WorkloadError, naming the field, if no such workload can be built."""
    template = values.get("template")
    kind = next((c for c in _CLASSES if c.__dataclass_fields__["template"].default == template), None)
    if kind is None:
        raise WorkloadError(f"there is no template {template!r} on processors")
    workload: CpuWorkload = read_fields(kind, f"{template}", values)
    if isinstance(workload, SketchCpu) and (reason := workload.refusal()) is not None:
        raise WorkloadError(f"{template}: {reason}")
    try:
        parameters = workload.program().parameters
    except ValueError as error:
        raise WorkloadError(f"{template}: {error}") from None
    if large := next((p for p in parameters if prod(p.shape) > MOST_TENSOR), None):
        raise WorkloadError(f"{template}: {large.name} has more than {MOST_TENSOR} elements")
    return workload


def expression_refusal(program: Program, constants: Sequence[str]) -> str | None:
    """The reason why a whole program with these constants (see `SketchCpu`) cannot be measured; None if it can."""
    names = [p.name for p in program.parameters]
    if wrong := next((p for p in program.parameters if p.dtype is not DType.FLOAT32), None):
        return (
            f"parameter {wrong.name} is {wrong.dtype}; only float32 ones are like any others of their shape"
        )
    if {b.name for b in write_buffers(program.body)} & set(names) != {names[-1]}:
        return f"of its parameters the program must write {names[-1]}, the last one, and no other"
    if [name for name in names[:-1] if name in constants] != list(constants):
        return f"constants must be some of {', '.join(names[:-1])}, in this order"
    try:
        runs = statement_runs(program)
    except ValueError as error:
        return str(error)
    return (
        f"its statements run {runs} times, at most {MOST_RUNS} can be measured" if runs > MOST_RUNS else None
    )


def read_fields(kind: type, where: str, values: Any) -> Any:
    """A dataclass of workloads from all of its fields as JSON values. Raises WorkloadError, which begins
    with `where`.
    """
    names = {field.name: field.default for field in fields(kind)}
    if not isinstance(values, Mapping):
        raise WorkloadError(f"{where} is {values!r}, must be an object")
    if wrong := sorted(values.keys() ^ names.keys()):
        what = "is missing" if wrong[0] in names else "is none of its fields"
        raise WorkloadError(f"{where}: {wrong[0]} {what}")
    return kind(
        **{
            # Null stands for an optional field that is left out.
            name: None if value is None and names[name] is None else _value(f"{where}: {name}", name, value)
            for name, value in values.items()
        }
    )


def _value(where: str, name: str, value: Any) -> Any:
    if name == "template":
        return value
    if name == "expression":
        from ...ir.node_reader import ProgramFormatError
        from ...ir.program_json import program_from_dict

        try:
            return program_from_dict(value)
        except ProgramFormatError as error:
            raise WorkloadError(f"{where} {error}") from None
    if name == "constants":
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise WorkloadError(f"{where} is {value!r}, must be a list of names")
    if (kind := _NESTED.get(name)) is not None:
        return read_fields(kind, where, value)
    if name in ("bias", "operand"):
        if isinstance(value, bool):
            return value
        raise WorkloadError(f"{where} is {value!r}, must be true or false")
    if (words := _WORDS.get(name)) is not None:
        if value in words:
            return value
        raise WorkloadError(f"{where} is {value!r}, must be one of {', '.join(words)}")
    if name == "shapes":
        return tuple(
            [
                tuple([_size(where, 1, size, MOST_ELEMENTS) for size in shape])
                for shape in _lists(where, value)
            ]
        )
    if name == "steps":
        return tuple([tuple([_word(where, item) for item in step]) for step in _lists(where, value)])
    least = 0 if name in _MAY_BE_ZERO else 1
    if (length := _LENGTHS.get(name)) is None:
        return _size(where, least, value, _MOST.get(name, MOST_SIZE))
    if isinstance(value, list | tuple) and len(value) == length:
        return tuple([_size(where, least, item, _MOST.get(name, MOST_SIZE)) for item in value])
    raise WorkloadError(f"{where} is {value!r}, must be a list of {length} sizes")


def _lists(where: str, value: Any) -> list[list[Any]]:
    """A list of lists, none of them empty."""
    if isinstance(value, list) and value and all(isinstance(item, list) and item for item in value):
        return value
    raise WorkloadError(f"{where} is {value!r}, must be a list of lists")


def _word(where: str, value: Any) -> str | int:
    if isinstance(value, str) or type(value) is int:
        return value
    raise WorkloadError(f"{where} has {value!r}, must be a word or the number of a step")


def _size(where: str, least: int, value: Any, most: int = MOST_SIZE) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise WorkloadError(f"{where} has {value!r}, must be {least} to {most}")
