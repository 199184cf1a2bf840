"""Tolerances of checks: the allowed differences between a run's outputs and the outputs of a reference.

ONNX Runtime's results with and without its optimization may differ; then twice that difference is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

STEPS_TOLERANCE = 2
"""Tolerance of an accelerator's output in quantization steps: 1 for a rounding, and 1 for the effect of an earlier
rounding.
"""
LAYER_STEPS_TOLERANCE = 1
"""Allowed difference of one layer's output, in quantization steps, if the layer gets the reference's own integers as
inputs. One step allows for a single rounding in the other direction.
"""
FLOAT_TOLERANCE = 1e-4
"""Tolerance of max |a - b| / max |b| for float32 outputs: ten times the error found in networks of a hundred layers.

Such errors are due to the order of sums, which is not defined.
"""
FLOAT_TOLERANCES: Mapping[str, float] = MappingProxyType(
    {"float32": FLOAT_TOLERANCE, "float16": 2.0**-7, "bfloat16": 2.0**-4}
)
"""Tolerance of max |a - b| / max |b| by the coarsest float type in which a model computes.

For types of 16 bits it is eight units in the last place of the largest value (11 bits of float16, 8 of bfloat16),
because each operator rounds, and a reference that fuses other operators rounds at other places.
"""
TENSOR_FLOAT_TOLERANCE = 2e-2
"""Tolerance of max |a - b| / max |b| if products may use tensor cores in tf32, which has 11 bits for each factor."""
QUANTIZED_TOLERANCE = 2.0**-5
"""Tolerance of max |a - b| / max |b| for models with quantized tensors: two steps of a tensor that uses a quarter of
its 256 values.
"""
WHOLE_TOLERANCE = 0.25
"""Tolerance of max |a - b| / max |b| for a network partitioned between accelerator and processor, from end to end; each
region has a smaller tolerance.

Differences in rounding add up over dozens of layers; a wrong tensor would cause an error of 1 or more.
"""


def relative_tolerance(*, quantized: bool, tensor_float: bool = False, floats: str = "float32") -> float:
    """Tolerance of max |a - b| / max |b|, for a reference whose results do not depend on its optimization.

    `quantized`: the model has quantized tensors; `tensor_float`: its products may use tf32; `floats`: the coarsest
    float type in which it computes.
    """
    if quantized:
        return max(QUANTIZED_TOLERANCE, FLOAT_TOLERANCES[floats])
    return max(FLOAT_TOLERANCES[floats], TENSOR_FLOAT_TOLERANCE if tensor_float else 0.0)


def widened(tolerance: float, disagreement: float | None) -> float:
    """The larger of `tolerance` and twice `disagreement`. `disagreement` is the difference between the reference's
    results with and without its optimization (None: its results do not depend on optimization).
    """
    return tolerance if disagreement is None else max(tolerance, 2 * disagreement)


def why_widened(disagreement: float | None, unit: str) -> str:
    """Text that explains why a tolerance was widened: the reference's results with and without its optimization differ
    by `disagreement`, in `unit`.
    """
    return f"ONNX Runtime with and without its optimization differ by {disagreement:.2g} {unit}; twice that is allowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Numbers of arrays that a check compared, by kind: quantized `inputs`, `layers`, and `outputs` of the model. An
    array that was compared for several launches counts once.
    """

    inputs: int = 0
    layers: int = 0
    outputs: int = 0

    @property
    def anything(self) -> bool:
        """Whether anything was compared; a check that compared nothing does not pass."""
        return bool(self.inputs or self.layers or self.outputs)

    def __add__(self, other: Compared) -> Compared:
        """The numbers of arrays that two checks compared together: the sums of their counts, kind by kind."""
        return Compared(
            inputs=self.inputs + other.inputs,
            layers=self.layers + other.layers,
            outputs=self.outputs + other.outputs,
        )

    def __str__(self) -> str:
        """The numbers of compared arrays as text, such as "1 input, 5 layers and 1 output"."""
        counts = {"input": self.inputs, "layer": self.layers, "output": self.outputs}
        parts = [f"{n} {name}{'' if n == 1 else 's'}" for name, n in counts.items() if n]
        return (
            " and ".join([*([", ".join(parts[:-1])] if parts[1:] else []), parts[-1]]) if parts else "nothing"
        )


NOTHING = Compared()
"""The counts of a check that compared no arrays: all 0."""


def within(error: float | None, tolerance: float) -> bool:
    """Whether an error is within a tolerance. False for None: an error that cannot be computed
    (`output_check.relative_difference`).
    """
    return error is not None and error <= tolerance
