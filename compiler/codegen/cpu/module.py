"""Translates a whole program to an LLVM module with one function. The function's arguments are an array of buffer
pointers, two workspaces, a function that runs the chunks of parallel loops, and the thread pool that this function
uses.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.expr import Buffer
from ...ir.regions import write_buffers
from ...ir.stmt import Program, Reduce
from ...ir.verify import verify
from ...ir.visit import walk
from .copies import expand_copies
from .machine import CpuTarget
from .memory import Storage, row_major
from .statements import Functions, StatementEmitter, Workspace
from .text import Block

ENTRY = "kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """The LLVM IR of one program: its text, the name of its function, the bytes of workspace that the function needs,
    and the bytes of scratch memory that each worker thread needs.

    `parameters`: the arrays that the function uses, in the order of their addresses. `outputs`: names of the arrays
    that it writes.
    """

    text: str
    function: str
    workspace_bytes: int
    scratch_bytes: int
    parameters: tuple[Buffer, ...] = ()
    outputs: frozenset[str] = frozenset()


def lower(program: Program, target: CpuTarget, *, function: str = ENTRY, blocks: bool = True) -> Module:
    """Translates a scheduled program to LLVM IR.

    The module's function is `function(ptr buffers, ptr workspace, ptr scratch, ptr launch, ptr pool)`. `buffers`:
    addresses of the parameters in their order; a written array overlaps no other array. `workspace`: `workspace_bytes`
    of memory. `scratch`: `scratch_bytes` of memory for each worker. Both begin at a multiple of 64 bytes. `launch` runs
    all chunks of a parallel loop, in any order on any workers of `pool`, and returns when they are done. Its type is
    `void (ptr pool, void (*task)(ptr closure, i64 chunk, i64 worker), ptr closure, i64 chunks)`. If it is null, the
    calling thread runs the chunks one after the other.

    If `blocks` is True, long sums are added up in blocks (`passes.sum_in_blocks`), otherwise in the program's order.
    Raises VerifyError if the program breaks a rule of the IR, for example if an access may leave its buffer. Raises
    LoweringError if this target has no code for the program.
    """
    program = expand_copies(program, target)
    if blocks and any(isinstance(node, Reduce) and node.buffer.dtype.is_float for node in walk(program.body)):
        from ...passes.sum_in_blocks import sum_in_blocks

        program = sum_in_blocks(program)
    verify(program)
    functions = Functions()
    block = Block()
    workspace = Workspace()
    emitter = StatementEmitter(block, target, workspace, "%workspace", functions)
    parameters = ["ptr noalias %workspace", "ptr noalias %scratch", "ptr %launch", "ptr %pool"]
    for i, parameter in enumerate(program.parameters):
        pointer = f"%p{i}"
        parameters.append(f"ptr noalias {pointer}")
        align = parameter.dtype.bits // 8
        emitter.values.storages[parameter.name] = Storage(
            parameter, pointer, row_major(parameter.shape), align
        )
    emitter.statement(program.body)
    block.end()
    body = [f"define internal void @vdla.body({', '.join(parameters)}) #0 {{", "entry:"]
    body += [*block.allocas, *block.lines, "}"]
    # The body's arguments are noalias, which pointers loaded from an array could not be.
    head = "ptr noalias %buffers, ptr noalias %workspace, ptr noalias %scratch, ptr %launch, ptr %pool"
    wrapper = [f"define void @{function}({head}) #0 {{"]
    arguments = ["ptr %workspace", "ptr %scratch", "ptr %launch", "ptr %pool"]
    for i in range(len(program.parameters)):
        wrapper.append(f"  %a{i} = getelementptr inbounds ptr, ptr %buffers, i64 {i}")
        wrapper.append(f"  %p{i} = load ptr, ptr %a{i}")
        arguments.append(f"ptr %p{i}")
    wrapper += [f"  call void @vdla.body({', '.join(arguments)})", "  ret void", "}"]
    lines = [
        f'target triple = "{target.triple}"',
        f"@vdla.scratch_bytes = internal constant i64 {functions.scratch.greatest}",
        *sorted(block.declarations),
        *functions.lines,
        *body,
        *wrapper,
        'attributes #0 = { nounwind "no-builtins" }',
    ]
    return Module(
        text="\n".join(lines) + "\n",
        function=function,
        workspace_bytes=workspace.greatest,
        scratch_bytes=functions.scratch.greatest,
        parameters=program.parameters,
        outputs=frozenset(buffer.name for buffer in write_buffers(program.body)),
    )
