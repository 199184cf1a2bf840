"""Networks in which the values of some inputs determine shapes. They are compiled at run time, once for each set of
values.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vdla.util.closing import Closing
from vdla.util.errors import UserError

from .executable import Arrays, Executable, Port

MOST_PROGRAMS = 16
"""Largest number of programs in a network's cache; the least recently used one is dropped."""
Specialize = Callable[[Mapping[str, np.ndarray]], Executable]
"""Function that compiles the network for given values of its parameters (by name); the resulting executable has no
inputs for the parameters. Raises UserError.
"""


class SpecializedNetwork(Closing):
    """An executable that compiles a program for each new set of values of its `parameters`, the inputs whose values
    determine shapes.

    `run` caches the last `MOST_PROGRAMS` programs. `specialize` compiles a program. If `specialize` raises an error,
    `more` takes the error and returns further inputs that must become parameters. If there are no such inputs, `run`
    raises the error.
    """

    def __init__(
        self,
        *,
        name: str,
        inputs: tuple[Port, ...],
        parameters: Sequence[str],
        specialize: Specialize,
        more: Callable[[UserError], Sequence[str]],
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.parameters = tuple(parameters)
        self._specialize = specialize
        self._more = more
        self._programs: OrderedDict[tuple[object, ...], Executable] = OrderedDict()
        self._outputs: tuple[Port, ...] | None = None

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs of the program that ran last. Raises UserError before the first run, which decides shapes."""
        if self._outputs is None:
            values = ", ".join(self.parameters)
            raise UserError(
                f"{self.name}: the shapes of its outputs depend on the values of {values}; run the network before you "
                "read `outputs`, or compile it with constants={...}"
            )
        return self._outputs

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """One inference, by the program for the parameters' values. Raises UserError."""
        self._check(inputs)
        program = self._program(inputs)
        results = program.run({name: array for name, array in inputs.items() if name not in self.parameters})
        self._outputs = program.outputs
        return results

    def source(self, kind: str) -> str:
        """The code of the program that ran last. Raises UserError before the first run, and for kinds of source that
        the program does not have.
        """
        if not self._programs:
            values = ", ".join(self.parameters)
            raise UserError(
                f"{self.name}: its code depends on the values of {values}, so it exists only after a run; run the "
                "network first"
            )
        return self._programs[next(reversed(self._programs))].source(kind)

    def close(self) -> None:
        """Closes the programs."""
        while self._programs:
            self._programs.popitem()[1].close()

    def __repr__(self) -> str:
        return f"<SpecializedNetwork {self.name}: compiled for each value of {', '.join(self.parameters)}>"

    def _check(self, inputs: Arrays) -> None:
        """Raises UserError unless every parameter is given in its type and shape; the program checks the
        other inputs.
        """
        ports = {port.name: port for port in self.inputs}
        for name in self.parameters:
            given: object = inputs.get(name)
            if not isinstance(given, np.ndarray | np.generic):
                problem = (
                    "is missing" if given is None else f"must be a numpy array, not {type(given).__name__}"
                )
                raise UserError(f"{self.name}: input '{name}' {problem}; its values decide shapes")
            port = ports[name]
            if given.shape != port.shape or given.dtype != port.dtype:
                raise UserError(
                    f"{self.name}: input '{name}' is {given.dtype} {list(given.shape)}; give {port.dtype} "
                    f"{list(port.shape)}"
                )

    def _program(self, inputs: Arrays) -> Executable:
        while True:
            values = {name: np.asarray(inputs[name]) for name in self.parameters}
            key = tuple((name, array.tobytes()) for name, array in values.items())
            if key in self._programs:
                self._programs.move_to_end(key)
                return self._programs[key]
            try:
                program = self._specialize(values)
            except UserError as error:
                found = [name for name in self._more(error) if name not in self.parameters]
                if not found:
                    raise
                self.parameters = (*self.parameters, *found)
                self._check(inputs)
                continue
            self._programs[key] = program
            if len(self._programs) > MOST_PROGRAMS:
                self._programs.popitem(last=False)[1].close()
            return program
