"""When the check of a run has passed: how far its outputs may be from a reference's.

Where a reference disagrees with itself it cannot say more: ONNX Runtime's results with and without its optimization may
differ, and then twice their difference is allowed.
"""

from __future__ import annotations

STEPS_TOLERANCE = 2
"""Quantization steps of an accelerator's output: one for a rounding, one for what follows from another one."""
LAYER_STEPS_TOLERANCE = 1
"""Quantization steps of one layer that is fed the reference's own integers: one rounding."""
FLOAT_TOLERANCE = 1e-4
"""max |a - b| / max |b| of float32 outputs: ten times what networks of a hundred layers were found to need, as the
order of sums is free."""
TENSOR_FLOAT_TOLERANCE = 2e-2
"""The same where products may use tensor cores in tf32, which keeps 11 bits of each factor."""
QUANTIZED_TOLERANCE = 2.0**-5
"""The same for models with quantized tensors: two steps of one that uses a quarter of its 256 values."""
WHOLE_TOLERANCE = 0.25
"""The same for a divided network from end to end, whose regions are each held to less: dozens of layers that round
otherwise add up, but outputs of other tensors would be off by one and more."""


def relative_tolerance(*, quantized: bool, tensor_float: bool = False) -> float:
    """What is allowed as max |a - b| / max |b|, before the reference's own disagreement."""
    if quantized:
        return QUANTIZED_TOLERANCE
    return TENSOR_FLOAT_TOLERANCE if tensor_float else FLOAT_TOLERANCE


def widened(tolerance: float, disagreement: float | None) -> float:
    """A tolerance where the reference's own results differ by `disagreement`; None says nothing."""
    return tolerance if disagreement is None else max(tolerance, 2 * disagreement)


def within(error: float | None, tolerance: float) -> bool:
    """Whether an error is allowed; None (not comparable, as only one side is finite) never is."""
    return error is not None and error <= tolerance
