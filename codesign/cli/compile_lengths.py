"""`vdla compile --length`: writes one file for inputs of any length in a range."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.util.errors import UserError
from vdla.util.user_files import check_destination

from .output import note, print_json, steps

if TYPE_CHECKING:
    from vdla.compiler.backends.backend import CompileOptions
    from vdla.compiler.runtime.lengths import Lengths


def compile_for_lengths(
    model: Path,
    output: Path | None,
    options: CompileOptions,
    lengths: Lengths,
    *,
    pads: dict[str, float],
    tolerance: float | None,
    json: bool,
) -> None:
    """Compiles a model for all sizes of one symbolic dimension in the range `lengths`, and writes one archive for `vdla
    run` to `output` (default: MODEL.tar). `pads`: values by name of an input; the value fills the positions after the
    input's real tokens; `tolerance`: largest slowdown of any length against a program compiled for that length; `json`:
    prints the result as JSON. Raises UserError.
    """
    output = Path(f"{model.stem}.tar") if output is None else output
    if output.suffix in (".o", ".so"):
        raise UserError(
            f"{output}: a network for a range of lengths goes into a FILE.tar only; change the suffix to .tar"
        )
    check_destination(output, inputs=(model,))
    from vdla.compiler.backends.lengths import compile_lengths
    from vdla.compiler.backends.registry import backend_of
    from vdla.compiler.runtime.lengths_archive import save_lengths

    from ..network_run import advice_on_errors

    with steps() as progress, advice_on_errors(model) if options.target == "vdla" else nullcontext():
        progress.begin(f"compiling {model.name} for {lengths}")
        found = compile_lengths(
            model,
            backend_of(options.target),
            options,
            lengths,
            tolerance=tolerance,
            pads=pads,
            told=lambda length: progress.begin(f"compiling {model.name} for {lengths.symbol} {length}"),
        )
        with found:
            save_lengths(output, found)
    size, rungs = output.stat().st_size, [rung.length for rung in found.rungs]
    if json:
        print_json(
            {
                "model": model.stem,
                "target": options.target,
                "file": str(output),
                "files": [str(output)],
                "bytes": size,
                "symbol": lengths.symbol,
                "least": lengths.least,
                "most": lengths.most,
                "rungs": rungs,
                "cycles": [rung.cycles for rung in found.rungs],
                "compiled_lengths": found.compiled_lengths,
                "compile_seconds": found.compile_seconds,
            }
        )
        return
    programs = "1 program" if len(rungs) == 1 else f"{len(rungs)} programs"
    note(
        f"wrote {output}: {model.stem} for {lengths}, {programs}, {size:,} bytes, compiled in "
        f"{found.compile_seconds:.2f} s ({found.compiled_lengths} lengths tried)"
    )
