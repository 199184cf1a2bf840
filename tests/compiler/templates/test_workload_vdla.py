"""Workloads of the accelerator as read from files: workloads that no machine can run are refused."""

from __future__ import annotations

import pytest

from vdla.compiler.records.record import Record, Task
from vdla.compiler.te.blocks import Window
from vdla.compiler.templates.vdla.read_workload import VDLA, workload_from_dict
from vdla.compiler.templates.vdla.workload import windowed
from vdla.compiler.templates.workload_limits import WorkloadError
from vdla.compiler.tune.search.transfer import samples_from
from vdla.isa.config import load_config

LAYER = windowed("conv2d", (1, 16, 8, 8), 16, Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
WRONG = [
    (
        {"width": 1, "pads": [1, 0, 1, 0]},
        "conv2d: a window of 3 positions does not fit into the 1 padded positions",
    ),
    ({"pads": [0, 0, 0, 1 << 40]}, "pads = .* is larger than 65536"),
    ({"height": 1 << 24}, "height = 16777216 of a workload is larger than 1048576"),
    ({"height": 1 << 20, "width": 1 << 20}, "the input of .* elements is larger than 2147483648"),
    ({"filters": 1 << 24, "channels": 1 << 20}, "the weights of .* elements"),
    ({"batch": 1 << 12, "filters": 1 << 20}, "the output of .* elements"),
    (
        {"template": "patch_conv2d_pool", "pool_kernel": [9, 9]},
        "a window of 9 positions does not fit into the 8",
    ),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_what_no_machine_runs_is_refused(wrong, message):
    assert workload_from_dict(LAYER.to_dict()) == LAYER
    with pytest.raises(WorkloadError, match=message):
        workload_from_dict({**LAYER.to_dict(), **wrong})


def test_records_of_workloads_that_nothing_runs_teach_nothing():
    config = load_config("tiny")
    for own, wrongs in (
        (LAYER, [wrong for wrong, _ in WRONG]),
        # No ring of rows holds these: the accumulators are too few.
        (
            windowed("patch_conv2d_pool", (1, 3, 64, 64), 16, Window(kernel=(3, 3))),
            [{"width": 1 << 16, "pool_kernel": [62, 62]}],
        ),
    ):
        records = [
            Record(
                task=Task(workload={**own.to_dict(), **wrong}, target=config.described),
                knobs={},
                cost=1.0,
                trial=0,
                seed=0,
                strategy="random",
                elapsed=0.0,
            )
            for wrong in wrongs
        ]
        assert samples_from(records, VDLA, config, own) == ()
