"""The page of supported operators, made from the importers' tables; run as a script, it writes the page anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vdla.compiler.graph import onnx_import, qlinear
from vdla.compiler.graph.floating import onnx_import as float_import

STANDARD_WRITERS = {name: qlinear.WRITERS[name] for name in ("QLinearConv", "QLinearMatMul")}
"""Operators on integers that are ONNX's own."""
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "operators.md"
BEGINNING = """# Supported operators

The importers' tables, as they are in this version; a test compares.

Quantized networks have QuantizeLinear and DequantizeLinear, or operators on integers. They run on processors and GPUs,
and on the accelerator, whose configuration may lack an extension that a node needs. All else runs on processors and
GPUs, and `--target vdla,llvm` divides a network between both. A node of constants alone is computed when the network is
compiled, whatever its operator.

An operator without a row that ONNX defines as a function of others is expanded. A node with an attribute that its row
does not name is refused, unless the attribute has its default value.

"""


def page() -> str:
    """The text of the page."""
    integer = (onnx_import.OPERATORS, onnx_import.WAYS, onnx_import.FUNCTIONS)
    floating = (float_import.CONTROL, float_import.OPERATORS, float_import.BODIES)
    floating = (*floating, float_import.OTHERWISE, float_import.PLAIN)
    parts = [
        BEGINNING,
        _table("ONNX", (*integer, STANDARD_WRITERS), (*floating, STANDARD_WRITERS)),
        _table(
            "ONNX Runtime (com.microsoft)",
            (qlinear.WRITERS,),
            (qlinear.WRITERS, float_import.CONTRIBUTED_BODIES),
        ),
    ]
    return "\n".join(parts)


def _table(
    title: str, quantized: tuple[Mapping[str, Any], ...], others: tuple[Mapping[str, Any], ...]
) -> str:
    lines = [
        f"## {title}",
        "",
        "| operator | in quantized networks | in others | attributes |",
        "|---|---|---|---|",
    ]
    for name in sorted({name for table in (*quantized, *others) for name in table}):
        marks = ["yes" if any(name in table for table in tables) else "" for tables in (quantized, others)]
        names: set[str] = set()
        for table in (*quantized, *others):
            entry = table.get(name, ())
            for row in entry if isinstance(entry, tuple) else (entry,):
                names |= (row.reads or set()) | row.idle
        lines.append(f"| {name} | {marks[0]} | {marks[1]} | {', '.join(sorted(names))} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
