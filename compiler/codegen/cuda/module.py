"""A whole program as source text, and its launches as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

from ...ir.bounds import Interval, loop_ranges
from ...ir.expr import Buffer, Const
from ...ir.kernels import Kernel, accesses, is_block_loop, kernel_at, kernel_obstacle, kernels
from ...ir.printer import summarize
from ...ir.regions import write_buffers
from ...ir.simplify import simplify
from ...ir.stmt import Alloc, For, Program, Seq, Stmt
from ...ir.types import DType
from ...ir.visit import free_vars
from .bulk_copies import TensorMap, bulk_copies
from .dialect import KernelParts, Parameter
from .errors import LoweringError
from .launch_shape import AXES, Shape, shape_of
from .machine import GpuTarget
from .shared_memory import SharedPlan, plan_shared
from .statements import THREAD, KernelEmitter
from .storage import ALIGNMENT, buffer_bytes, in_memory
from .text import Names, Source, wrapped


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterArgument:
    """Launch argument: the address of a parameter of the program."""

    name: str
    kind: Literal["parameter"] = "parameter"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceArgument:
    """Launch argument: the address `offset` bytes from the beginning of the workspace."""

    offset: int
    kind: Literal["workspace"] = "workspace"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerArgument:
    """Launch argument: a 32-bit integer, the value of a loop variable of the host."""

    value: int
    kind: Literal["integer"] = "integer"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMapArgument:
    """Launch argument: a tensor map, which is passed by value. The driver makes its 128 bytes from the address of an
    array and the fields of `tensor`.
    """

    array: ParameterArgument | WorkspaceArgument
    tensor: TensorMap
    kind: Literal["tensor_map"] = "tensor_map"


Argument: TypeAlias = ParameterArgument | WorkspaceArgument | IntegerArgument | TensorMapArgument

OVERLAPPED_BLOCKS = 4
"""Largest number of blocks per multiprocessor of a kernel that is launched before the preceding kernel ends. The blocks
wait until the preceding kernel has ended. With more blocks, this waiting takes longer than a later launch would. On an
H100, the early launch makes kernels of 132 small blocks 0.26 us faster, kernels of 392 blocks (such as depthwise
convolutions) 0.2 to 0.3 us faster, and kernels of 1056 blocks 0.17 us slower.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLaunch:
    """One launch of a kernel.

    `function`: the kernel's name. `grid`: numbers of blocks along x, y and z. `block`: numbers of threads of a block
    along x, y and z. `shared_bytes`: bytes of dynamic shared memory. `overlaps`: whether blocks may be launched while
    the preceding kernel still runs. The launched blocks then wait until the preceding kernel has ended (programmatic
    dependent launch).
    """

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[Argument, ...]
    overlaps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaModule:
    """One program: the text of its kernels in their target's dialect, and their launches in order.

    `parameters`: arrays of the program. `outputs`: names of the arrays that it writes. `workspace_bytes`: memory for
    intermediates between kernels. Arrays and workspace begin at multiples of `storage.ALIGNMENT` bytes; written arrays
    overlap no other array. `definitions`: the functions and types that begin `source`, each after those that it uses.
    """

    source: str
    launches: tuple[KernelLaunch, ...]
    parameters: tuple[Buffer, ...]
    outputs: frozenset[str]
    workspace_bytes: int
    definitions: tuple[str, ...] = ()

    @property
    def kernels(self) -> str:
        """The text of the kernels alone, without the definitions."""
        return self.source[len("\n".join(self.definitions)) :].lstrip("\n")


def lower(program: Program, target: GpuTarget, *, name: str = "kernel") -> CudaModule:
    """Translates a program in kernel form (all work inside loops over blocks), as `prepare` returns it, to a module.

    Kernels are called `name`, numbered if there are several. Raises LoweringError if the program is not in kernel form,
    or uses something that the target's language lacks.
    """
    if (reason := kernel_obstacle(program)) is not None:
        raise LoweringError(f"{program.name}: {reason}")
    outline = _Outline(target, name, program)
    outline.host(program.body, (), {})
    definitions = outline.definitions()
    return CudaModule(
        source="\n".join([*definitions, *outline.texts]),
        launches=tuple(outline.launches),
        parameters=program.parameters,
        outputs=frozenset(buffer.name for buffer in write_buffers(program.body)),
        workspace_bytes=outline.workspace_bytes,
        definitions=tuple(definitions),
    )


class _Outline:
    """Visits the host-level statements of a program and collects its kernels' texts and their launches."""

    def __init__(self, target: GpuTarget, name: str, program: Program) -> None:
        # A legal identifier of the language. If there are several kernels, the name of each is this one and a number.
        self.target, self.dialect = target, target.dialect
        self.name = Names(self.dialect.names).make(name)
        self.parameters = {p.name for p in program.parameters}
        count = len(kernels(program))
        self.functions = [f"{self.name}_{i}" for i in range(count)] if count > 1 else [self.name]
        # Names of the kernels written so far that later ones must not use.
        self.owned: frozenset[str] = frozenset()
        self.texts: list[str] = []
        self.used: set[str] = set()
        self.defined: dict[str, str] = {}
        self.launches: list[KernelLaunch] = []
        self.workspace_bytes = 0
        self._free = 0
        self._workspace: dict[str, int] = {}
        # The kernels of a host loop are written in its first iteration, and launched in all.
        self._written: dict[int, _Written] = {}

    def definitions(self) -> list[str]:
        """The texts of functions and types that the kernels use."""
        functions = self.dialect.definitions(self.used, self.texts)
        return [text for text in (self.dialect.prelude, *functions, *self.defined.values()) if text]

    def host(self, statement: Stmt, loops: tuple[For, ...], iteration: Mapping[str, int]) -> None:
        """Adds the launches of a host-level statement, in order. `loops`: the host's loops around the statement, which
        are unrolled; `iteration`: values of their variables.
        """
        match statement:
            case Seq(statements=statements):
                for inner in statements:
                    self.host(inner, loops, iteration)
            case For() if is_block_loop(statement):
                self.launch(statement, loops, iteration)
            case For(var=var, body=body):
                known = {n: Interval(i, i) for n, i in iteration.items()}
                extent = simplify(statement.extent, known)
                if not isinstance(extent, Const):
                    raise LoweringError(
                        f"`{summarize(statement)}`: loops around kernels must have a constant extent"
                    )
                for i in range(int(extent.value)):
                    self.host(body, (*loops, statement), {**iteration, var.name: i})
            case Alloc(buffer=buffer, body=body):
                before = self._free
                self._workspace[buffer.name] = before
                self._free += -(-buffer_bytes(buffer) // ALIGNMENT) * ALIGNMENT
                self.workspace_bytes = max(self.workspace_bytes, self._free)
                self.host(body, loops, iteration)
                self._free = before
            case _:
                raise LoweringError(
                    f"`{summarize(statement)}` is outside of all kernels; put it into a loop over blocks"
                )

    def launch(self, statement: For, loops: tuple[For, ...], iteration: Mapping[str, int]) -> None:
        """Adds the launch of the kernel whose outermost loop is `statement`, or several launches if one launch would
        have too many blocks along x. `loops`: the host's loops around the kernel; `iteration`: values of their
        variables.
        """
        written = self._written.get(id(statement))
        if written is None:
            written = self._written[id(statement)] = self.write(kernel_at(statement, loops))
        arguments: list[Argument] = [self.array(buffer) for buffer in written.buffers]
        for buffer, tensor in written.tensor_maps:
            arguments.append(TensorMapArgument(array=self.array(buffer), tensor=tensor))
        arguments += [IntegerArgument(value=iteration[name]) for name in written.iteration]
        (x, y, z), most = written.shape.grid, self.dialect.blocks_along_x
        for first in range(0, x, most):
            several = [IntegerArgument(value=first)] if x > most else []
            self.launches.append(
                KernelLaunch(
                    function=written.function,
                    grid=(min(most, x - first), y, z),
                    block=written.shape.block,
                    shared_bytes=written.shared.dynamic_bytes,
                    arguments=(*arguments, *several),
                    overlaps=self.overlaps(written.shape),
                )
            )

    def parameter(self, buffer: Buffer, name: str, shape: Shape, *, changed: bool) -> Parameter:
        """The kernel parameter `name` for the array `buffer`; `shape`: the kernel's shape; `changed`: whether the
        kernel writes to the array.

        Reads through a restricted pointer to a read-only array may use a cache that is not coherent, so the array must
        not change while the kernel runs (PTX ISA, "ld.global.nc"). An overlapping kernel runs while the preceding
        kernel still writes, so its pointers to read-only arrays are not restricted. Pointers to `changed` arrays are
        always restricted: these arrays overlap no other array.
        """
        restricted = changed or not self.overlaps(shape)
        return Parameter(
            name=name, dtype=buffer.dtype, elements=prod(buffer.shape), changed=changed, restricted=restricted
        )

    def overlaps(self, shape: Shape) -> bool:
        """Whether a kernel of this shape is launched before the preceding kernel ends: the target can do so, and the
        kernel has at most `OVERLAPPED_BLOCKS` blocks per multiprocessor.
        """
        few = prod(shape.grid) <= OVERLAPPED_BLOCKS * self.target.multiprocessors
        return few and self.target.has("overlapping kernels")

    def array(self, buffer: str) -> ParameterArgument | WorkspaceArgument:
        """The launch argument for the address of the buffer named `buffer` in global memory."""
        offset = self._workspace.get(buffer)
        if buffer in self.parameters or offset is None:
            return ParameterArgument(name=buffer)
        return WorkspaceArgument(offset=offset)

    def write(self, kernel: Kernel) -> _Written:
        """Generates the text of a kernel."""
        shape, ranges = shape_of(kernel), loop_ranges(kernel.host)
        number = len(self.texts)
        function = self.functions[number]
        names = Names(frozenset({*self.functions, *self.owned, *self.dialect.names}))
        changed = {b.name for b in shape.writes}
        touched = {b.name: b for b in (*shape.writes, *shape.reads) if b.scope == "dram"}
        by_address = _by_address(kernel)
        buffers = sorted(touched.values(), key=lambda b: (b.name in changed, b.name))
        source = Source(1)
        iteration = [n for n in ranges if n in free_vars(kernel.blocks[0])]
        arrays: list[Parameter] = []
        storages = {}
        for buffer in buffers:
            held = in_memory(buffer, names.make(buffer.name), "global", changed=buffer.name in changed)
            storages[buffer.name] = held
            if buffer.name not in by_address:
                continue
            arrays.append(self.parameter(buffer, held.name, shape, changed=buffer.name in changed))
        variables = {n: names.make(n) for n in iteration}
        shared = plan_shared(kernel, names, overlays=self.dialect.overlays)
        emitter = KernelEmitter(self.target, kernel, shape, shared, names, source)
        values = emitter.values
        values.storages |= storages
        values.ranges |= ranges
        values.variables |= variables
        values.used |= {
            d.value
            for b in (*buffers, *(p.buffer for p in shared.places.values()))
            for d in (b.dtype,)
            if d.bits == 16
        }
        blocks, opening = emitter.blocks(), emitter.opening()
        emitter.finish()
        maps = emitter.tensor_maps
        head = [*blocks]
        head += [
            self.dialect.defined(
                DType.INT32,
                THREAD[f"thread.{axis}"],
                self.dialect.coordinate(self.dialect.thread, axis),
            )
            for axis in AXES
            if axis in emitter.threads_used
        ]
        head += opening
        if self.overlaps(shape):
            values.used.add("wait_for_kernels")
            head.append("wait_for_kernels();")
        parts = KernelParts(
            function=function,
            block=shape.block,
            arrays=arrays,
            others=[f"const __grid_constant__ TensorMap {map_name}" for map_name in maps.values()],
            numbers=[
                *(variables[n] for n in iteration),
                *([emitter.first_block] if emitter.first_block else []),
            ],
            shared=shared.declarations(self.dialect),
            head=head,
            body=source.lines,
        )
        lines = self.dialect.kernel_text(parts).split("\n")
        self.texts.append("\n".join([part for line in lines for part in wrapped(line)]))
        self.owned |= self.dialect.own_names(parts)
        self.used |= values.used
        self.defined |= values.defined
        return _Written(
            function=function,
            shape=shape,
            shared=shared,
            buffers=tuple(b.name for b in buffers if b.name in by_address),
            tensor_maps=tuple(maps),
            iteration=tuple(iteration),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """A kernel whose text is written: the function's name, launch shape, shared memory, and names of the launch
    arguments.
    """

    function: str
    shape: Shape
    shared: SharedPlan
    buffers: tuple[str, ...]
    tensor_maps: tuple[tuple[str, TensorMap], ...]
    iteration: tuple[str, ...]


def _by_address(kernel: Kernel) -> set[str]:
    """The buffers that a kernel accesses by address, not only through tensor maps."""
    copies = {copy.name for copy in bulk_copies(kernel.body)}
    return {a.buffer.name for a in accesses(kernel.body, ()) if a.write or a.statement not in copies}
