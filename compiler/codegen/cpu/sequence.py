"""A sequence of kernels as one function. Each array that a kernel uses is the caller's, or a constant inside the
object, or in the arena (memory that the arrays between kernels share).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.expr import Buffer
from .machine import CpuTarget
from .memory import ALIGNMENT, buffer_bytes
from .module import Module

_HEX = np.array([f"\\{byte:02X}" for byte in range(256)], dtype="S3")
_ARGUMENTS = "ptr %list, ptr %room, ptr %scratch, ptr %launch, ptr %pool"


@dataclass(frozen=True, slots=True)
class Argument:
    """Memory location of a kernel's parameter: in the caller's array `name`, from byte `start` on."""

    name: str
    start: int = 0


@dataclass(frozen=True, slots=True)
class Arena:
    """Memory location of a kernel's parameter: at byte `offset` of the arena, the memory that arrays between kernels
    share.
    """

    offset: int


@dataclass(frozen=True, slots=True)
class Constant:
    """Memory location of a kernel's parameter: the constant array `name`, which is part of the object file."""

    name: str


Place = Argument | Arena | Constant


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of one kernel, with the memory location (`Argument`, `Arena` or `Constant`) of each parameter, by
    parameter name.
    """

    module: Module
    places: Mapping[str, Place]


def sequence(
    calls: Sequence[Call],
    *,
    parameters: Sequence[Buffer],
    arena_bytes: int,
    constants: Mapping[str, np.ndarray],
    target: CpuTarget,
    function: str,
) -> Module:
    """A module whose `function` runs `calls` in their order; the function's signature is that of kernels (see `lower`).

    Its `parameters` are the caller's arrays; its workspace is the arena (`arena_bytes`), then the kernels' workspace.
    Constants are stored in this machine's byte order, little-endian. Pass the module to `emit_object` together with the
    kernels' modules, each once. Raises ValueError if a memory location does not fit its parameter, if a kernel writes a
    constant, or if a location that a call writes overlaps another location of the same call.
    """
    lists = _Lists(parameters, arena_bytes, constants)
    room = -(-arena_bytes // ALIGNMENT) * ALIGNMENT
    longest = max([1, *[len(call.module.parameters) for call in calls]])
    head = "ptr noalias %buffers, ptr noalias %workspace, ptr noalias %scratch, ptr %launch, ptr %pool"
    body = [
        f"define void @{function}({head}) #0 {{",
        f"  %list = alloca [{longest} x ptr]",
        f"  %room = getelementptr inbounds i8, ptr %workspace, i64 {room}",
    ]
    for i in range(len(parameters)):
        body.append(f"  %a{i} = getelementptr inbounds ptr, ptr %buffers, i64 {i}")
        body.append(f"  %p{i} = load ptr, ptr %a{i}")
    for number, call in enumerate(calls):
        lists.check(call)
        for i, parameter in enumerate(call.module.parameters):
            match call.places[parameter.name]:
                case Argument(name=name, start=start):
                    pointer = f"%p{lists.index(name)}"
                    if start:
                        whole, pointer = pointer, f"%c{number}.{i}.at"
                        body.append(f"  {pointer} = getelementptr inbounds i8, ptr {whole}, i64 {start}")
                case Arena(offset=offset):
                    pointer = f"%c{number}.{i}.at"
                    body.append(f"  {pointer} = getelementptr inbounds i8, ptr %workspace, i64 {offset}")
                case Constant(name=name):
                    pointer = f"@vdla.constant{lists.constant_index(name)}"
            body.append(f"  %c{number}.{i} = getelementptr inbounds ptr, ptr %list, i64 {i}")
            body.append(f"  store ptr {pointer}, ptr %c{number}.{i}")
        body.append(f"  call void @{call.module.function}({_ARGUMENTS}) noinline")
    body += ["  ret void", "}"]
    modules = [call.module for call in calls]
    lines = [
        f'target triple = "{target.triple}"',
        *[f"@vdla.constant{i} = {_constant(array)}" for i, array in enumerate(constants.values())],
        *sorted({f"declare void @{m.function}(ptr, ptr, ptr, ptr, ptr)" for m in modules}),
        *body,
        'attributes #0 = { nounwind "no-builtins" }',
    ]
    written = {
        place.name
        for call in calls
        for name, place in call.places.items()
        if name in call.module.outputs and isinstance(place, Argument)
    }
    return Module(
        text="\n".join(lines) + "\n",
        function=function,
        workspace_bytes=room + max([0, *[m.workspace_bytes for m in modules]]),
        scratch_bytes=max([0, *[m.scratch_bytes for m in modules]]),
        parameters=tuple(parameters),
        outputs=frozenset(written),
    )


def _constant(array: np.ndarray) -> str:
    """The LLVM definition of a constant with an array's bytes."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    text = _HEX[data].tobytes().decode("ascii")
    return f'internal constant [{data.size} x i8] c"{text}", align {ALIGNMENT}'


class _Lists:
    """The arrays that the calls of a sequence may use as kernel parameters: the caller's arrays, the arena, and
    constants. `check` tests a call against them.
    """

    def __init__(
        self, parameters: Sequence[Buffer], arena_bytes: int, constants: Mapping[str, np.ndarray]
    ) -> None:
        self.parameters = {p.name: p for p in parameters}
        self.arena_bytes = arena_bytes
        self.constants = constants
        self.order = list(self.parameters)
        self.constant_order = {name: i for i, name in enumerate(constants)}

    def index(self, name: str) -> int:
        return self.order.index(name)

    def constant_index(self, name: str) -> int:
        return self.constant_order[name]

    def check(self, call: Call) -> None:
        """Raises ValueError unless a call gives each parameter of its kernel a fitting memory location, and no location
        that the call writes overlaps another location of the call.

        A location in a caller's array or in the arena must be aligned and large enough; the caller's array must have
        the parameter's dtype. A constant must have the parameter's dtype and shape, and must not be written.
        """
        function = call.module.function
        if call.places.keys() != {p.name for p in call.module.parameters}:
            names = ", ".join([p.name for p in call.module.parameters])
            raise ValueError(
                f"{function} must have a memory location for each parameter ({names}); its call has locations for "
                f"{', '.join(call.places) or 'none'}"
            )
        for parameter in call.module.parameters:
            self._check_place(call, parameter)
        for name in call.module.outputs:
            for other in call.places:
                if name != other and self._overlap(call, name, other):
                    raise ValueError(
                        f"{function} writes {name}, whose memory location overlaps that of {other}"
                    )

    def _check_place(self, call: Call, parameter: Buffer) -> None:
        place = call.places[parameter.name]
        where = f"{call.module.function}: {parameter.name}"
        match place:
            case Argument(name=name, start=start):
                held = self.parameters.get(name)
                # A view may have another shape.
                if (
                    held is None
                    or held.dtype is not parameter.dtype
                    or start < 0
                    or start % (held.dtype.bits // 8)
                    or start + buffer_bytes(parameter) > buffer_bytes(held)
                ):
                    raise ValueError(
                        f"{where} cannot be {parameter.dtype}{list(parameter.shape)} at byte {start} of the argument "
                        f"{name}: it must have the argument's type, be aligned, and end inside the argument"
                    )
            case Arena(offset=offset):
                size = parameter.dtype.bits // 8
                if offset < 0 or offset % size or offset + buffer_bytes(parameter) > self.arena_bytes:
                    raise ValueError(
                        f"{where} has {buffer_bytes(parameter)} bytes at byte {offset} of the arena: it must begin at "
                        f"a multiple of {size} bytes and end inside the arena of {self.arena_bytes} bytes"
                    )
            case Constant(name=name):
                array = self.constants.get(name)
                if array is None or array.dtype != parameter.dtype.numpy or array.shape != parameter.shape:
                    raise ValueError(
                        f"{where} must be {parameter.dtype}{list(parameter.shape)}, but the constant {name} is "
                        "missing or has another type or shape"
                    )
                if parameter.name in call.module.outputs:
                    raise ValueError(f"{where} is written, but {name} is a constant")

    def _overlap(self, call: Call, one: str, other: str) -> bool:
        sizes = {p.name: buffer_bytes(p) for p in call.module.parameters}
        match call.places[one], call.places[other]:
            case Arena(offset=a), Arena(offset=b):
                shared = True
            case Argument(name=name, start=a), Argument(name=another, start=b):
                shared = name == another
            case held, against:
                return held == against
        return shared and a < b + sizes[other] and b < a + sizes[one]
