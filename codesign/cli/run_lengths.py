"""`vdla run` for a file that was compiled for a range of lengths: one inference with inputs of any length in the range,
then as many timed inferences as --repeat says.
"""

from __future__ import annotations

from pathlib import Path

import typer

from vdla.util.errors import UserError
from vdla.util.files import write_whole
from vdla.util.user_files import check_destination

from .options import was_given
from .output import print_json, steps, text_console
from .results import describe_times, print_outputs, shapes, times_text, wall_milliseconds
from .run_options import RunOptions

TAKEN = ("model", "inputs", "outputs", "repeat", "threads", "json")
"""Parameters of `vdla run` that apply to files for a range of lengths."""


def run_lengths(context: typer.Context, path: Path, options: RunOptions) -> None:
    """Runs the network in the archive `path` on the arrays of a file, or on seeded samples of the greatest length.
    Raises UserError, also if the command line has an option that is not in `TAKEN`.
    """
    for name in context.params:
        if was_given(context, name) and name not in TAKEN:
            option = "--" + name.replace("_", "-")
            raise UserError(
                f"{option}: {path} is compiled already, for a range of lengths; leave {option} out"
            )
    check_destination(options.outputs, inputs=(path, options.inputs))
    from vdla.compiler.backends.lengths import load_lengths

    from ..evaluate import load_arrays
    from ..network_run import npz_bytes
    from ..samples import sample_inputs

    with steps() as progress:
        progress.begin(f"loading {path.name}")
        with load_lengths(path) as network:
            if options.inputs is None:
                arrays = sample_inputs(network)
            else:
                try:
                    arrays = load_arrays(options.inputs, network.length)
                except UserError as error:
                    raise UserError(_naming(options.inputs, str(error))) from None
            length = network.length(arrays)
            rung = network.rung(length)
            if rung.cycles is not None and was_given(context, "threads"):
                raise UserError(
                    f"{path} is for {network.target}, and --threads is for processors; leave --threads out"
                )
            given = {} if rung.cycles is not None else {"threads": options.threads}
            progress.begin("running", total=options.repeat)
            results = network.run(arrays, **given)
            wall = wall_milliseconds(lambda: network.run(arrays, **given), options.repeat, progress)
    if options.outputs is not None:
        write_whole(options.outputs, npz_bytes(results))
    if options.json:
        print_json(
            {
                "model": network.name,
                "target": network.target,
                "symbol": network.lengths.symbol,
                "length": length,
                "rung": rung.length,
                "cycles": rung.cycles,
                "milliseconds": describe_times(wall),
                "inputs": shapes(arrays),
                "outputs": shapes(results),
            }
        )
        return
    console = text_console()
    where = f"{network.name} on {network.target}, {network.lengths.symbol} {length} as {rung.length}"
    if rung.cycles is not None:
        console.print(f"{where}: {rung.cycles:,} cycles")
    else:
        console.print(f"{where}: {times_text(wall)}")
    print_outputs(console, results)


def _naming(path: Path, message: str) -> str:
    return message if str(path) in message else f"{path}: {message}"
