"""The page of supported operators, generated from the operator tables; run as a script, it writes the page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from vdla.compiler.frontends.onnx.operator_rows import Kind
from vdla.compiler.frontends.onnx.table import ROWS, operators
from vdla.compiler.frontends.tflite.rows import ROWS as TFLITE

FLOAT: tuple[Kind, ...] = ("float", "either", "both", "plain", "steps", "contributed", "control", "integers")
STANDARD = ("QLinearConv", "QLinearMatMul")
"""Operators that exist in ONNX's own domain as well as in ONNX Runtime's."""
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "operators.md"
BEGINNING = """# Supported operators

The operators that this version supports. A test compares this page with the table in the code.

Quantized networks have QuantizeLinear and DequantizeLinear, or operators on integers. They run on processors and GPUs,
and on the accelerator, whose configuration may lack an extension that a node needs. All else runs on processors and
GPUs, and `--target vdla,llvm` divides a network between both. A node of constants alone is computed when the network is
compiled, whatever its operator.

An operator without a row that ONNX defines as a function of others is expanded. A node with an attribute that its row
does not name is refused, unless the attribute has its default value.

"""


def page() -> str:
    """The text of the generated page of supported operators."""
    contributed = set(operators("integers", "contributed"))
    plain = set(operators("quantized", *FLOAT)) - contributed
    parts = [
        BEGINNING,
        _table("ONNX", {*plain, *STANDARD}),
        _table("ONNX Runtime (com.microsoft)", contributed),
        _tflite(),
    ]
    return "\n".join(parts)


def _tflite() -> str:
    return "\n".join(
        [
            "## TensorFlow Lite",
            "",
            "Operators of `.tflite` files, which become operators of ONNX, with their fused activations:",
            f"{', '.join(sorted(TFLITE))}.",
            "",
        ]
    )


def _table(title: str, names: Iterable[str]) -> str:
    lines = [
        f"## {title}",
        "",
        "| operator | in quantized networks | in others | attributes |",
        "|---|---|---|---|",
    ]
    for name in sorted(names):
        rows = ROWS[name]
        quantized = any(row.kind in ("quantized", "either", "both", "integers") for row in rows)
        others = any(row.kind in FLOAT for row in rows)
        marks = ["yes" if mark else "" for mark in (quantized, others)]
        attributes = {attribute for row in rows for attribute in (row.reads or set()) | row.idle}
        lines.append(f"| {name} | {marks[0]} | {marks[1]} | {', '.join(sorted(attributes))} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
