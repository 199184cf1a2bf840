"""Output of `vdla run` for networks that run kernel by kernel, on any device: inputs, outputs, times, and the check."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from vdla.util.errors import UserError

from ..report.console import PlainConsole
from ..verdict import Compared
from .output import Steps, end_failed

if TYPE_CHECKING:
    from vdla.compiler.runtime.executable import Executable

    from ..output_check import OutputCheck


@contextmanager
def enough_memory(path: Path) -> Iterator[None]:
    """A context that raises MachineMemoryError, which names the model `path`, if the code in the `with` block runs out
    of memory. Another exception may follow the MemoryError (zipfile raises ValueError when it then closes a file); it
    is replaced as well.
    """
    try:
        yield
    except (MemoryError, ValueError) as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, MemoryError):
            cause = cause.__context__
        if cause is None:
            raise
        from vdla.compiler.codegen.cpu.errors import MachineMemoryError

        raise MachineMemoryError(
            f"{path}: this process cannot allocate memory for all arrays of a run; run the network on a machine "
            "with more memory, or export the model for smaller inputs"
        ) from None


def network_inputs(
    network: Executable, path: Path | None, model: Path | None = None
) -> Mapping[str, np.ndarray]:
    """The input arrays of a network: from the file `path` or, if `path` is None, seeded samples. If an input holds
    indices into look-up tables of `model`, its samples are valid indices.
    """
    if path is not None:
        from vdla.compiler.codegen.cpu.errors import KernelArgumentError
        from vdla.compiler.runtime.network_inputs import check_inputs

        from ..evaluate import load_arrays

        try:
            return load_arrays(path, lambda headers: check_inputs(network.name, network.inputs, headers))
        except KernelArgumentError as error:
            # The network's errors name arrays, but not the file.
            raise UserError(f"{path}: {error}{_advice_on_weights(path, model)}") from None
    from ..samples import index_limits, sample_inputs

    return sample_inputs(network, {} if model is None else index_limits(model))


def _advice_on_weights(path: Path, model: Path | None) -> str:
    """A sentence of advice if the file `path` has arrays that are both weights and inputs of the model; else ""."""
    if model is None:
        return ""
    from vdla.compiler.frontends.onnx.model.read import read_model
    from vdla.util.npz import open_npz
    from vdla.util.user_files import read_whole

    graph = read_model(model).bare.graph
    weights = {tensor.name for tensor in graph.initializer} & {info.name for info in graph.input}
    with open_npz(read_whole(path, "inputs")) as stored:
        names = sorted(weights & set(stored.headers))
    if not names:
        return ""
    return (
        f"; {', '.join(names)} has a value in the model: give another one with --constant {names[0]}=VALUE,... or, in "
        f"Python, vdla.compile(constants={{'{names[0]}': ARRAY}})"
    )


def wall_milliseconds(run: Callable[[], object], repeat: int, progress: Steps) -> list[float]:
    """Wall-clock milliseconds of each of `repeat` calls of `run`; each call advances `progress`."""
    times: list[float] = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
        progress.advance()
    return times


def describe_times(times: Sequence[float]) -> dict[str, float]:
    """Median, least and largest of `times` (milliseconds of repeated runs), as JSON values."""
    return {"median": median(times), "least": min(times), "most": max(times)}


def times_text(times: Sequence[float]) -> str:
    """Median, least and largest of `times` (milliseconds of repeated runs), as text."""
    runs = "1 run" if len(times) == 1 else f"{len(times)} runs"
    return f"{median(times):.3f} ms in the median of {runs}, {min(times):.3f} to {max(times):.3f} ms"


def shapes(arrays: Mapping[str, np.ndarray]) -> list[dict[str, object]]:
    """Names, types and shapes of arrays for JSON, without values."""
    return [
        {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
        for name, array in arrays.items()
    ]


def print_outputs(console: PlainConsole, results: Mapping[str, np.ndarray]) -> None:
    """Prints one line for each output array of the network: name, dtype and shape."""
    for name, array in results.items():
        console.print(f"output {name}: {array.dtype} {list(array.shape)}")


def print_compiled(console: PlainConsole, seconds: float, cached: bool) -> None:
    """Prints the seconds of compiling the code, or of reading it from the cache."""
    where = "taken from the cache" if cached else "compiled"
    console.print(f"{where} in {seconds:.2f} s")


def print_verdict(console: PlainConsole, verdict: OutputCheck | None) -> None:
    """Prints the result of comparing the outputs with the reference, if they were compared."""
    if verdict is None:
        return
    error = verdict.max_relative_error
    largest = "not finite" if error is None else f"{error:.1e} of the largest value"
    top1 = "" if verdict.top1_equal is None else f", top-1 {'equal' if verdict.top1_equal else 'differs'}"
    because = f": {verdict.tolerance_because}" if verdict.tolerance_because else ""
    mode = "" if verdict.layer_steps is None else f"; layer by layer, {_layers(verdict)}"
    compared = Compared(outputs=verdict.compared.outputs)
    console.print(
        f"against {verdict.against}: largest difference {largest} in {compared} ({verdict.tolerance:.1e} "
        f"allowed{because}){top1}{mode}",
        soft_wrap=True,
    )


def _layers(verdict: OutputCheck) -> str:
    """A text that states the largest difference that the check found when it compared layer by layer."""
    return f"{verdict.layer_steps} steps in {verdict.compared} ({verdict.layer_tolerance} allowed)"


def end_checked(verdict: OutputCheck | None) -> None:
    """Ends the command with exit code 1 if the comparison `verdict` failed or compared nothing. If `verdict` is None,
    nothing happens.
    """
    if verdict is None or verdict.passed:
        return
    if not verdict.compared.anything:
        end_failed(
            f"nothing could be compared with {verdict.against}: the numbers of this run are not checked"
        )
    error = verdict.max_relative_error
    found = "are not comparable (one side is not finite, or all zeros)"
    if error is not None:
        found = f"differ by {error:.1e} of the largest value"
    end_failed(
        f"the outputs of this run and of {verdict.against} {found}; {verdict.tolerance:.1e} is allowed"
        + ("" if verdict.layer_steps is None else f"; layer by layer {_layers(verdict)}")
        + ": the numbers of this run are wrong"
    )
