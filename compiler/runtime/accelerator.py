"""Networks of the accelerator as executables: each run is one launch of the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vdla.isa.program import Program
from vdla.isa.program_text import instructions_text
from vdla.sim import SimulationResult, simulate
from vdla.util.arguments import arrays_by_name

from ..graph.host import load_outputs, store_inputs
from ..graph.layout import pack_activation, unpack_activation
from .artifact import Compiled
from .executable import Arrays, Port
from .network_inputs import input_ports, output_ports
from .readable import Readable, Texts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunResult:
    """Result of one run. `outputs`: the outputs in the types that the model declares. `integer_outputs`: the stored
    int8 tensors of the outputs. Both have output names as keys, and are empty if only the timing was simulated.
    """

    outputs: Mapping[str, np.ndarray]
    integer_outputs: Mapping[str, np.ndarray]
    simulation: SimulationResult


def run(compiled: Compiled, inputs: Mapping[str, np.ndarray], *, data: bool = True) -> RunResult:
    """Simulates one launch. `inputs`: arrays by the model's input names; with `data` False no data are computed, and
    the arrays may be left out.

    Raises UserError for inputs that do not fit the model.
    """
    program = compiled.program
    memory = input_image(compiled, inputs) if data else program.image
    simulation = simulate(program.config, program.instructions, memory, data=data)
    if not data:
        return RunResult(outputs={}, integer_outputs={}, simulation=simulation)
    assert simulation.memory is not None
    outputs, tensors = read_outputs(compiled, simulation.memory)
    return RunResult(outputs=outputs, integer_outputs=tensors, simulation=simulation)


def input_image(compiled: Compiled, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """The contents of DRAM at launch, uint8: the program's image, with `inputs` at the addresses of the model's inputs.

    Raises UserError for inputs that do not fit the model, ValueError if the network was compiled without data.
    """
    if not compiled.data:
        raise ValueError("the network was compiled for timing only: its image contains no constants")
    memory = compiled.program.image.copy()
    for address, constant in compiled.apart:
        memory[address : address + constant.size] = constant
    for name, values in store_inputs(compiled.graph, dict(inputs)).items():
        tensor = compiled.graph.tensors[name]
        packed = pack_activation(compiled.program.config, values.reshape(tensor.nchw), compiled.layouts[name])
        address = compiled.addresses[name]
        memory[address : address + packed.size] = packed.view(np.uint8)
    return memory


def read_outputs(
    compiled: Compiled, memory: np.ndarray
) -> tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]:
    """The outputs in `memory` after a run, by name: first in the model's types, then as the stored int8 tensors."""
    tensors = {item.tensor: read_tensor(compiled, item.tensor, memory) for item in compiled.graph.outputs}
    return (
        load_outputs(compiled.graph, tensors),
        {item.name: tensors[item.tensor] for item in compiled.graph.outputs},
    )


def read_tensor(compiled: Compiled, name: str, memory: np.ndarray) -> np.ndarray:
    """The stored int8 tensor `name`, in the graph's shape, from a memory image after a run.

    Inputs and outputs are always in the image; later tensors may have overwritten a tensor between layers. Raises
    KeyError for a tensor that was never in DRAM.
    """
    tensor = compiled.graph.tensors[name]
    address = compiled.addresses[name]
    size = compiled.sizes[name]
    flat = memory[address : address + size].view(np.int8)
    values = unpack_activation(compiled.program.config, flat, tensor.nchw, compiled.layouts[name])
    return values.reshape(tensor.shape)


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
        """One inference, simulated; returns the outputs by name."""
        return dict(run(self.compiled, arrays_by_name(inputs)).outputs)

    def launch(self, inputs: Arrays | None = None) -> tuple[SimulationResult, dict[str, np.ndarray]]:
        """One launch: its timing and, with `inputs`, its outputs; without `inputs` no data are computed."""
        given = {} if inputs is None else arrays_by_name(inputs)
        result = run(self.compiled, given, data=inputs is not None)
        return result.simulation, dict(result.outputs)

    def texts(self) -> Texts:
        """The instructions as text, by layer if there are layers."""
        return {"instructions": lambda: instructions_text(self.program)}
