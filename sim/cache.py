"""Decorator that compiles the functions of the timing simulation with numba."""

from __future__ import annotations

from vdla.util.machine_code import compiled

timing_code = compiled(_nrt=False, error_model="numpy", forceinline=True)
"""Decorator: compiles a function of the timing simulation with numba.

The functions allocate nothing, so array views need no reference counts, which would take two thirds of a run's
time. They are inlined into `machine.run`: passing up to 16 arrays of eight words on the stack at each call would take
half of a run's time.
"""
