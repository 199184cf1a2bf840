"""`vdla compile --target vdla`: writes the accelerator program of a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vdla.isa.config import load_config
from vdla.isa.program_file import save_program
from vdla.util.user_files import check_destination, whole_directory

from .output import note, print_json, steps

if TYPE_CHECKING:
    from vdla.compiler.records.book import RecordBook


def compile_for_accelerator(
    model: Path,
    output: Path | None,
    *,
    config: str,
    dump_passes: Path | None,
    records: RecordBook | None,
    json: bool,
) -> None:
    """Writes the program of a quantized model, as `vdla run --program-out` does, to `output` (default: MODEL.vdla).

    `config`: a preset's name or a TOML file; `dump_passes`: folder for the program after each pass; `records`: tuning
    records to use; `json`: prints the result as JSON. Raises UserError.
    """
    machine = load_config(config)
    output = Path(f"{model.stem}.vdla") if output is None else output
    check_destination(output, inputs=(model,))
    from ..network_run import compile_network

    with whole_directory(dump_passes) as dumps, steps() as progress:
        progress.begin(f"compiling {model.name} for {machine.name}")
        compiled = compile_network(model, machine, dump_passes=dumps, records=records)
        save_program(compiled.program, output)
    size = output.stat().st_size
    instructions = len(compiled.program.instructions)
    if json:
        print_json(
            {
                "model": model.stem,
                "target": {"config": machine.name},
                "file": str(output),
                "files": [str(output)],
                "bytes": size,
                "layers": len(compiled.graph.nodes),
                "instructions": instructions,
                "compile_seconds": compiled.compile_seconds,
            }
        )
    else:
        note(
            f"wrote {output}: {model.stem} for {machine.name}, {len(compiled.graph.nodes)} layers, "
            f"{instructions:,} instructions, {size:,} bytes, compiled in {compiled.compile_seconds:.2f} s"
        )
