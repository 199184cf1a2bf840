"""One small convolution in every stage of the accelerator's back end, as text; run this file to rewrite the golden
texts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vdla.compiler.graph.graph import Graph, GraphInput, GraphOutput, Node, quantized_tensor
from vdla.compiler.graph.int8_convolution import Int8Convolution, Quantization
from vdla.compiler.ir.printer import format_node
from vdla.compiler.ir.stmt import Program
from vdla.compiler.ir.types import DType
from vdla.compiler.passes.pipeline import run_pipeline
from vdla.compiler.pipeline import compile_program
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.post import Post
from vdla.compiler.templates.vdla.conv2d import CONV2D
from vdla.compiler.templates.vdla.lower import pipeline
from vdla.compiler.templates.vdla.template import Details
from vdla.compiler.templates.vdla.workload import windowed
from vdla.isa.assembler import disassemble
from vdla.isa.config import load_config

GOLDEN = Path(__file__).parents[1] / "compiler" / "passes" / "golden"
WINDOW = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
POST = Post(zero_point=-3, low=-3)


def ir_programs() -> dict[str, Program]:
    """The loop programs of the convolution by stage: tensor expression, scheduled, and after each pass."""
    config = load_config("tiny")
    workload = windowed("conv2d", (1, 16, 6, 5), 8, WINDOW)
    expression = CONV2D.expression(config, workload, Details(post=POST, pad_value=-7))
    knobs = {
        "output_blocks": 1,
        "rows": 4,
        "columns": 5,
        "reduction_blocks": 2,
        "window_rows": 3,
        "window_columns": 3,
        "order": 0,
        "data_level": 0,
        "weights_level": 0,
        "data_copies": 2,
        "weights_copies": 2,
        "sums_copies": 2,
    }
    programs = {
        "expression": expression.program,
        "scheduled": CONV2D.schedule(config, workload, expression, knobs).program,
    }
    program = programs["scheduled"]
    for item in pipeline(config, CONV2D.copies_by_scope(knobs, 2)):
        program = programs[item.name] = run_pipeline(program, (item,))
    return programs


def graph() -> Graph:
    """The convolution of `ir_programs`, but with 8 input channels instead of 16, as an integer graph."""
    quantization = Quantization(scale=np.float32(0.5), zero_point=-7, dtype="int8")
    rng = np.random.default_rng(0)
    operator = Int8Convolution(
        weight=rng.integers(-127, 128, (8, 8, 3, 3), dtype=np.int8),
        bias=np.arange(8, dtype=np.int32),
        scale=np.full(8, 0.001, np.float32),
        window=WINDOW,
        pad_value=-7,
        post=POST,
    )
    node = Node(name="conv", members=("conv",), operator=operator, inputs=("x",), output="y")
    tensors = {name: quantized_tensor(name, (1, 8, 6, 5), quantization) for name in "xy"}
    return Graph(
        name="golden",
        inputs=(GraphInput(name="x", tensor="x", shape=(1, 8, 6, 5), dtype=DType.INT8),),
        outputs=(
            GraphOutput(
                name="y", tensor="y", shape=(1, 8, 6, 5), dtype=DType.INT8, quantization=quantization
            ),
        ),
        nodes=(node,),
        tensors=tensors,
    )


def program_stages() -> dict[str, str]:
    """The disassembled instructions of the compiled convolution `graph()`, with their dependence flags; by the name of
    the stage.
    """
    compiled = compile_program(graph(), load_config("tiny"))
    return {"instructions": disassemble(compiled.program.instructions, compiled.program.config)}


def stages() -> dict[str, str]:
    """All golden texts, by name of the stage."""
    texts = {name: format_node(program) + "\n" for name, program in ir_programs().items()}
    return {**texts, **program_stages()}


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, text in stages().items():
        (GOLDEN / f"{name}.txt").write_text(text, encoding="utf-8")
