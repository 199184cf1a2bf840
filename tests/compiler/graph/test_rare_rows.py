"""Lazy imports: source files of rare operators are imported only for models that have these operators."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from float_networks import FloatNetwork

PACKAGE = "vdla.compiler.frontends.onnx."
IMPORT = """
import sys
from {package}{module} import {function}
{function}(open(sys.argv[1], "rb").read())
print(*(name.removeprefix("{package}") for name in sys.modules if name.startswith("{package}")))
"""


def imported(folder: Path, model: bytes, module: str, function: str) -> set[str]:
    """The source files of `compiler/frontends/onnx` that a new process imports when it imports `model` by `function` of
    `module`.
    """
    (folder / "model.onnx").write_bytes(model)
    program = IMPORT.format(package=PACKAGE, module=module, function=function)
    made = subprocess.run(
        [sys.executable, "-c", program, folder / "model.onnx"], check=True, capture_output=True, text=True
    )
    return set(made.stdout.split())


def test_a_quantized_convolution_imports_no_files_of_rare_operators(tmp_path: Path) -> None:
    files = imported(tmp_path, convolution(), "integer_importer", "import_model")
    rare = (
        "activation_products batch_normalization dense integer_moves masks norms pools rearrangement resampling "
        "resize rows tables transposed"
    )
    assert files.isdisjoint(f"operators.{name}" for name in rare.split())
    assert files.isdisjoint({"lines", "model.inference", "model.qlinear", "model.sizes"})
    assert {f"operators.{name}" for name in ("window_attributes", "products", "quantization")} <= files


@pytest.mark.parametrize(
    ("operator", "file"), [("Conv", "operators.window_attributes"), ("Relu", "float_operators.pointwise")]
)
def test_a_float_operator_imports_no_files_of_rare_operators(
    operator: str, file: str, tmp_path: Path
) -> None:
    net = FloatNetwork(1, 4, 6, 6)
    if operator == "Conv":
        net.convolution(3, (3, 3))
    else:
        net.add(operator)
    files = imported(tmp_path, net.model(), "float_importer", "import_float_model")
    floating = "control functions halves matrix_products plain_windows quantization recurrent"
    assert file in files
    assert files.isdisjoint(f"float_operators.{name}" for name in floating.split())
    shared = "pools rearrangement resize transposed"
    assert files.isdisjoint(f"operators.{name}" for name in shared.split())
    assert files.isdisjoint({"check_scales", "model.qlinear", "model.sizes", "steps"})


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
