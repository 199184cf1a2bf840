"""Emission of several similar kernels at once gives the same program as emitting them one after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.codegen.vdla import link
from vdla.compiler.pipeline import compile_program
from vdla.isa.config import load_config

from ..test_attention import encoder

TINY = load_config("tiny")
MACHINE = replace(
    TINY, extensions=(*TINY.extensions, "table", "broadcast", "zero_points", "rows"), row_entries=8
)


def test_emitting_kernels_together_gives_the_same_program(monkeypatch: pytest.MonkeyPatch) -> None:
    model = encoder(14, 16, 2, merged=False).model()
    groups: list[int] = []
    alike = link._alike

    def counted(kernels, places, weights):
        found = list(alike(kernels, places, weights))
        groups.extend(end - first for first, end in found)
        return found

    monkeypatch.setattr(link, "_alike", counted)
    together = compile_program(model, MACHINE).program
    # Two heads, and the four blocks of 16 channels that are swapped, since 14 positions end inside of a block.
    assert groups.count(2) == 2 and groups.count(4) == 1
    monkeypatch.setattr(
        link, "_alike", lambda kernels, places, weights: [(k, k + 1) for k in range(len(kernels))]
    )
    apart = compile_program(model, MACHINE).program
    np.testing.assert_array_equal(together.instructions, apart.instructions)
    np.testing.assert_array_equal(together.image, apart.image)
