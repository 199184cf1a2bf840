"""update_in_place: an element-wise statement overwrites one of its operands instead of writing a buffer of its own."""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.expr import Buffer, Var
from ..ir.replace_buffers import replace_buffers
from ..ir.stmt import Alloc, Assign, For, Node, Program, Seq, Stmt, seq
from ..ir.visit import loads_in
from .errors import LegalityError
from .legality import asynchronous, touches
from .tree import locate, locate_alloc, rebuild


def update_in_place(program: Program, name: str, operand: str) -> Program:
    """Replaces the buffer that the Assign `name` writes by the buffer `operand`, which it reads.

    rewrite (update_in_place("T", "A")):
        alloc A[n]
        A: copy A[0:n] = X[0:n]
        alloc T[n]                             alloc A[n]
        for i in range(n):                     A: copy A[0:n] = X[0:n]
            T[i] = f(A[i], B[i])         ->    for i in range(n):
        for i in range(n):                         A[i] = f(A[i], B[i])
            Y[i] = g(T[i])                     for i in range(n):
                                                   Y[i] = g(A[i])
    Machines whose ALU overwrites its first operand need this form.
    Let T be the buffer that `name` writes. Legal if T and `operand` are allocations of one shape, type and memory,
    inside the same loops; no other statement writes T, or reads T before `name` has written it; T's indices in `name`
    are the variables of the loops around `name`, each once; `name` reads `operand` only at these indices; and no later
    statement uses `operand`.
    """
    where = f"cannot update {operand} in place by {name}: "
    statement = locate(program, name)[-1]
    if not isinstance(statement, Assign):
        raise LegalityError(f"{where}{name} is not an assignment", program, name)
    result = statement.buffer.name
    paths = [locate_alloc(program, buffer) for buffer in (result, operand)]
    for buffer, path in zip((result, operand), paths, strict=True):
        if path is None:
            raise LegalityError(f"{where}{buffer} is not allocated in the program", program, name)
    outer, inner = sorted((path for path in paths if path is not None), key=len)
    outermost, innermost = outer[-1], inner[-1]
    assert isinstance(outermost, Alloc) and isinstance(innermost, Alloc)
    if inner[: len(outer)] != outer or any(isinstance(node, For) for node in inner[len(outer) :]):
        reason = f"{where}a loop contains only one of the allocations of {result} and {operand}"
        raise LegalityError(reason, program, name)
    if (held := asynchronous(outermost)) is not None:
        raise LegalityError(f"{where}{held}", program, name)
    kept = outermost.buffer if outermost.buffer.name == operand else innermost.buffer
    _check_equal(program, name, where, statement.buffer, kept)
    _check_uses(program, where, outermost, statement, operand)
    body = replace_buffers(_without(outermost.body, innermost), {result: kept})
    return rebuild(outer, Alloc(buffer=kept, body=body))


def _check_equal(program: Program, name: str, where: str, result: Buffer, operand: Buffer) -> None:
    for field in ("shape", "dtype", "scope"):
        mine, other = getattr(result, field), getattr(operand, field)
        if mine != other:
            text = "memory" if field == "scope" else field
            reason = f"{where}the {text} of {result.name} is {mine}, but that of {operand.name} is {other}"
            raise LegalityError(reason, program, name)


def _check_uses(program: Program, where: str, scope: Alloc, statement: Assign, operand: str) -> None:
    """Raises LegalityError unless `statement` may overwrite the buffer `operand` with its result. `scope`: the
    allocation that encloses all uses of two buffers: `operand`, and the buffer that `statement` writes now. `where`:
    text at the beginning of error messages.
    """
    name, result = statement.name, statement.buffer.name
    before = True
    for part in _parts(scope.body):
        nest, loops = part, list[str]()
        while isinstance(nest, For):
            loops.append(nest.var.name)
            nest = nest.body
        if nest is statement:
            before = False
            indices = [index.name for index in statement.indices if isinstance(index, Var)]
            if sorted(indices) != sorted(loops) or len(indices) < len(statement.indices):
                reason = f"{where}its indices are not the variables of its loops, each once"
                raise LegalityError(reason, program, name)
            for load in loads_in(statement.value):
                if load.buffer.name == operand and load.indices != statement.indices:
                    reason = f"{where}it reads an element of {operand} that is not the one that it writes"
                    raise LegalityError(reason, program, name)
                if load.buffer.name == result:
                    raise LegalityError(
                        f"{where}it also reads {result}, the buffer that it writes", program, name
                    )
            continue
        for use in touches(part, result if before else operand).get(result if before else operand, []):
            reason = f"{where}{use.by.name} uses {result if before else operand} {'before' if before else 'after'} it"
            raise LegalityError(reason, program, use.by.name)
    if before:
        reason = f"{where}the loops inside the allocation of {scope.buffer.name} must contain only {name}"
        raise LegalityError(reason, program, name)


def _parts(body: Node) -> Iterator[Stmt]:
    """Yields the statements of a sequence in order, also the ones in nested sequences and allocations. A loop nest
    counts as one statement.
    """
    match body:
        case Seq(statements=statements):
            for statement in statements:
                yield from _parts(statement)
        case Alloc(body=inner):
            yield from _parts(inner)
        case _:
            yield body  # pyright: ignore[reportReturnType]


def _without(body: Stmt, alloc: Alloc) -> Stmt:
    """`body` with the allocation `alloc`, which is not inside a loop, replaced by the allocation's body."""
    match body:
        case Alloc(buffer=buffer, body=inner):
            return inner if body is alloc else Alloc(buffer=buffer, body=_without(inner, alloc))
        case Seq(statements=statements):
            return seq(*(_without(statement, alloc) for statement in statements))
    return body
