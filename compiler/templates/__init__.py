"""Templates: schedules with knobs for each operator on each target."""
