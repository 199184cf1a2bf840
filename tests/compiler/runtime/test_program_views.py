"""Outputs that are views, in the JSON description of an accelerator program: written and read back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from vdla.compiler.runtime.archive_fields import Field
from vdla.compiler.runtime.network_description import ConstantPool
from vdla.compiler.runtime.program_description import _described_view, _read_view

PLACES = np.arange(24, dtype=np.int64).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "view",
    [
        PLACES,
        PLACES.transpose(2, 0, 1),
        PLACES[:, ::-1],
        PLACES[::-1, :, ::-1],
        np.pad(PLACES[0], 1, constant_values=-1),
        np.full((1,), -1, np.int64),
        PLACES[:0],
        PLACES[1, 2, 3],
    ],
    ids=["plain", "transposed", "reversed", "reversed twice", "pads", "one pad", "empty", "number"],
)
def test_a_view_is_read_as_it_was_written(view: np.ndarray) -> None:
    pool = ConstantPool()
    description = json.loads(json.dumps(_described_view(view, pool, "view")))
    field = Field(path=Path("net.vdla"), name="view", value=description)
    np.testing.assert_array_equal(_read_view(field, view.shape, 24, pool.arrays), view)
