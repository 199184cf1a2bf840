"""Makes workloads from workload names. A name contains the label of a layer in the papers (`named_layers`), or an
operator and its sizes (`FORMS`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType

from vdla.compiler.codegen.cpu.machine import CpuTarget
from vdla.compiler.ir.expr import Expr, maximum
from vdla.compiler.ir.types import DType
from vdla.compiler.rewrites.floating.assign_layouts import channel_block
from vdla.compiler.te import scalars
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.merge import merge_broadcast
from vdla.compiler.te.ops.blocked_convolution import blocked_convolution, blocked_depthwise
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.float_elementwise import float_elementwise
from vdla.compiler.te.ops.normalization import Normalized, normalize
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.te.ops.reduction import reduction
from vdla.compiler.te.ops.softmax import softmax
from vdla.compiler.templates.cpu.loops import row_partials
from vdla.compiler.templates.cpu.read_workload import workload_from_dict
from vdla.compiler.templates.cpu.workload import CpuWorkload, SketchCpu
from vdla.compiler.templates.vdla.read_workload import checked
from vdla.compiler.templates.vdla.workload import Workload, windowed
from vdla.compiler.templates.workload_limits import WorkloadError
from vdla.compiler.tune.measure.trial_cpu import MEMORY
from vdla.isa.config import Config
from vdla.util.errors import UserError

from .named_layers import CONVOLUTIONS, DEPTHWISE, same_window

FORMS = (
    "conv2d:NAME (C1 to C12), conv2d:SIZE,CHANNELS,FILTERS,KERNEL,STRIDE, depthwise:NAME (D1 to D9), "
    "depthwise:SIZE,CHANNELS,KERNEL,STRIDE, dense:ROWS,DEPTH,COLUMNS, or elementwise:OPERATION,SHAPE,... as in "
    "elementwise:add,64x56x56,64x1x1; on processors and GPUs also "
    "matmul:BATCH,ROWS,DEPTH,COLUMNS, conv_transpose:SIZE,CHANNELS,FILTERS,KERNEL,STRIDE, "
    "softmax:ROWS,SIZE, normalization:ROWS,SIZE or reduction:OUTER,SIZE,INNER (the sum over SIZE)"
)
"""The forms that the name of a workload may have, as text."""
_SIZES = {
    "conv2d": 5,
    "depthwise": 4,
    "dense": 3,
    "matmul": 4,
    "softmax": 2,
    "normalization": 2,
    "reduction": 3,
    "conv_transpose": 5,
}
"""Number of sizes in the name of a workload, by operator."""
EPSILON = 1e-5
"""Number that normalizations add to the variance: ONNX's default."""
MOST_STRIDE = 64
"""Largest stride of transposed convolutions, whose programs have a loop nest for each pair of remainders modulo the
stride.
"""
ELEMENTWISE = "elementwise:"
"""Prefix of the names of element-wise workloads."""
_SIZE = r"[1-9]\d{0,5}"
OPERATIONS: Mapping[str, tuple[int, Callable[..., Expr]]] = MappingProxyType(
    {
        "relu": (1, scalars.relu),
        "sigmoid": (1, scalars.sigmoid),
        "tanh": (1, scalars.tanh),
        "exp": (1, scalars.exp),
        "sqrt": (1, scalars.sqrt),
        "erf": (1, scalars.erf),
        "gelu": (1, scalars.gelu),
        "swish": (1, scalars.swish),
        "hard_swish": (1, scalars.hard_swish),
        "add": (2, lambda a, b: a + b),
        "subtract": (2, lambda a, b: a - b),
        "multiply": (2, lambda a, b: a * b),
        "divide": (2, scalars.divide),
        "maximum": (2, maximum),
    }
)
"""Element-wise operations by name: number of operands, and the function that makes the expression of one element."""


def accelerator_workload(text: str, config: Config) -> Workload:
    """The int8 workload that `text` names (`FORMS`; convolutions have batch 1 and SAME padding), for the template that
    `config` uses.

    Raises UserError for other texts, operators only for processors and GPUs, and sizes that no template supports.
    """
    try:
        return checked(_accelerator_workload(text, config))
    except WorkloadError as error:
        raise UserError(f"--workload {text}: {error}") from None


def _accelerator_workload(text: str, config: Config) -> Workload:
    if text.startswith(ELEMENTWISE):
        return _accelerator_elementwise(text)
    operator, sizes = parse_sizes(text)
    match operator:
        case "conv2d":
            size, channels, filters, kernel, stride = sizes
            # A first convolution of few channels reads the image unpacked, if the load unit supports that.
            patches = config.has("patch") and channels < config.block_in
            template = "patch_conv2d" if patches else "conv2d"
            window = same_window(size, kernel, stride)
            return windowed(template, (1, channels, size, size), filters, window)
        case "depthwise":
            size, channels, kernel, stride = sizes
            template = "depthwise_conv2d" if config.has("depthwise") else "conv2d"
            window = same_window(size, kernel, stride)
            return windowed(template, (1, channels, size, size), channels, window)
        case "dense":
            rows, depth, columns = sizes
            return Workload(template="conv2d", batch=rows, channels=depth, height=1, width=1, filters=columns)
        case _:
            raise UserError(f"--workload {text}: {operator} is for processors; add --target llvm")


def cpu_workload(text: str, target: CpuTarget) -> CpuWorkload:
    """The float32 workload that `text` names (`FORMS`; convolutions have batch 1 and SAME padding), in the layout of
    networks on `target`.

    Raises UserError for other texts and for workloads that cannot be measured, such as those that are too large.
    """
    if text.startswith(ELEMENTWISE):
        return _measurable(text, _elementwise(text))
    operator, sizes = parse_sizes(text)
    lanes = target.lanes(DType.FLOAT32)
    workload: CpuWorkload
    match operator:
        case "conv2d":
            size, channels, filters, kernel, stride = sizes
            window = same_window(size, kernel, stride)
            shape = Convolution(
                batch=1, channels=channels, height=size, width=size, filters=filters, window=window
            )
            program = blocked_convolution(
                shape.in_one_row(),
                # An input with few channels is an image, which is read unpacked.
                block_in=lanes if channels >= lanes else 1,
                block_out=channel_block(filters, lanes),
            )
            workload = SketchCpu(operator="conv2d", constants=("W",), expression=program)
        case "dense":
            rows, depth, columns = sizes
            of = Matrices(rows=rows, depth=depth, columns=columns)
            workload = SketchCpu(operator="dense", constants=("W",), expression=product(of))
        case _:
            workload = _without_knobs(text, operator, sizes, target)
            if (reason := workload.refusal()) is not None:
                raise UserError(f"--workload {text}: {reason}")
    return _measurable(text, workload)


def _measurable(text: str, workload: CpuWorkload) -> CpuWorkload:
    """Returns `workload`. Raises UserError if its sizes contradict each other, or if it is too large to be measured in
    a process.
    """
    try:
        parameters = workload.program().parameters
    except ValueError as error:
        raise UserError(f"--workload {text}: {error}") from None
    size = sum(prod(parameter.shape) for parameter in parameters) * DType.FLOAT32.bits // 8
    if size > MEMORY // 2:
        raise UserError(
            f"--workload {text}: its tensors take {size:,} bytes, and a measuring process has {MEMORY:,} for them "
            "and for the results that it compares; name a smaller workload"
        )
    try:
        return workload_from_dict(workload.to_dict())  # The same check as in the process that measures.
    except WorkloadError as error:
        raise UserError(f"--workload {text}: {error}") from None


def _without_knobs(text: str, operator: str, sizes: tuple[int, ...], target: CpuTarget) -> SketchCpu:
    """The workload of a single node with the given sizes, for operators that have no hand-written template. (A
    generator derives the schedules of these operators from their expressions.)
    """
    width, lanes = row_partials(target), target.lanes(DType.FLOAT32)
    match operator:
        case "matmul":
            batch, rows, depth, columns = sizes
            of = Matrices(rows=rows, depth=depth, columns=columns, batch_x=(batch,), batch_w=(batch,))
            program = product(of, name="matmul")
            return SketchCpu(operator="matmul", expression=program)
        case "depthwise":
            size, channels, kernel, stride = sizes
            program = blocked_depthwise(
                Convolution(
                    batch=1,
                    channels=channels,
                    height=size,
                    width=size,
                    filters=channels,
                    groups=channels,
                    window=same_window(size, kernel, stride),
                ),
                block=channel_block(channels, lanes),
            )
            return SketchCpu(operator="depthwise", constants=("W",), expression=program)
        case "softmax":
            return SketchCpu(operator="softmax", expression=softmax(sizes, 1, width=width))
        case "normalization":
            rows, size = sizes
            program = normalize(Normalized(outer=rows, channels=1, size=size, epsilon=EPSILON), width=width)
            return SketchCpu(operator="normalization", constants=("S", "B"), expression=program)
        case "reduction":
            return SketchCpu(operator="reduction", expression=reduction(sizes, (1,), "sum", width=width))
        case _:
            size, channels, filters, kernel, stride = sizes
            window, padding = transposed_window(text, kernel, stride)
            program = blocked_convolution(
                Convolution(
                    batch=1,
                    channels=channels,
                    height=size,
                    width=size,
                    filters=filters,
                    window=window,
                    transposed=True,
                    output_padding=padding,
                ),
                block_in=lanes if channels >= lanes else 1,
                block_out=channel_block(filters, lanes),
            )
            return SketchCpu(operator="conv_transpose", constants=("W",), expression=program)


def transposed_window(text: str, kernel: int, stride: int) -> tuple[Window, tuple[int, int]]:
    """The window of a transposed convolution with SAME padding, and the number of outputs added at the end of each
    axis. The output has `stride` times as many elements along each axis as the input.

    Raises UserError, with the workload's name `text`, for strides above `MOST_STRIDE`.
    """
    if stride > MOST_STRIDE:
        raise UserError(
            f"--workload {text}: a stride of {stride} is more than {MOST_STRIDE}; choose a smaller one"
        )
    over, more = max(0, kernel - stride), max(0, stride - kernel)
    window = Window(
        kernel=(kernel, kernel),
        strides=(stride, stride),
        pads=(over // 2, over // 2, over - over // 2, over - over // 2),
    )
    return window, (more, more)


def _elementwise(text: str) -> SketchCpu:
    operation, shapes = parse_elementwise(text)
    _, function = OPERATIONS[operation]
    try:
        body = function(*(scalars.argument(i) for i in range(len(shapes))))
        program = float_elementwise(merge_broadcast(shapes)[1], body)
    except ValueError as error:
        raise UserError(f"--workload {text}: {error}") from None
    return SketchCpu(operator="elementwise", expression=program)


def _accelerator_elementwise(text: str) -> Workload:
    """The workload of an addition of two tensors of the same shape (channels, height, width), or of a relu of one
    tensor. Raises UserError for other operations.
    """
    operation, shapes = parse_elementwise(text)
    if operation not in ("add", "relu") or len({*shapes}) > 1 or len(shapes[0]) != 3:
        raise UserError(
            f"--workload {text}: on the accelerator, element-wise workloads are add and relu of tensors of one shape "
            "CHANNELSxHEIGHTxWIDTH, as in elementwise:add,64x56x56,64x56x56; give --target llvm for any other"
        )
    channels, height, width = shapes[0]
    return Workload(
        template="elementwise",
        batch=1,
        channels=channels,
        height=height,
        width=width,
        filters=channels,
        operand=operation == "add",
    )


def parse_elementwise(text: str) -> tuple[str, list[tuple[int, ...]]]:
    """The operation and the operands' shapes that the name of an element-wise workload contains. Raises UserError if
    `text` is no such name.
    """
    operation, *shapes = text.removeprefix(ELEMENTWISE).split(",")
    if operation not in OPERATIONS:
        raise UserError(
            f"--workload {text}: there is no operation {operation!r}; there are {', '.join(OPERATIONS)}"
        )
    count, _ = OPERATIONS[operation]
    if len(shapes) != count or not all(re.fullmatch(rf"{_SIZE}(x{_SIZE}){{0,5}}", shape) for shape in shapes):
        raise UserError(
            f"--workload {text}: {operation} takes {count} shape{'s' * (count > 1)} of up to six sizes, as in "
            f"{ELEMENTWISE}{operation}{',64x56x56' * count}"
        )
    return operation, [tuple(int(size) for size in shape.split("x")) for shape in shapes]


def parse_sizes(text: str) -> tuple[str, tuple[int, ...]]:
    """The operator and the sizes that a workload's name contains: "dense:1,512,64" gives dense and (1, 512, 64). If the
    name is that of a layer of the papers, such as "conv2d:C1", the sizes are that layer's. Raises UserError for any
    other `text`.
    """
    operator, _, rest = text.partition(":")
    if operator == "conv2d" and rest in CONVOLUTIONS:
        return operator, CONVOLUTIONS[rest]
    if operator == "depthwise" and rest in DEPTHWISE:
        size, channels, stride = DEPTHWISE[rest]
        return operator, (size, channels, 3, stride)
    wanted = _SIZES.get(operator)
    if wanted is not None and re.fullmatch(rf"{_SIZE}(,{_SIZE})*", rest):
        sizes = tuple(int(item) for item in rest.split(","))
        if len(sizes) == wanted:
            return operator, sizes
    raise UserError(f"--workload {text}: is not a workload; write {FORMS}")
