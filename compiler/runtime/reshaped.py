"""An executable with reshaped inputs and outputs: the same elements in the same order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .executable import Arrays, Executable, Port
from .readable import Readable


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReshapedExecutable(Readable):
    """The executable `inner`, whose arrays are reshaped to the shapes of `inputs` and `outputs`."""

    inner: Executable
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    @property
    def name(self) -> str:
        """The name of `inner`."""
        return self.inner.name

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Runs `inner` on the reshaped arrays; errors are raised by `inner` and show its shapes."""
        shapes = {port.name: port.shape for port in self.inner.inputs}
        given = {
            name: np.reshape(array, shapes[name]) if self._fits(name, array) else array
            for name, array in inputs.items()
        }
        results = self.inner.run(given)
        return {port.name: results[port.name].reshape(port.shape) for port in self.outputs}

    def _fits(self, name: str, array: np.ndarray) -> bool:
        return any(port.name == name and port.shape == np.shape(array) for port in self.inputs)

    def source(self, kind: str) -> str:
        """The source of `inner`."""
        return self.inner.source(kind)

    def close(self) -> None:
        """Closes the wrapped executable `inner`."""
        self.inner.close()
