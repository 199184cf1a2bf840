"""The block diagrams agree with the tables in the code."""

from dataclasses import replace
from importlib.util import find_spec

import pytest

from vdla.codesign.report.diagrams import (
    accelerator_stages,
    compiler_figure,
    instructions_of,
    machine_figure,
    processor_stages,
)
from vdla.isa.config import load_config
from vdla.isa.layout import TOKEN_QUEUES, Unit

VTA = load_config("vta")


def words(figure) -> str:
    return "\n".join(text.get_text() for text in figure.axes[0].texts)


def test_the_machine_shows_its_configuration_and_every_token_queue() -> None:
    shown = words(machine_figure(replace(VTA, block_in=32, wgt_buffer_bytes=1 << 19)))
    for text in ("1 x 32 x 16 multiplies", "512 KiB", "8 bytes a cycle", "LOAD.PATCH", "STORE.POST"):
        assert text in shown
    for queue in TOKEN_QUEUES:
        assert f"{queue.name.replace('->', ' → ')}  ({queue.push_flag}, {queue.pop_flag})" in shown


def test_a_folding_array_multiplies_by_its_columns() -> None:
    shown = words(machine_figure(replace(VTA, extensions=(*VTA.extensions, "fold"), folds=4)))
    assert "1 x 16 x 4 multiplies" in shown


def test_instructions_are_those_that_the_machine_has() -> None:
    tiny = load_config("tiny")
    assert "TAPS" not in instructions_of(tiny, Unit.COMPUTE)
    more = replace(tiny, extensions=(*tiny.extensions, "taps"))
    assert "TAPS" in instructions_of(more, Unit.COMPUTE)


@pytest.mark.parametrize("stages", [accelerator_stages(VTA), processor_stages()])
def test_every_stage_is_in_a_module_that_exists(stages) -> None:
    assert [stage.module for stage in stages if find_spec(f"vdla.{stage.module}") is None] == []
    assert "interleave" in words(compiler_figure(VTA))
