"""Tolerances of checks: the allowed differences of a run's outputs to a reference's.

Where a reference disagrees with itself it cannot say more: ONNX Runtime's results with and without its optimization may
differ, and then twice their difference is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

STEPS_TOLERANCE = 2
"""Tolerance of an accelerator's output in quantization steps: one for a rounding, one for the effect of an earlier
one."""
LAYER_STEPS_TOLERANCE = 1
"""Quantization steps of one layer that is fed the reference's own integers: one rounding."""
FLOAT_TOLERANCE = 1e-4
"""max |a - b| / max |b| of float32 outputs: ten times what networks of a hundred layers were found to need, as the
order of sums is free."""
FLOAT_TOLERANCES: Mapping[str, float] = MappingProxyType(
    {"float32": FLOAT_TOLERANCE, "float16": 2.0**-7, "bfloat16": 2.0**-4}
)
"""`FLOAT_TOLERANCE` by the coarsest float type that a model computes in. Of 16 bits: eight units in the last place of
the largest value (11 bits of float16, 8 of bfloat16), as each operator rounds, and references differ in where."""
TENSOR_FLOAT_TOLERANCE = 2e-2
"""`FLOAT_TOLERANCE` where products may use tensor cores in tf32, which keeps 11 bits of each factor."""
QUANTIZED_TOLERANCE = 2.0**-5
"""`FLOAT_TOLERANCE` for models with quantized tensors: two steps of one that uses a quarter of its 256 values."""
WHOLE_TOLERANCE = 0.25
"""`FLOAT_TOLERANCE` for a divided network from end to end, whose regions each have smaller tolerances: dozens of layers
that round otherwise add up, but outputs of other tensors would be off by one and more."""


def relative_tolerance(*, quantized: bool, tensor_float: bool = False, floats: str = "float32") -> float:
    """Tolerance of max |a - b| / max |b|, without the reference's own disagreement; `floats` is the coarsest float type
    that the model computes in."""
    if quantized:
        return max(QUANTIZED_TOLERANCE, FLOAT_TOLERANCES[floats])
    return max(FLOAT_TOLERANCES[floats], TENSOR_FLOAT_TOLERANCE if tensor_float else 0.0)


def widened(tolerance: float, disagreement: float | None) -> float:
    """A tolerance where the reference's own results differ by `disagreement`; None says nothing."""
    return tolerance if disagreement is None else max(tolerance, 2 * disagreement)


def why_widened(disagreement: float | None, unit: str) -> str:
    """The reason why a tolerance was widened: the reference's difference to itself, in `unit`."""
    return f"ONNX Runtime with and without its optimization differ by {disagreement:.2g} {unit}; twice that is allowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Numbers of arrays that a check compared: the quantized `inputs`, the `layers`, and the `outputs` that a user
    gets."""

    inputs: int = 0
    layers: int = 0
    outputs: int = 0

    @property
    def anything(self) -> bool:
        """Whether there was something to compare; a check that compared nothing has not passed."""
        return bool(self.inputs or self.layers or self.outputs)

    def __add__(self, other: Compared) -> Compared:
        """Both together."""
        return Compared(
            inputs=self.inputs + other.inputs,
            layers=self.layers + other.layers,
            outputs=self.outputs + other.outputs,
        )

    def __str__(self) -> str:
        """The counts as text, such as "1 input, 5 layers and 1 output"."""
        counts = {"input": self.inputs, "layer": self.layers, "output": self.outputs}
        parts = [f"{n} {name}{'' if n == 1 else 's'}" for name, n in counts.items() if n]
        return (
            " and ".join([*([", ".join(parts[:-1])] if parts[1:] else []), parts[-1]]) if parts else "nothing"
        )


NOTHING = Compared()
"""No arrays."""


def within(error: float | None, tolerance: float) -> bool:
    """Whether an error is allowed; None (not comparable, as only one side is finite) never is."""
    return error is not None and error <= tolerance
