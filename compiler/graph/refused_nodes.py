"""Collects all nodes of a model that an import rejects, in one walk: after a rejected node the import continues with
stand-ins for the node's results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .errors import InvalidModelError, NodeError, NodesError
from .onnx_attributes import OnnxNode


@dataclass(slots=True, kw_only=True)
class RefusedNodes:
    """The rejections so far.

    `stand_in(name)`: binds the name of a rejected node's output to a stand-in, and returns whether it could.
    `reported(node)`: whether the rejection of a node that reads a stand-in is recorded; if not, it counts as a
    consequence of an earlier rejection.
    """

    source: str
    stand_in: Callable[[str], bool]
    reported: Callable[[OnnxNode], bool]
    errors: list[NodeError] = field(default_factory=list)
    stand_ins: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)

    def take(self, node: OnnxNode, import_node: Callable[[OnnxNode], None]) -> None:
        """Imports a node, or records its rejection. A node that reads a result without a stand-in is skipped.

        Raises ModelError for an error of the model itself, if no node was rejected before.
        """
        if not self.lost.isdisjoint(node.inputs):
            self._lose(node)
            return
        try:
            import_node(node)
        except NodeError as error:
            if isinstance(error, InvalidModelError):
                if not self.errors:
                    raise
            elif self.stand_ins.isdisjoint(node.inputs) or self.reported(node):
                self.errors.append(error)
            self._lose(node)
        except Exception:
            # After a refused node any error may be its consequence.
            if not self.errors:
                raise
            self._lose(node)

    def check(self) -> None:
        """Raises the NodeError of the only rejected node, or the NodesError of several."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise NodesError(self.source, self.errors)

    def _lose(self, node: OnnxNode) -> None:
        for name in node.outputs:
            if name:
                (self.stand_ins if self.stand_in(name) else self.lost).add(name)
