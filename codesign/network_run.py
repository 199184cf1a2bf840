"""Steps of `vdla run` on the accelerator: compiles one network, simulates it and checks its outputs."""

from __future__ import annotations

import functools
import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vdla.compiler import VIRTUAL_THREADS
from vdla.compiler.frontends.onnx.float_importer import import_float_model
from vdla.compiler.frontends.onnx.integer_context import QUANTIZE
from vdla.compiler.frontends.onnx.model.foreign_domains import is_qonnx
from vdla.compiler.frontends.onnx.model.read import is_quantized, read_model
from vdla.compiler.graph.abilities import Abilities
from vdla.compiler.graph.errors import InvalidModelError, ModelError, NodeError
from vdla.compiler.graph.graph import Graph
from vdla.compiler.pipeline import compile_program
from vdla.compiler.records.book import RecordBook
from vdla.compiler.runtime.accelerator import run as execute
from vdla.compiler.runtime.artifact import Compiled
from vdla.compiler.templates.vdla.lower import DoesNotFitError
from vdla.isa.config import Config, load_config
from vdla.sim import SimulationResult, simulate
from vdla.util.arguments import InputError
from vdla.util.errors import CodeError, LinesError, UserError
from vdla.verify.random_programs import random_program

from .evaluate import (
    INTERPRETER,
    Arrays,
    compare_layers,
    interpreter_outputs,
    join_launches,
    largest_difference,
    onnxruntime_outputs,
    reference_to_use,
    symmetric,
    top1_agrees,
)
from .report.cycle_breakdown import CheckAccount
from .verdict import LAYER_STEPS_TOLERANCE, NOTHING, STEPS_TOLERANCE, Compared, why_widened, widened

DIVIDE = "add --target vdla,llvm: the CPU then runs what the accelerator does not support"
"""Advice in error messages about a model with operators that the accelerator does not support."""
LOADING = "loading the simulator (compiled once after an installation: about a minute)"
"""Message shown while `load_simulator` runs."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulated:
    """The results of several launches (runs) of one program.

    `launches` has the outputs of each launch as the model declares them (empty dicts if nothing was computed).
    `simulation` is the result of the first launch; the timing of all launches is equal. `seconds` is the CPU time of
    that simulation on the host, on one thread, with compiled code already loaded.
    """

    launches: tuple[Arrays, ...]
    simulation: SimulationResult
    seconds: float

    @property
    def outputs(self) -> Arrays:
        """The outputs by name, of all launches (runs of the program), concatenated on the first axis."""
        return join_launches(self.launches)


def compile_network(
    path: Path,
    config: Config,
    *,
    virtual_threads: int = VIRTUAL_THREADS,
    dump_passes: Path | None = None,
    records: RecordBook | None = None,
) -> Compiled:
    """Compiles the model in file `path` for the accelerator, with tuning `records` if given; `dump_passes` is a folder
    for the program after each pass. Raises UserError, which names the file and, for a float model, says how to run it.
    """
    with advice_on_errors(path):
        return compile_program(
            path, config, virtual_threads=virtual_threads, dump_passes=dump_passes, records=records
        )


@contextmanager
def advice_on_errors(path: Path) -> Iterator[None]:
    """A context for compiling the model in the file `path` for the accelerator: UserErrors raised inside get the name
    of the file and advice on what to do, except for an invalid model (InvalidModelError) and a CodeError.
    """
    try:
        yield
    except (InvalidModelError, CodeError):
        # An invalid model fails on every target; and an illegal schedule of the compiler is a defect of the toolkit.
        raise
    except (NodeError, DoesNotFitError) as error:
        more = [f"or {DIVIDE}"] if _processors_take(path) else []
        raise _with_advice(path, error, more) from None
    except UserError as error:
        raise _with_advice(path, error, []) from None


def _with_advice(path: Path, error: UserError, more: list[str]) -> UserError:
    """`error` with the name of the model's file `path`, and with advice: `more`, and how to quantize a float model."""
    first, *rest = error.lines
    if str(path) not in first:
        first = f"{path}: {first}"
    if not any(QUANTIZE in line for line in error.lines) and not _is_quantized(path):
        more = [f"as it is a float32 model: {QUANTIZE}", *more]
    return LinesError([first, *rest, *more]) if rest else UserError("; ".join([first, *more]))


def _processors_take(path: Path) -> bool:
    """Whether a processor can run the whole model. If so, the model can also be partitioned between accelerator and
    processor.
    """
    try:
        import_float_model(path)
    except ModelError:
        return False
    return True


def _is_quantized(path: Path) -> bool:
    """Whether a model is quantized, in any form. For a file that is no model, the result is True, so that the error
    message does not advise to quantize the file.
    """
    try:
        read = read_model(path)
        return is_quantized(read) or any(is_qonnx(node.domain) for node in read.bare.graph.node)
    except ModelError:
        return True


def simulate_network(
    compiled: Compiled,
    launches: Sequence[Arrays],
    *,
    data: bool = True,
    where: str = "",
    on_launch: Callable[[], None] = lambda: None,
) -> Simulated:
    """Simulates `compiled` on the inputs of each launch (run of the program). With `data` False, simulates only the
    first launch, and only its timing. `on_launch` is called after each launch. Raises InputError, whose message begins
    with `where`, the source of the inputs.
    """
    outputs, first, seconds = [], None, 0.0
    for arrays in launches if data else launches[:1]:
        started = time.thread_time()
        try:
            result = execute(compiled, dict(arrays), data=data)
        except InputError as error:
            raise InputError(f"{where}: {error}" if where else str(error)) from None
        if first is None:
            first, seconds = result.simulation, time.thread_time() - started
        outputs.append(dict(result.outputs) if data else {})
        on_launch()
    assert first is not None
    return Simulated(launches=tuple(outputs), simulation=first, seconds=seconds)


@functools.cache
def load_simulator() -> None:
    """Loads the simulator's compiled code, so that the time of a later simulation does not include the loading.

    numba loads code from its cache at first use (and compiles it once after an installation, which takes about a
    minute). Therefore this function simulates a small random program.
    """
    program = random_program(load_config("tiny"), 0)
    simulate(program.config, program.instructions, program.image)


def check_run(
    compiled: Compiled, model: Path, launches: Sequence[Arrays], simulated: Simulated, wanted: str
) -> tuple[CheckAccount, str | None]:
    """Compares the outputs of every launch with our own interpreter, and with a reference.

    `wanted` is the reference: onnxruntime, interpreter or auto. Returns (verdict, reason). The reason is a text that
    says why auto chose the interpreter as the reference, None in all other cases. Raises RuntimeError if simulator and
    interpreter differ, which is a defect of the toolkit.
    """
    against, remark = reference_to_use(wanted, model)
    graph, abilities = compiled.graph, Abilities.of(compiled.program.config)
    own = [interpreter_outputs(graph, arrays) for arrays in launches]
    for number, (ours, theirs) in enumerate(zip(simulated.launches, own, strict=True)):
        difference = largest_difference(graph, ours, theirs)
        if difference:
            raise RuntimeError(
                f"launch {number}: the simulated outputs differ from the integer interpreter's by {difference} LSB; "
                "this is a defect of vdla"
            )
    if against != INTERPRETER and symmetric(graph):
        return _layers_checked(against, model, graph, launches, simulated, abilities), remark
    reference = own if against == INTERPRETER else onnxruntime_outputs(model, graph, launches)
    pairs = list(zip(simulated.launches, reference, strict=True))
    largest = max((largest_difference(graph, ours, theirs) for ours, theirs in pairs), default=0)
    tolerance, why = STEPS_TOLERANCE, ""
    if largest > tolerance and against != INTERPRETER:
        plain = onnxruntime_outputs(model, graph, launches, optimized=False)
        differs = max(largest_difference(graph, a, b) for a, b in zip(reference, plain, strict=True))
        if (wider := int(widened(tolerance, differs))) > tolerance:
            tolerance, why = wider, why_widened(differs, "LSB")
        if largest > tolerance:
            # Layers that multiply a difference can turn one rounding into many steps; therefore each layer is checked
            # alone.
            return _layers_checked(against, model, graph, launches, simulated, abilities, largest), remark
    verdict = CheckAccount(
        against=against,
        mode="end to end",
        images=_images(launches),
        max_lsb=largest,
        top1_equal=all(top1_agrees(graph, ours, theirs) for ours, theirs in pairs),
        tolerance=tolerance,
        tolerance_because=why,
        end_to_end_max_lsb=largest,
        compared=Compared(outputs=len(graph.outputs)) if pairs else NOTHING,
    )
    return verdict, remark


def _layers_checked(
    against: str,
    model: Path,
    graph: Graph,
    launches: Sequence[Arrays],
    simulated: Simulated,
    abilities: Abilities,
    end_to_end: int | None = None,
) -> CheckAccount:
    """The verdict of a check of each step alone (`evaluate.compare_layers`), together with the end-to-end difference of
    the outputs. `against`: name of the reference, for messages.

    `end_to_end` is the end-to-end difference if it is known; if it is None, the outputs are compared with those of ONNX
    Runtime without optimization.
    """
    found = compare_layers(model, launches, abilities=abilities)
    if end_to_end is None:
        pairs = zip(simulated.launches, found.outputs, strict=True)
        end_to_end = max((largest_difference(graph, ours, theirs) for ours, theirs in pairs), default=0)
    return CheckAccount(
        against=against,
        mode="layer by layer",
        images=_images(launches),
        max_lsb=found.largest,
        top1_equal=found.top1_equal,
        tolerance=LAYER_STEPS_TOLERANCE,
        end_to_end_max_lsb=end_to_end,
        compared=found.compared,
    )


def _images(launches: Sequence[Arrays]) -> int:
    return sum(next(iter(arrays.values())).shape[0] for arrays in launches)


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The arrays by name as the bytes of an npz file; the same arrays always give the same bytes."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **dict(arrays))
    return buffer.getvalue()
