"""Minimizing of failing programs; in place of the comparison of engines, `differs` tests a property of the program."""

import dataclasses

import numpy as np
import pytest

from vdla.isa.check import check
from vdla.isa.config import Config, load_config
from vdla.isa.decoding import decode_one, format_names
from vdla.verify.cosim.cases import Launch, case, launch
from vdla.verify.cosim.minimize import MOST_RUNS, minimize

TINY = load_config("tiny")


def values(config: Config, start: Launch, wanted: str) -> list[dict[str, int]]:
    words = start.program.instructions.tolist()
    decoded = [decode_one(config, low, high) for low, high in words]
    return [fields for name, fields in decoded if name == wanted]


def assert_clean(config: Config, start: Launch) -> None:
    found = check(config, start.program.instructions, start.program.image, uop=start.uop)
    assert [item for item in found if item.severity == "error"] == []


@pytest.mark.parametrize("number", [1, 8])
def test_one_instruction_and_the_field_at_fault_remain(number: int):
    item = case(TINY, number, 0)
    start = launch(item)

    def differs(config: Config, candidate: Launch) -> bool:
        assert_clean(config, candidate)
        return any(fields["iter_in"] > 1 for fields in values(config, candidate, "GEMM"))

    assert differs(item.config, start)
    smallest = minimize(item.config, start, differs)
    assert format_names(smallest.launch.program.instructions) == ["GEMM", "FINISH"]
    gemm = values(smallest.config, smallest.launch, "GEMM")[0]
    assert {name for name, value in gemm.items() if value} == {"opcode", "iter_in"}
    assert smallest.launch.scratchpads is None and smallest.launch.random_state is None
    assert not smallest.launch.program.image.any()
    assert (smallest.config.memory.jitter, smallest.config.memory.stall) == (0, 0)
    assert smallest.runs <= MOST_RUNS


def test_tokens_are_repaired_between_what_remains():
    cases = (case(TINY, number, 0) for number in range(40))

    def differs(config: Config, candidate: Launch) -> bool:
        """Whether the program still has a load on which a matrix instruction depends; both need a token."""
        assert_clean(config, candidate)
        words = candidate.program.instructions.tolist()
        names = [decode_one(config, low, high) for low, high in words]
        loads = [
            i
            for i, (name, fields) in enumerate(names)
            if name == "LOAD.INP" and fields["x_size"] > 1 and fields["y_size"]
        ]
        uses = [
            i
            for i, (name, fields) in enumerate(names)
            if name == "GEMM" and fields["pop_prev"] and fields["iter_in"]
        ]
        return bool(loads and uses and loads[0] < uses[-1])

    item = next(item for item in cases if differs(item.config, launch(item)))
    smallest = minimize(item.config, launch(item), differs)
    names = format_names(smallest.launch.program.instructions)
    assert len(names) <= 4 and {"LOAD.INP", "GEMM"} <= set(names)
    assert_clean(smallest.config, smallest.launch)


def test_what_matters_in_the_start_is_kept():
    item = case(TINY, 7, 0)
    start = launch(item)
    assert start.scratchpads is not None

    def differs(config: Config, candidate: Launch) -> bool:
        return (
            candidate.scratchpads is not None
            and config.memory.jitter > 0
            and candidate.random_state is not None
        )

    smallest = minimize(item.config, start, differs)
    assert smallest.launch.scratchpads is not None and smallest.config.memory.jitter > 0
    assert format_names(smallest.launch.program.instructions) == ["FINISH"]


def test_runs_are_limited():
    item = case(TINY, 0, 0)
    start = launch(item)
    count = len(start.program.instructions)
    runs = 0

    def differs(config: Config, candidate: Launch) -> bool:
        nonlocal runs
        runs += 1
        return len(candidate.program.instructions) == count and np.array_equal(
            candidate.program.instructions, start.program.instructions
        )

    smallest = minimize(item.config, dataclasses.replace(start), differs)
    assert np.array_equal(smallest.launch.program.instructions, start.program.instructions)
    assert runs == smallest.runs <= MOST_RUNS
