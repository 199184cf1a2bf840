"""Schedules with knobs: how each operator is laid out on each target."""
