"""What an ONNX name stands for while a model is imported.

Float tensors of a quantized model are never computed: each is a constant, an integer tensor seen through
its scale, or an operation that waits for the QuantizeLinear which says how its result is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..te.blocks import Pads, Pair, Window
from .int8_operators import Group
from .quantization import ActivationType, Quantization


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Constant:
    """An array known at import, float or integer."""

    array: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.array.shape


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuantizedConstant:
    """A constant behind DequantizeLinear: `scale * (integers - zero_point)`, per tensor (axis None) or
    along axis.

    `integers` has the file's dtype; `scale` (float32) and `zero_point` (int64) are 0-d, or 1-d along `axis`.
    """

    integers: np.ndarray
    scale: np.ndarray
    zero_point: np.ndarray
    axis: int | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.integers.shape

    def along_axis(self, values: np.ndarray) -> np.ndarray:
        """Scales or zero points in the shape that broadcasts against `integers`."""
        if self.axis is None:
            return values
        return values.reshape([-1 if axis == self.axis else 1 for axis in range(self.integers.ndim)])

    def centred(self) -> np.ndarray:
        """integers - zero_point, as int64; int8 ones around zero as they are, since weights may be many."""
        if self.integers.dtype == np.int8 and not self.zero_point.any():
            return self.integers
        return self.integers.astype(np.int64) - self.along_axis(self.zero_point)

    def real(self) -> np.ndarray:
        """The float32 values, as DequantizeLinear gives them."""
        return (self.centred().astype(np.float32) * self.along_axis(self.scale)).astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatInput:
    """A float input of the model before its QuantizeLinear, transposed by `permutation` and then seen as
    `shape`."""

    name: str
    declared: tuple[int, ...]
    permutation: tuple[int, ...] | None
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Integer:
    """A quantized tensor as ONNX sees it: in `shape`, the elements of the tensor's own (N, C, H, W) in their order, or
    where `view` says (`onnx_views`)."""

    tensor: str
    shape: tuple[int, ...]
    dtype: ActivationType
    view: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Real:
    """A quantized tensor behind DequantizeLinear; `shape` and `view` as of `Integer`."""

    tensor: str
    shape: tuple[int, ...]
    quantization: Quantization
    view: np.ndarray | None = None


Bias = Constant | QuantizedConstant | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Product:
    """A convolution or matrix product; `weight` int8 (O, C / groups, kh, kw), `weight_scale` float32 (O,)."""

    data: Real
    weight: np.ndarray
    weight_scale: np.ndarray
    bias: Bias
    window: Window
    groups: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Maximum:
    """A maximum over windows: its result lies on the grid of its input."""

    data: Real
    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Average:
    """An average over windows; `pads` are the declared ones, those of `window` have ceil_mode worked in."""

    data: Real
    window: Window
    pads: Pads = (0, 0, 0, 0)
    count_include_pad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairwise:
    """A sum or product of two tensors of one shape."""

    kind: str
    a: Real
    b: Real


@dataclass(frozen=True, slots=True, kw_only=True)
class Same:
    """The input itself, to be clamped or rescaled."""

    data: Real


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Function:
    """Any function of one tensor, element by element: `values` float32 (256,) are those of its stored values."""

    data: Real
    values: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Channels of tensors: channel c is `sources`[c] = (part, channel)."""

    parts: tuple[Real, ...]
    sources: tuple[Pair, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transposed:
    """A transposed convolution: `product` has its weights as (O, C, kh, kw), and its window the operator's pads."""

    product: Product


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moved:
    """Positions of tensors, see `int8_operators.Positions`; what `index` leaves out is 0, the result's zero point."""

    parts: tuple[Real, ...]
    index: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resampled:
    """Rows and columns between those of a tensor: of each the first of two neighbours, int64, and what the second one
    counts, float32; one and then the other."""

    data: Real
    rows: tuple[np.ndarray, np.ndarray]
    columns: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiplied:
    """Products of two tensors, see `int8_operators.Products`."""

    a: Real
    b: Real
    groups: tuple[Group, ...]
    rows: int
    columns: int
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shared:
    """Softmax over channels, with the table `entries` (None: that of the tensor's scale), or their normalization with
    `gain` and `offset`, float64 (C,): less their mean where `centre`."""

    data: Real
    gain: np.ndarray | None = None
    offset: np.ndarray | None = None
    centre: bool = False
    epsilon: float = 0.0
    entries: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Masked:
    """Scores, which grow by `step` with each stored value of `data`, and what a mask adds to them: 0 or less, of a
    shape that broadcasts against theirs. For a softmax alone."""

    data: Real
    step: float
    mask: np.ndarray | FloatInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Centred:
    """Rows less their mean; for a normalization alone."""

    data: Real


@dataclass(frozen=True, slots=True, kw_only=True)
class Squared:
    """The squares of `Centred`; for a normalization alone."""

    data: Real


Operation = (
    Product
    | Maximum
    | Average
    | Pairwise
    | Same
    | Function
    | Joined
    | Transposed
    | Moved
    | Resampled
    | Shared
    | Masked
    | Centred
    | Squared
    | Multiplied
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pending:
    """A float result that waits for its QuantizeLinear: `operation`, then a clamp to low..high in real
    numbers.

    `natural` is the shape of the tensor to come, (N, C, H, W) or (N, K); `shape` and `view` as of `Integer`.
    """

    name: str
    members: tuple[str, ...]
    operation: Operation
    natural: tuple[int, ...]
    shape: tuple[int, ...]
    low: float = -np.inf
    high: float = np.inf
    view: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Statistic:
    """A number for each row of a tensor, the last axis of `data`, that is never computed by itself: (its mean, or that
    of its squares, less their own mean before where `centre`, + `epsilon`) ** `power`."""

    data: Real
    moment: Literal["mean", "square"]
    centre: bool = False
    epsilon: float = 0.0
    power: float = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """That of `data` with a last axis of 1."""
        return (*self.data.shape[:-1], 1)


Value = Constant | QuantizedConstant | FloatInput | Integer | Real | Pending | Statistic
