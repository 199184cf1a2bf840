"""The primitive `rfactor`: makes partial sums of a reduction, one for each iteration of a loop, and adds these up."""

from __future__ import annotations

from ..ir.expr import Buffer, Const, Expr, Load, Var, all_of, equal
from ..ir.stmt import Alloc, For, Program, Reduce, Seq, seq
from ..ir.visit import free_vars, map_expressions, substitute_expr
from .errors import LegalityError
from .reduction import check_perfect, nested, reduce_named, reduction_loops
from .tree import names_in, rebuild, unused


def rfactor(program: Program, name: str, loop: str) -> Program:
    """Makes a partial sum for each iteration of one of the reduction loops of `name`, then adds the partial sums.

    rewrite:
                                                     alloc C.rf: [m, n]
        for i in range(n):                           for i.rf in range(n):
            for k in range(m):                           for k.rf in range(m):
                for j in range(4):         ->                for j in range(4):
                    C[i] += A[i, k, j]                           C.rf[k.rf, i.rf] += A[i.rf, k.rf, j] first j == 0
                        first k == 0 and j == 0      for i in range(n):
                                                         for k in range(m):
                                                             C[i] += C.rf[k, i] first k == 0

    The statement of the partial sums is called `name`.rf, their buffer has the target's name with the suffix .rf.
    `loop` must be a reduction loop of the Reduce `name`, with a constant extent. Legal if the loops between the
    allocation of the target and the Reduce are a perfect nest, which contains no other statement; if the condition
    `first`, under which the sum starts, is that all reduction loops are at 0; and if the extents of loops that are not
    reduction loops do not depend on reduction loops."""
    path, reduce = reduce_named(program, name)
    around = [n for n in path if isinstance(n, For)]
    inside = max(
        (i for i, n in enumerate(path) if isinstance(n, Alloc) and n.buffer.name == reduce.buffer.name),
        default=0,
    )
    chain = [n for n in path[inside:] if isinstance(n, For)]
    check_perfect(program, chain, reduce)
    own = reduction_loops(program, reduce, around, chain)
    if loop not in own or any(n.name in own for n in around if n not in chain):
        raise LegalityError(f"cannot factor {name}: {loop} is not one of its reduction loops", program, loop)
    factored = next(n for n in chain if n.name == loop)
    if not isinstance(factored.extent, Const):
        raise LegalityError(f"cannot factor {name}: the extent of {loop} is not constant", program, loop)
    shared = [n for n in chain if n.name == loop or n.name not in own]
    for n in shared:
        if bad := sorted(free_vars(n.extent) & own):
            reason = f"cannot factor {name}: the extent of {n.name} depends on {bad[0]}"
            raise LegalityError(reason, program, n.name)
    values: dict[str, Expr] = {n.name: Var(f"{n.name}.rf") for n in shared}
    partial = Buffer(
        name=unused(program, f"{reduce.buffer.name}.rf"),
        shape=(int(factored.extent.value), *reduce.buffer.shape),
        dtype=reduce.buffer.dtype,
        scope=reduce.buffer.scope,
    )
    taken = names_in(program)
    for new in (*(f"{n.name}.rf" for n in shared), f"{name}.rf"):
        if new in taken:
            raise LegalityError(f"cannot factor {name}: the name {new} is taken", program, new)
    rest = [equal(n.var, 0) for n in chain if n.name in own and n.name != loop]
    summing = Reduce(
        name=f"{name}.rf",
        op=reduce.op,
        buffer=partial,
        indices=(factored.var, *reduce.indices),
        value=reduce.value,
        first=all_of(*rest),
    )
    renamed = map_expressions(summing, lambda e: substitute_expr(e, values))
    first_nest = nested(
        [
            For(
                var=Var(f"{n.name}.rf") if n.name in values else n.var,
                extent=substitute_expr(n.extent, values),
                body=n.body,
                kind=n.kind,
            )
            for n in chain
        ],
        renamed,
    )
    adding = Reduce(
        name=name,
        op=reduce.op,
        buffer=reduce.buffer,
        indices=reduce.indices,
        value=Load(partial, (factored.var, *reduce.indices)),
        first=equal(factored.var, 0),
    )
    top = path.index(chain[0])
    both = (first_nest, nested(shared, adding))
    if top == 0 or not isinstance(parent := path[top - 1], Seq):
        return rebuild(path[: top + 1], Alloc(buffer=partial, body=seq(*both)))
    # The allocation encloses all following statements, so that producers and users are in one sequence.
    position = next(i for i, s in enumerate(parent.statements) if s is path[top])
    before, after = parent.statements[:position], parent.statements[position + 1 :]
    return rebuild(path[:top], seq(*before, Alloc(buffer=partial, body=seq(*both, *after))))
