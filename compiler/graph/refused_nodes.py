"""All nodes of a model that an import refuses, collected in one walk: behind a refused node the import goes on with
stand-ins for what the node would have made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .errors import InvalidModelError, NodeError, NodesError
from .onnx_context import OnnxNode


@dataclass(slots=True, kw_only=True)
class RefusedNodes:
    """The refusals so far.

    `stand_in` gives a name of a refused node's output something to be read as, and says whether it could. `told` says
    whether the refusal of a node that reads a stand-in is worth telling, not a consequence of the first refusal.
    """

    source: str
    stand_in: Callable[[str], bool]
    told: Callable[[OnnxNode], bool]
    errors: list[NodeError] = field(default_factory=list)
    stand_ins: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)

    def take(self, node: OnnxNode, import_node: Callable[[OnnxNode], None]) -> None:
        """Imports a node, or keeps why it is refused. A node that reads what nothing stands in for is left out.

        Raises ModelError, where no node was refused before, for what is wrong with the model itself.
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
            elif self.stand_ins.isdisjoint(node.inputs) or self.told(node):
                self.errors.append(error)
            self._lose(node)
        except Exception:
            # Behind a refused node whatever goes wrong may be its consequence.
            if not self.errors:
                raise
            self._lose(node)

    def check(self) -> None:
        """Raises the NodeError of the refused node, or the NodesError of several."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise NodesError(self.source, self.errors)

    def _lose(self, node: OnnxNode) -> None:
        for name in node.outputs:
            if name:
                (self.stand_ins if self.stand_in(name) else self.lost).add(name)
