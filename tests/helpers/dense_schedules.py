"""The schedule of products with weights, for tests of kernels."""

from __future__ import annotations

from functools import partial

from vdla.compiler.templates.cpu.lowered import scheduled

dense = partial(scheduled, constants=frozenset({"W"}))
"""The generator's default schedule of `te.ops.product`: W is packed."""
