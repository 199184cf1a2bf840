"""Compiles one scheduled tensor expression to a program of the accelerator; each run is one launch on the simulator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vdla.isa.config import Config
from vdla.isa.program import Program as MachineProgram
from vdla.isa.program import Segment
from vdla.isa.program_text import instructions_text
from vdla.sim import SimulationResult, simulate
from vdla.util.errors import UserError

from .. import VIRTUAL_THREADS
from ..codegen.vdla.errors import EmissionError
from ..codegen.vdla.link import buffer_bytes
from ..codegen.vdla.link_alone import Alone, link_alone
from ..codegen.vdla.machine import scratchpad_depths
from ..codegen.vdla.placement import PlacementError
from ..ir.regions import write_buffers
from ..ir.stmt import Program
from ..passes.pipeline import run_pipeline
from ..runtime.executable import Arrays, Port
from ..runtime.network_inputs import check_inputs, parameter_port
from ..runtime.readable import Readable, Texts
from ..schedule import LegalityError, Schedule
from ..templates.vdla.lower import pipeline


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class KernelExecutable(Readable):
    """A tensor expression compiled to an accelerator program. In the program's memory image each input and each output
    has a segment with the name of the input or output.
    """

    name: str
    program: MachineProgram
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """The outputs of one launch on the simulator, by name."""
        return self.launch(inputs)[1]

    def launch(self, inputs: Arrays | None = None) -> tuple[SimulationResult, dict[str, np.ndarray]]:
        """One launch on the simulator: its timing, and its outputs by name. Without `inputs` only timing is simulated,
        and the outputs are an empty dict.
        """
        memory = self.program.image.copy()
        if inputs is not None:
            check_inputs(self.name, self.inputs, inputs)
            for name, array in inputs.items():
                segment = self.program.segment(name)
                data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                memory[segment.address : segment.address + segment.size] = data
        result = simulate(self.program.config, self.program.instructions, memory, data=inputs is not None)
        outputs: dict[str, np.ndarray] = {}
        for port in self.outputs if result.memory is not None else ():
            segment = self.program.segment(port.name)
            assert result.memory is not None
            data = result.memory[segment.address : segment.address + segment.size]
            outputs[port.name] = data.view(port.dtype).reshape(port.shape).copy()
        return result, outputs

    def texts(self) -> Texts:
        """The instructions as text, grouped by layer if the program has layers."""
        return {"instructions": lambda: instructions_text(self.program)}


def _compile_alone(program: Program, config: Config, *, virtual_threads: int = VIRTUAL_THREADS) -> Alone:
    """Compiles a scheduled program to an accelerator program that runs in a single launch. In its memory image all
    parameters are zeros.

    `virtual_threads`: number of copies of each scratchpad buffer that are in use at the same time (2: double
    buffering). Raises LegalityError, EmissionError and PlacementError.
    """
    copies = dict.fromkeys(scratchpad_depths(config), virtual_threads)
    lowered = run_pipeline(program, pipeline(config, copies))
    return link_alone(config, lowered, {parameter.name for parameter in program.parameters})


def build_kernel(schedule: Schedule | Program, config: Config, virtual_threads: int) -> KernelExecutable:
    """Compiles a scheduled expression to an accelerator program that contains nothing else. Each innermost statement of
    the expression must be a copy into a scratchpad or an intrinsic; otherwise UserError is raised.

    `virtual_threads`: number of copies of each scratchpad buffer that are in use at the same time.
    """
    program = schedule.program if isinstance(schedule, Schedule) else schedule
    try:
        alone = _compile_alone(program, config, virtual_threads=virtual_threads)
    except (EmissionError, PlacementError, LegalityError) as error:
        raise UserError(
            f"{program.name}: {str(error).splitlines()[0]}; on the accelerator every product and store must be "
            "tensorized with an intrinsic, and must read buffers in scratchpads (`set_scope`, `cache_read`)"
        ) from None
    written = {buffer.name for buffer in write_buffers(program.body)}
    segments = [
        Segment(
            name=parameter.name,
            kind="output" if parameter.name in written else "input",
            address=alone.addresses[parameter.name],
            size=buffer_bytes(parameter),
        )
        for parameter in program.parameters
    ]
    ports = [parameter_port(parameter) for parameter in program.parameters]
    return KernelExecutable(
        name=program.name,
        program=MachineProgram(
            config=config,
            instructions=alone.instructions,
            image=alone.image,
            segments=tuple(segments),
            groups=(program.name,),
            group_of=np.zeros(len(alone.instructions), np.int32),
        ),
        inputs=tuple([port for port in ports if port.name not in written]),
        outputs=tuple([port for port in ports if port.name in written]),
    )
