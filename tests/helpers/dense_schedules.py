"""Default CPU schedules of products and convolutions with constant weights, for tests of kernels."""

from __future__ import annotations

from functools import partial

from vdla.compiler.templates.cpu.lowered import scheduled

dense = partial(scheduled, constants=frozenset({"W"}))
"""The generated default schedule of `te.ops.product` in which W is a constant and is packed."""
convolution = dense
"""The generated default schedule of `te.ops.blocked_convolution` in which W is a constant and is packed."""
