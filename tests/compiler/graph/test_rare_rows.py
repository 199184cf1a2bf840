"""Lazy imports: source files of rare operators are imported only for models that have these operators."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from float_networks import FloatNetwork

IMPORT = """
import sys
from vdla.compiler.graph.{module} import {function}
{function}(open(sys.argv[1], "rb").read())
print(*(name.rsplit(".", 1)[1] for name in sys.modules if name.startswith("vdla.compiler.graph.")))
"""


def imported(folder: Path, model: bytes, module: str, function: str) -> set[str]:
    """The source files of `compiler/graph` that a new process imports when it imports `model` by `function` of
    `module`.
    """
    (folder / "model.onnx").write_bytes(model)
    program = IMPORT.format(module=module, function=function)
    made = subprocess.run(
        [sys.executable, "-c", program, folder / "model.onnx"], check=True, capture_output=True, text=True
    )
    return set(made.stdout.split())


def test_a_quantized_convolution_imports_no_files_of_rare_operators(tmp_path: Path) -> None:
    files = imported(tmp_path, convolution(), "onnx_import", "import_model")
    rare = (
        "activation_products batch_normalization dense inference integer_moves lines masks norms pools "
        "rearrangement resampling resize rows sizes tables transposed"
    )
    assert files.isdisjoint({*(f"onnx_{name}" for name in rare.split()), "qlinear"})
    assert {"onnx_window_attributes", "onnx_products", "onnx_quantization"} <= files


@pytest.mark.parametrize(
    ("operator", "file"), [("Conv", "onnx_window_attributes"), ("Relu", "onnx_pointwise")]
)
def test_a_float_operator_imports_no_files_of_rare_operators(
    operator: str, file: str, tmp_path: Path
) -> None:
    net = FloatNetwork(1, 4, 6, 6)
    if operator == "Conv":
        net.convolution(3, (3, 3))
    else:
        net.add(operator)
    files = imported(tmp_path, net.model(), "floating.onnx_import", "import_float_model")
    rare = (
        "control functions halves matrix_products plain_windows pools quantization rearrangement recurrent "
        "resize sizes steps transposed"
    )
    assert file in files
    assert files.isdisjoint({*(f"onnx_{name}" for name in rare.split()), "qlinear", "check_scales"})


def convolution() -> bytes:
    """The bytes of a model of a quantized convolution (QDQ)."""
    net = FloatNetwork(1, 4, 6, 6, opset=21)
    grid = [net.constant(np.float32(0.05)), net.constant(np.int8(0))]
    net.add("QuantizeLinear", *grid)
    data = net.add("DequantizeLinear", *grid)
    weights = net.add("DequantizeLinear", inputs=[net.constant(np.ones((3, 4, 3, 3), np.int8)), *grid])
    net.add("Conv", inputs=[data, weights])
    net.add("QuantizeLinear", *grid)
    net.add("DequantizeLinear", *grid)
    net.shape = (1, 3, 4, 4)
    return net.model()
