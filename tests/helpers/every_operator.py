"""A small tensor program for every operator, inputs for it, and its results in the interpreter."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from vdla.compiler.ir.expr import Buffer
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.regions import write_regions
from vdla.compiler.ir.replace_buffers import replace_buffers
from vdla.compiler.ir.stmt import Alloc, Program, Seq
from vdla.compiler.ir.types import DType
from vdla.compiler.te.blocks import Blocks, Window
from vdla.compiler.te.combination import Combination
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.ops.blocked_convolution import (
    FloatSums,
    QuantizedSums,
    blocked_convolution,
    blocked_depthwise,
)
from vdla.compiler.te.ops.conv2d import conv2d
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.depthwise import depthwise_conv2d
from vdla.compiler.te.ops.float_elementwise import float_elementwise
from vdla.compiler.te.ops.float_pool import float_pool
from vdla.compiler.te.ops.int8_pool import int8_average_pool, int8_max_pool
from vdla.compiler.te.ops.movement import concat, gather, pad_runs, permute, remap, slice_runs
from vdla.compiler.te.ops.normalization import Normalized, normalize
from vdla.compiler.te.ops.patch_conv2d import patch_conv2d
from vdla.compiler.te.ops.pointwise import reduced_windows
from vdla.compiler.te.ops.product import DOT_INT8, Matrices, product
from vdla.compiler.te.ops.quantization import load_activation, store_activation
from vdla.compiler.te.ops.recurrent import recurrent_steps
from vdla.compiler.te.ops.reduction import reduction
from vdla.compiler.te.ops.relayout import relayout
from vdla.compiler.te.ops.resize import resize
from vdla.compiler.te.ops.softmax import softmax
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.te.post import Post
from vdla.compiler.te.scalars import argument, exp
from vdla.isa.config import load_config

SAME = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
STRIDED = Window(kernel=(3, 2), strides=(2, 1), pads=(1, 0, 0, 1))
CLAMP = Post(zero_point=-3, low=-3)
ADD = Post(zero_point=1, combination=Combination(kind="add", ratio_self=0.7, ratio_operand=1.1, offset=4.5))
BLOCKED = {"batch": 1, "channels": 5, "height": 4, "width": 3}


@cache
def programs() -> dict[str, Program]:
    """Small tensor programs by name, at least one for every operator."""
    tiny = Blocks.of(load_config("tiny"))
    vectors = {"blocks": tiny, "sizes": (1, 5, 4, 3)}
    act = {"batch": 1, "channels": 5, "plane": 6, "block": 4, "scale": 0.1, "zero_point": 2}
    return {
        "dense": product(
            Matrices(rows=5, depth=7, columns=11),
            epilogue=Epilogue(bias=True, operand=True, activation="relu"),
        ),
        "dense of one row": product(Matrices(rows=1, depth=5, columns=12)),
        "dense_int8": product(Matrices(rows=3, depth=8, columns=10), types=DOT_INT8),
        "matmul": product(Matrices(rows=3, depth=4, columns=9, batch_x=(2,), batch_w=(2,))),
        "matmul, transposed": product(
            Matrices(rows=3, depth=4, columns=9, batch_x=(2,), batch_w=(1,), transposed_w=True)
        ),
        "convolution": blocked_convolution(
            Convolution(**{**BLOCKED, "channels": 4}, filters=8, window=SAME), block_in=2, block_out=4
        ),
        "convolution, strided": blocked_convolution(
            Convolution(batch=2, channels=4, height=5, width=4, filters=6, window=STRIDED, groups=2),
            block_in=1,
            block_out=4,
            sums=FloatSums(epilogue=Epilogue(bias=True)),
        ),
        "depthwise": blocked_depthwise(Convolution(**BLOCKED, filters=5, window=SAME, groups=5), block=4),
        "transposed": blocked_convolution(
            Convolution(
                batch=1,
                channels=2,
                height=2,
                width=3,
                filters=4,
                window=Window(kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
                transposed=True,
            ),
            block_in=2,
            block_out=4,
        ),
        "max-pool": float_pool((2, 5, 6, 4), replace(SAME, strides=(2, 2)), "max"),
        "average pool": float_pool((2, 4, 9, 1), Window(kernel=(2, 2)), "average"),
        "sum": reduction((3, 4, 10), (1,), "sum"),
        "mean of rows": reduction((3, 19), (1,), "mean", width=4),
        "maximum of all": reduction((3, 4), (0, 1), "max"),
        "softmax": softmax((3, 13), -1, width=4),
        "softmax of columns": softmax((2, 5, 7), 1, width=4),
        "normalization": normalize(Normalized(outer=2, channels=2, size=13, epsilon=1e-5), width=4),
        "element-wise": float_elementwise([(3, 4, 9), (1, 4, 1)], exp(argument(0)) + argument(1)),
        "permutation": permute((3, 5, 9), (2, 0, 1)),
        "concatenation": concat([(3, 4), (3, 5)], 1),
        "remap": remap((5, 8), [pad_runs(5, 1, 2), slice_runs(7, 4, -2)]),
        "gather": gather((5, 9), 0, 3),
        "relayout": relayout(batch=1, channels=5, plane=6, block_in=1, block_out=4),
        "resize": resize(outer=2, height=3, width=4, lanes=1, outputs=(5, 7), mode="linear"),
        "lstm": recurrent_steps(cell="LSTM", steps=2, batch=2, hidden=5),
        "rnn": recurrent_steps(cell="RNN", steps=2, batch=2, hidden=5),
        "gru": recurrent_steps(cell="GRU", steps=2, batch=2, hidden=5),
        "gru_reset_after": recurrent_steps(cell="GRU, reset after", steps=2, batch=2, hidden=5),
        "int8 convolution": blocked_convolution(
            Convolution(batch=1, channels=4, height=3, width=4, filters=8, window=SAME),
            block_in=2,
            block_out=4,
            sums=QuantizedSums(pad_value=7, post=CLAMP),
        ),
        "int8 depthwise": blocked_depthwise(
            Convolution(batch=1, channels=8, height=3, width=4, filters=8, window=SAME, groups=8),
            block=4,
            sums=QuantizedSums(pad_value=7, post=ADD),
        ),
        "int8 max-pool": int8_max_pool((2, 4, 4, 4), Window(kernel=(2, 2), strides=(2, 2))),
        "int8 average pool": int8_average_pool(
            (2, 4, 4, 4), Window(kernel=(2, 2)), pad_value=3, bias=2, post=Post(zero_point=1)
        ),
        "storing int8": store_activation(**act, dtype=DType.INT8),
        "loading int8": load_activation(**act, dtype=DType.INT8),
        "vdla convolution": conv2d(
            blocks=tiny, convolution=Convolution(**BLOCKED, filters=6, window=STRIDED), pad_value=5, post=ADD
        ),
        "vdla depthwise": depthwise_conv2d(
            blocks=tiny,
            convolution=Convolution(**BLOCKED, filters=5, groups=5, window=STRIDED),
            pad_value=5,
            post=CLAMP,
        ),
        "vdla max-pool": reduced_windows(**vectors, window=STRIDED, post=CLAMP, pad_value=-128),
        "vdla average pool": reduced_windows(**vectors, window=STRIDED, pool="add", post=CLAMP),
        "vdla element-wise": reduced_windows(**vectors, window=Window(kernel=(1, 1)), post=ADD),
        "vdla patches": patch_conv2d(
            blocks=tiny,
            convolution=Convolution(**{**BLOCKED, "channels": 3}, filters=5, window=STRIDED),
            pad_value=5,
            post=CLAMP,
        ),
        "sum without a consumer": without_consumer(product(Matrices(rows=5, depth=6, columns=9))),
    }


def without_consumer(program: Program) -> Program:
    """The matrix product `program` without its last statement, which processes the sums. The new program makes the sums
    directly in the output.
    """
    match program.body:
        case Alloc(buffer=total, body=Seq(statements=(summed, _))):
            body = replace_buffers(summed, {total.name: program.parameters[-1]})
            return Program(name="plain", parameters=program.parameters, body=body)
    raise AssertionError


def outputs_of(program: Program) -> set[str]:
    return {buffer.name for buffer in write_regions(program.body)}


def arrays_of(program: Program) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)

    def values(p: Buffer) -> np.ndarray:
        if p.dtype.is_integer:
            low, high = p.dtype.limits if p.dtype.bits == 8 else (0, 2)
            return rng.integers(low, high + 1, p.shape).astype(p.dtype.numpy)
        # Eighths: sums of a few products are exact, so that any order gives the same float32.
        return (rng.integers(-8, 9, p.shape) / 8).astype(np.float32)

    return {p.name: values(p) for p in program.parameters if p.name not in outputs_of(program)}


@cache
def expected(name: str) -> dict[str, np.ndarray]:
    program = programs()[name]
    found = interpret(program, arrays_of(program), functions=FUNCTIONS)
    return {output: found[output] for output in outputs_of(program)}
