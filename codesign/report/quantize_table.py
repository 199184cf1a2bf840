"""The quantization errors of a network: a table with one row for each layer, and a line of text for each output."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE
from rich.table import Table

from vdla.compiler.quantize.quantize import Quantized
from vdla.util.printable import printable


def error_table(model: str, quantized: Quantized) -> Table:
    """A table of scale, zero point, signal to quantization noise ratio and relative error of each layer, in order, with
    the title `model`.
    """
    table = Table(title=model, title_justify="left", box=SIMPLE, padding=(0, 1), collapse_padding=True)
    for heading in ("layer", "operator"):
        table.add_column(heading, no_wrap=True)
    for heading in ("scale", "zero point", "SQNR dB", "relative error"):
        table.add_column(heading, justify="right", no_wrap=True)
    for layer in quantized.layers:
        table.add_row(
            printable(layer.name)[-48:],
            layer.operator,
            f"{layer.quantization.scale:.4g}",
            str(layer.quantization.zero_point),
            _number(layer.error.sqnr, ".1f"),
            _number(layer.error.relative, ".2%"),
        )
    return table


def output_lines(quantized: Quantized) -> Iterator[str]:
    """Lines on the error of each output, and on the operators that stay float."""
    for name, error in quantized.outputs.items():
        top1 = "" if error.top1 is None else f", top-1 agrees on {error.top1:.1%} of {error.rows}"
        yield (
            f"output {name}: largest error {_number(error.relative_maximum, '.2%')} of the largest value, "
            f"SQNR {_number(error.sqnr, '.1f')} dB{top1}"
        )
    if quantized.float_operators:
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(quantized.float_operators.items()))
        yield f"stays float: {kinds}"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
