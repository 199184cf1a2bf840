"""Extensions of the machines on which benchmarks measure depthwise convolutions, from the table of extensions."""

from __future__ import annotations

from vdla.isa.extensions import EXTENSION_TABLE

TAPS_EXTENSIONS = tuple([name for name, item in EXTENSION_TABLE.items() if "taps" in (name, item.needs)])
"""The extension `taps` (depthwise operations on several positions at once), and the extensions that need it, by name.
"""
