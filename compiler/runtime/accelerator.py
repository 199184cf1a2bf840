"""Networks and kernels of the accelerator as executables: each run is one launch of the simulator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vdla.isa.program import Program
from vdla.isa.program_text import instructions_text
from vdla.sim import SimulationResult, simulate

from ..graph.host import arrays_by_name
from .artifact import Compiled
from .executable import Arrays, Port
from .executor import run as execute
from .network_inputs import check_inputs, input_ports, output_ports
from .readable import Readable, Texts


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AcceleratorExecutable(Readable):
    """A compiled network: `compiled` holds its program, its graph and the addresses of its tensors."""

    compiled: Compiled

    @property
    def name(self) -> str:
        """The model's own name."""
        return self.compiled.graph.name

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The model's inputs."""
        return input_ports(self.compiled.graph)

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The model's outputs."""
        return output_ports(self.compiled.graph)

    @property
    def program(self) -> Program:
        """The instructions and the memory image."""
        return self.compiled.program

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """One launch on the simulator."""
        return dict(execute(self.compiled, arrays_by_name(inputs)).outputs)

    def launch(self, inputs: Arrays | None = None) -> tuple[SimulationResult, dict[str, np.ndarray]]:
        """One launch: its timing and, with `inputs`, its outputs; without `inputs` no data are computed."""
        given = {} if inputs is None else arrays_by_name(inputs)
        result = execute(self.compiled, given, data=inputs is not None)
        return result.simulation, dict(result.outputs)

    def texts(self) -> Texts:
        """The instructions as text, by layer if there are layers."""
        return {"instructions": lambda: instructions_text(self.program)}

    def close(self) -> None:
        """Does nothing: this executable holds no resources."""

    def __enter__(self) -> AcceleratorExecutable:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class KernelExecutable(Readable):
    """A tensor expression as a program: `inputs` and `outputs` are segments of its memory image, by name."""

    name: str
    program: Program
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """One launch on the simulator."""
        return self.launch(inputs)[1]

    def launch(self, inputs: Arrays | None = None) -> tuple[SimulationResult, dict[str, np.ndarray]]:
        """One launch: its timing and, with `inputs`, its outputs; without `inputs` no data are computed."""
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
        """The instructions as text, by layer if there are layers."""
        return {"instructions": lambda: instructions_text(self.program)}

    def close(self) -> None:
        """Does nothing: this executable holds no resources."""

    def __enter__(self) -> KernelExecutable:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
