"""A whole program as an LLVM module: one function over an array of buffer pointers and a workspace."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.stmt import Program
from ...ir.verify import verify
from .copies import expand_copies
from .machine import CpuTarget
from .statements import StatementEmitter, Workspace
from .storage import Storage, row_major
from .text import Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """LLVM IR of one program: its text, the function's name, and the bytes of workspace that it needs."""

    text: str
    function: str
    workspace_bytes: int


def lower(program: Program, target: CpuTarget) -> Module:
    """The module of a scheduled program.

    The function is `void kernel(ptr buffers, ptr workspace)`: addresses of the parameters in their order, none of
    which overlap where one is written, and `workspace_bytes` aligned to 64. VerifyError where the program breaks a
    rule of the IR, so that no access can leave its buffer; LoweringError where this target has no code for it.
    """
    program = expand_copies(program, target)
    verify(program)
    workspace = Workspace()
    block = Block()
    emitter = StatementEmitter(block, target, workspace, "%workspace")
    parameters = ["ptr noalias %workspace"]
    for i, parameter in enumerate(program.parameters):
        pointer = f"%p{i}"
        parameters.append(f"ptr noalias {pointer}")
        align = parameter.dtype.bits // 8
        emitter.values.storages[parameter.name] = Storage(
            parameter, pointer, row_major(parameter.shape), align
        )
    emitter.statement(program.body)
    block.do("ret void")
    body = [f"define internal void @body({', '.join(parameters)}) #0 {{", "entry:"]
    body += [*block.allocas, *block.lines, "}"]
    # The body's arguments are noalias, which pointers loaded from an array could not be.
    wrapper = ["define void @kernel(ptr noalias %buffers, ptr noalias %workspace) #0 {"]
    arguments = ["ptr %workspace"]
    for i in range(len(program.parameters)):
        wrapper.append(f"  %a{i} = getelementptr inbounds ptr, ptr %buffers, i64 {i}")
        wrapper.append(f"  %p{i} = load ptr, ptr %a{i}, align 8")
        arguments.append(f"ptr %p{i}")
    wrapper += [f"  call void @body({', '.join(arguments)})", "  ret void", "}"]
    attributes = 'attributes #0 = { nounwind "no-builtins" }'
    lines = [
        f'target triple = "{target.triple}"',
        *sorted(emitter.values.declarations),
        *body,
        *wrapper,
        attributes,
    ]
    return Module(text="\n".join(lines) + "\n", function="kernel", workspace_bytes=workspace.greatest)
