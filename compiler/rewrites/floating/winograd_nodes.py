"""The nodes of a convolution by Winograd's method: transformed tiles, a convolution in groups, output tiles."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from ...graph.graph import Node, Tensor, unused
from ...graph.operators import Convolution, WinogradOutputs, WinogradTiles
from ...ir.expr import Expr
from ...ir.visit import substitute_expr
from ...te.blocks import Window, ceil_div
from ...te.ops.convolution import WINOGRAD_TAPS, tile_counts
from ...te.ops.convolution import Convolution as Sizes
from ...te.ops.winograd import transformed_weights
from ...te.scalars import argument, argument_types


@dataclass(slots=True, kw_only=True)
class WinogradNodes:
    """The new graph under construction. `tiles`: the tensors of transformed tiles, by (transformed tensor, outputs
    along a side of a tile, pads).
    """

    tensors: dict[str, Tensor]
    constants: dict[str, np.ndarray]
    nodes: list[Node] = field(default_factory=list)
    tiles: dict[tuple[str, int, tuple[int, ...]], str] = field(default_factory=dict)

    def rewrite(self, node: Node, operator: Convolution, sizes: Sizes, m: int) -> None:
        """Adds the three nodes that replace the convolution `node`, for tiles of `m` x `m` outputs. The last of the
        three has the convolution's name, output, and list of fused ONNX nodes.
        """
        block = self.tensors[node.output].block
        matrices = (m + WINOGRAD_TAPS - 1) ** 2
        count = sizes.batch * prod(tile_counts(m, sizes))
        channels, filters = (ceil_div(size, block) * block for size in (sizes.channels, sizes.filters))
        tiles = self._tiles(node, sizes, m, matrices * channels, count)
        weight = self._constant(f"{node.inputs[1]}.winograd", self._weights(node, m, channels, filters))
        products = self._tensor(f"{node.name}.products", matrices * filters, count, block)
        self.nodes.append(
            Node(
                name=products,
                members=(),
                operator=Convolution(window=Window(kernel=(1, 1)), groups=matrices),
                inputs=(tiles, weight),
                output=products,
            )
        )
        inputs = [products, *node.inputs[2:]]
        if operator.epilogue.bias:
            bias = self.constants[node.inputs[2]].reshape(-1)
            inputs[1] = self._constant(f"{node.inputs[2]}.winograd", _extended(bias, filters))
        self.nodes.append(
            replace(
                node,
                operator=WinogradOutputs(outputs=m, epilogue=operator.epilogue),
                inputs=tuple(inputs),
                result=_without_weights(node),
            )
        )

    def _tiles(self, node: Node, sizes: Sizes, m: int, channels: int, count: int) -> str:
        data = self.tensors[node.inputs[0]]
        key = (data.name, m, sizes.window.pads)
        if key not in self.tiles:
            name = self._tensor(f"{node.name}.tiles", channels, count, data.block)
            operator = WinogradTiles(outputs=m, window=sizes.window)
            self.nodes.append(
                Node(name=name, members=(), operator=operator, inputs=(data.name,), output=name)
            )
            self.tiles[key] = name
        return self.tiles[key]

    def _weights(self, node: Node, m: int, channels: int, filters: int) -> np.ndarray:
        """Transforms the weights of a convolution for Winograd's method with tiles of `m` x `m` outputs. The result has
        shape (n * n * filters, channels, 1, 1) with n = m + 2. `filters` and `channels`: the numbers rounded up to
        whole blocks, to which the weights are padded with zeros.
        """
        made = transformed_weights(self.constants[node.inputs[1]], m).swapaxes(1, 2)
        matrices, *sizes = made.shape
        if sizes != [filters, channels]:
            made = np.pad(made, [(0, 0), (0, filters - sizes[0]), (0, channels - sizes[1])])
        return np.ascontiguousarray(made).reshape(matrices * filters, channels, 1, 1)

    def _tensor(self, name: str, channels: int, columns: int, block: int) -> str:
        name = unused(name, self.tensors)
        self.tensors[name] = Tensor(name=name, shape=(1, channels, 1, columns), block=block)
        return name

    def _constant(self, name: str, array: np.ndarray) -> str:
        name = unused(name, self.tensors)
        self.tensors[name] = Tensor(name=name, shape=array.shape)
        self.constants[name] = array
        return name


def _without_weights(node: Node) -> Expr | None:
    """Adapts an expression that is fused with a convolution to a node that does not have the weight (input 1) among its
    inputs. The numbers of later inputs are reduced by one.
    """
    if node.result is None:
        return None
    types = argument_types(node.result)
    moved = {argument(i).name: i - 1 for i in node.operands(node.result)}
    return substitute_expr(node.result, {name: argument(i, types[name]) for name, i in moved.items()})


def _extended(array: np.ndarray, size: int) -> np.ndarray:
    """The one-dimensional array, padded with zeros to `size`."""
    return np.pad(array, (0, size - len(array)))
