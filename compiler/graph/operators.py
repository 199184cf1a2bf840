"""The real-valued operators: computations on tensors, without names and shapes.

Operators that compute sums read float32 tensors. On some targets they also read 16-bit floats (`floating.read_halves`),
and compute the sums in float32. Element-wise operators and moves read any types. Windows and epilogues are classes of
the tensor expressions (`vdla.compiler.te`), which define the exact computation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ..ir.expr import Expr
from ..ir.stmt import Program
from ..te.blocks import Pads, Pair, Window
from ..te.ops.sums import Epilogue

if TYPE_CHECKING:
    from ..te.ops.lstm import Direction
    from ..te.ops.movement import Runs
    from ..te.ops.recurrent import Cell
    from ..te.ops.reduction import Kind
    from ..te.ops.resize import Coordinates, Rounding

OperatorClass = Literal["view", "injective", "reduction", "complex-out-fusable", "opaque"]
"""Operator classes: those of the TVM paper (OSDI 2018, section 3), and "view", the class of operators that compute
nothing.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """A convolution. Inputs: data (N, C, H, W) and constant weight (O, C / groups, KH, KW). If `epilogue` adds a bias
    or an operand, these are inputs too: a constant bias (O,), an operand in the output's shape. Output: (N, O, OH, OW).

    If `transposed`, this is a transposed convolution. Its weight is (O, C / groups, KH, KW), too, and its output has
    `output_padding` additional rows and columns.
    """

    window: Window
    groups: int = 1
    epilogue: Epilogue = field(default_factory=Epilogue)
    transposed: bool = False
    output_padding: Pair = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WinogradTiles:
    """The first step of a convolution by Winograd's method. Input: data (N, C, H, W) in blocks of channels. Output: the
    transformed tiles, in shape (1, n * n * C', 1, tiles). Each tile gives `outputs` rows and columns of the
    convolution's result. Here n is `outputs` + 2, and C' is the number of channels, rounded up to whole blocks
    (`te.ops.blocked_winograd.blocked_tiles`).
    """

    outputs: int
    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class WinogradOutputs:
    """The last step of a convolution by Winograd's method. Input: products of transformed tiles and weights, (1, n * n
    * O', 1, tiles). Here n is 2 + `outputs` (the number of outputs along a side of a tile), and O' is the number of
    filters, rounded up to whole blocks.

    If `epilogue` adds a bias or an operand, these are inputs too: a constant bias (O',), an operand in the output's
    shape. Output: (N, O, OH, OW) in blocks.
    """

    outputs: int
    epilogue: Epilogue


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """A product with a constant matrix. Inputs: data (rows, depth) and constant weight (depth, columns). If `epilogue`
    adds a bias or an operand, these are inputs too: a constant bias (columns,), an operand in the output's shape.
    Output: (rows, columns).

    With `transposed` the weight is stored as (columns, depth), because an embedding look-up reads the same constant.
    """

    epilogue: Epilogue = field(default_factory=Epilogue)
    transposed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNormalization:
    """Inputs: data (N, C, ...), scale (C,) and shift (C,), constants. Output: data * scale + shift."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise:
    """The expression `body`, computed for each element of the inputs, which broadcast as in numpy;
    `te.scalars.argument(i)` is the element of input i.
    """

    body: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPool:
    """Input: data (N, C, H, W). The greatest value of each window; pads never win."""

    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class AveragePool:
    """Input: data (N, C, H, W). Output: the mean of each window. `counted`: how many of the pads (top, left, bottom,
    right) a mean counts as zeros. A mean leaves out all other pads.
    """

    window: Window
    counted: Pads


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """Resizes rows and columns (`te.ops.resize`). Input: data (N, C, H, W). Output: (N, C, OH, OW). `scales`: the
    model's scales of rows and columns. None if the model gives sizes instead; then the scale is the ratio of the sizes.
    """

    mode: Literal["nearest", "linear"]
    coordinates: Coordinates
    rounding: Rounding
    scales: tuple[float | None, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax:
    """Input: data. Output: exp(x - max), divided by the sum of these exponentials along `axis` (0 or more). With
    `logarithm`, the output is the logarithm of this quotient.
    """

    axis: int
    logarithm: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalization:
    """Normalizes each sample over all dimensions from `axis` on: (x - m) / sqrt(v + epsilon) * scale + bias, with mean
    m and variance v over these dimensions. Inputs: data, a constant scale and, optionally, a constant bias. Scale and
    bias have the shape of the normalized dimensions; if `by_channel`, they have the shape (C,).
    """

    axis: int
    by_channel: bool
    epsilon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """Input: data. The sum, mean, ... (`kind`) over `axes` (0 or more, ascending). The output's shape has size 1 in
    these axes, or leaves them out.
    """

    kind: Kind
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CumulativeSum:
    """Sums up elements along `axis` (0 or more). Input: data. Each element of the output is the sum of all input
    elements up to this index, or with `reverse` from this index on. With `exclusive` the element at the index itself is
    left out. `te.ops.folds` computes the sums.
    """

    axis: int
    exclusive: bool
    reverse: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixProduct:
    """The product of two computed matrices. Inputs: (..., rows, depth) and (..., depth, columns), whose leading
    dimensions broadcast. Output (..., rows, columns).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class DotProductAttention:
    """softmax(scores(Q K^T)) V. Inputs: Q (..., rows, depth), K (..., keys, depth), V (..., keys, columns), whose
    leading dimensions broadcast; then the tensors that `scores` reads. Output: (..., rows, columns).

    `axes`: how Q, K, V and the output (tensors i = 0 to 3) are stored. Dimension d in the shapes above is axis
    `axes`[i][d] of the stored tensor i. `repeats`: for K and V, the number of neighbouring heads that share a matrix.
    Heads are the last leading dimension of the output.

    `scores`: the expression that computes a score before the softmax. In it, `te.scalars.ELEMENT` is an element of Q
    K^T, `argument(i)` is an element of input i (3 or more), and `te.ops.attention_sizes.ROW` and `KEY` are the indices
    of the score's row and key. `ahead`: with a constant causal mask, row i may read the keys up to i + `ahead`; all
    later keys have weight 0. None without a causal mask.
    """

    axes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    repeats: tuple[int, int]
    scores: Expr
    ahead: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LstmSteps:
    """All steps of an LSTM, in D `directions`. Inputs: gates (steps * batch, D * 4 * hidden), constant recurrent
    weights (D, hidden, 4, hidden), and the initial hidden and cell states (D, batch, hidden). Outputs: hidden states of
    all steps (steps, D, batch, hidden), final hidden states, final cell states (`te.ops.recurrent`).
    """

    steps: int
    directions: tuple[Direction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentSteps:
    """All steps of a GRU or RNN, in D `directions`. Inputs: gates (steps * batch, D * gates * hidden); the constant
    recurrent weights; the initial hidden state (D, batch, hidden). A GRU has one more constant: the recurrent weights
    of its gate n (cell "GRU"), or the bias of this gate (cell "GRU, reset after"). Outputs: hidden states of all steps
    (steps, D, batch, hidden) and the final hidden state. `activations`: for each direction, the names of the functions
    that ONNX's operator applies. `te.ops.recurrent.recurrent_steps` has the formulas.
    """

    cell: Cell
    steps: int
    directions: tuple[Direction, ...]
    activations: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Permute:
    """Input: data. Axis d of the output is axis `axes`[d] of the input."""

    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Concatenate:
    """Inputs: tensors whose shapes differ along `axis` (0 or more) only. Output: their concatenation."""

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A concatenation without copies: the nodes that compute the inputs have already written them into the output's
    memory.

    `holds`: whether the output has its own memory, which contains the inputs. If false, the output is a part of another
    tensor's memory, and the inputs are next to each other in that memory.
    """

    axis: int
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Remap:
    """A selection of elements along each axis, such as a slice or a pad. Input: data. `runs`: for each axis, the input
    index of every output index, as runs of equally spaced indices. Output elements outside of all runs are `fill`
    (`te.ops.movement`).
    """

    runs: tuple[Runs, ...]
    fill: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather:
    """Selects elements along `axis`. Input: data. `indices`: the indices to select, 0 or more. The output has the
    selected elements in order; its shape may divide or join axes.

    If `indices` is None, a second input has the indices, int64. Negative indices count from the end. For an index
    outside of the axis, the first or last element is selected, whichever is nearer.
    """

    axis: int
    indices: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherElements:
    """Inputs: data, and int64 indices of equal rank. Output: for each index, the element of data at this index along
    `axis`, 0 or more; see `te.ops.scattered.gather_elements`.
    """

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """An operator that is computed by a program of `te.ops` without a schedule. The program's parameters are the
    inputs, then the outputs; a parameter has the elements of its tensor in the tensor's order, in any shape.
    """

    program: Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape:
    """A view: the input's elements from `offset` on, in their order, in the output's shape."""

    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Relayout:
    """Input: data. Output: the same elements in the memory layout of the output tensor."""


Operator = (
    Convolution | WinogradTiles | WinogradOutputs | Dense | BatchNormalization | Elementwise | MaxPool
    | AveragePool | Resize | Softmax | Normalization | Reduction | CumulativeSum | MatrixProduct
    | DotProductAttention | LstmSteps | RecurrentSteps | Permute | Concatenate | Join | Remap | Gather
    | GatherElements | Computed | Reshape | Relayout
)  # fmt: skip


def operator_class(operator: object) -> OperatorClass:
    """The class of an operator, which decides its fusion; integer operators are "opaque"."""
    match operator:
        case Reshape() | Join():
            return "view"
        case (
            Elementwise() | BatchNormalization() | Permute() | Concatenate() | Remap() | Gather() | Relayout()
        ):
            return "injective"
        case Convolution() | Dense():
            return "complex-out-fusable"
        case MaxPool() | AveragePool() | Reduction():
            return "reduction"
        case _:
            return "opaque"
