"""The cost estimates for convolutions on the accelerator, compared with simulated cycles."""

import numpy as np

from vdla.compiler.templates.columns import ESTIMATE
from vdla.compiler.templates.vdla.workload import Workload
from vdla.compiler.tune.measure.measure_vdla import AcceleratorTask, measure
from vdla.isa.config import load_config


def test_estimates_order_candidates_and_bounds_hold() -> None:
    workload = Workload(
        template="conv2d",
        batch=1,
        channels=64,
        height=14,
        width=14,
        filters=64,
        kernel=(3, 3),
        pads=(1, 1, 1, 1),
    )
    task = AcceleratorTask.of(load_config("vta"), workload)
    points = task.space.sample(np.random.default_rng(0), 24)
    estimates = task.space.cost(task.space.columns(points))
    costs = np.array([measure(task, task.space.values(point)).cost for point in points])
    ran = np.isfinite(costs)
    assert ran.sum() >= 20
    assert (estimates.bound <= costs).all()
    estimate, costs = estimates.quantities[ESTIMATE][ran], costs[ran]
    ranks = [np.argsort(np.argsort(values)) for values in (estimate, costs)]
    assert np.corrcoef(*ranks)[0, 1] > 0.8
    assert 0.9 < np.median(costs / estimate) < 1.25
