"""Collects all nodes of a model that an import rejects. After the first rejected node the import continues; stand-ins
replace the results of rejected nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...graph.errors import InvalidModelError, NodeError, NodesError
from .attributes import OnnxNode


def import_rest(
    source: str,
    first: NodeError,
    nodes: Sequence[OnnxNode],
    import_node: Callable[[OnnxNode], None],
    *,
    stand_in: Callable[[str], bool],
    reported: Callable[[OnnxNode], bool],
) -> NodeError:
    """Returns one error that lists all rejected nodes of a model. `first` is the error about `nodes[0]`; the later
    nodes are imported here to find further errors. Later errors that make the model invalid for every target
    (InvalidModelError) are not listed.

    `source`: the model's name in messages. `stand_in(name)`: binds the name of a rejected node's output to a stand-in,
    and returns whether it could; a node that reads a result without a stand-in is skipped. `reported(node)`: whether
    the error lists a rejected node that reads a stand-in (False if the stand-in may be the cause of the rejection).
    """
    errors = [first]
    stand_ins: set[str] = set()
    lost: set[str] = set()

    def lose(node: OnnxNode) -> None:
        for name in node.outputs:
            if name:
                (stand_ins if stand_in(name) else lost).add(name)

    lose(nodes[0])
    for node in nodes[1:]:
        if not lost.isdisjoint(node.inputs):
            lose(node)
            continue
        try:
            import_node(node)
        except NodeError as error:
            invalid = isinstance(error, InvalidModelError)
            if not invalid and (stand_ins.isdisjoint(node.inputs) or reported(node)):
                errors.append(error)
            lose(node)
        except Exception:
            # Any error may be a consequence of a rejected node.
            lose(node)
    return first if len(errors) == 1 else NodesError(source, errors)
