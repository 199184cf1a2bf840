"""Inputs of a float model whose values must be known at compilation, for example because they determine a shape."""

from __future__ import annotations

import shlex
from typing import NoReturn

from ...graph.errors import ParameterError
from ...ir.types import DType
from .attributes import OnnxNode
from .context import GraphContext

MOST_PARAMETERS = 64
"""Largest size, in elements, of an input that `--constant` may replace by values at compilation."""


def fail_parameters(context: GraphContext, node: OnnxNode, index: int, description: str) -> NoReturn:
    """Raises NodeError about input `index`, which is not constant. If the input depends only on model inputs that are
    small enough to be given as constants at compilation (`_parameters`), the error is a ParameterError that names these
    model inputs.

    `description` names the input.
    """
    name = context.resolve(node.inputs[index])
    problem, way_out = f"its {description} '{node.inputs[index]}' is not a constant", "make it an initializer"
    parameters = _parameters(context, name)
    if not parameters:
        context.fail(node, problem, way_out)
    values = " ".join(f"--constant {shlex.quote(given)}=VALUE,..." for given in parameters)
    its = "its values" if parameters == (name,) else "the values that it depends on"
    way_out += f", or give {its}: {values}"
    raise ParameterError(context.source, node.name, node.op_type, problem, way_out, parameters)


def _parameters(context: GraphContext, name: str) -> tuple[str, ...]:
    """The model's inputs on which a tensor depends; none if one of them may not become a constant at compilation.

    An input may become a constant if it has one element, or at most `MOST_PARAMETERS` integers or booleans. If the
    input is the tensor itself, it may have at most `MOST_PARAMETERS` elements of any dtype.
    """
    makers = {output: node for node in context.nodes for output in (node.output, *node.more_outputs)}
    found: dict[str, None] = {}
    waiting, seen = [name], {name}
    while waiting:
        tensor = waiting.pop()
        if tensor in context.input_names:
            found[tensor] = None
        elif tensor in makers:
            waiting.extend(given for given in makers[tensor].inputs if given not in seen)
            seen.update(makers[tensor].inputs)
    for given in found:
        tensor = context.tensors[given]
        counted = tensor.dtype.is_integer or tensor.dtype is DType.BOOL or given == name
        if tensor.size > (MOST_PARAMETERS if counted else 1):
            return ()
    return tuple(sorted(found))
