"""Every fault in a GPU kernel is detected: by a check with a helpful message, and by wrong results."""

from __future__ import annotations

import pytest

from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.verify.faults.gpu import FAULTS, kernel, numbers, run_fault

MESSAGES = {
    "missing barrier before use": ("RaceError", "with no barrier between them", "NaN"),
    "missing barrier before refill": ("RaceError", "with no barrier between them", "wrong"),
    "missing barrier behind a wait": ("RaceError", "with no barrier after the wait", "NaN"),
    "missing barrier before copies": ("RaceError", "with no barrier before the copy is issued", "NaN"),
    "wrong wait count": ("RaceError", "before the wait that covers the copy", "NaN"),
    "missing wait": ("RaceError", "before the wait that covers the copy", "NaN"),
    "missing commit": ("RaceError", "no commit follows it", "NaN"),
    "missing first commit": ("RaceError", "before the wait that covers the copy", "NaN"),
    "tile out of bounds": ("VerifyError", "may reach 0 .. 95, outside 0 .. 69", "refused"),
    "missing guard": ("VerifyError", "may reach 0 .. 95, outside 0 .. 69", "refused"),
    "two threads, one element": ("RaceError", "within one phase", "NaN"),
    "blocks overlap": ("RaceError", "blocks race on Y", "NaN"),
    "wrong slot": ("RaceError", "before the wait that covers the copy", "NaN"),
    "registers of another thread": ("VerifyError", "each thread has its own register memory", "NaN"),
    "shared buffer too small": ("VerifyError", "outside 0 .. 30 of a", "refused"),
    "barrier in a loop over threads": ("LoweringError", "is inside a loop over threads", "refused"),
    "missing barrier, whole block": ("RaceError", "with no barrier after the wait", "NaN"),
    "wrong wait count, whole block": ("RaceError", "before the wait that covers the copy", "NaN"),
    "wrong slot, whole block": ("RaceError", "before the wait that covers the copy", "NaN"),
    # Nothing is out of order: only what is computed is wrong.
    "sums not cleared": ("", "", "NaN"),
}


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_without_a_fault_the_numbers_are_right(stages):
    assert numbers(kernel(stages, cuda_target())) == ""


def test_without_a_fault_the_numbers_are_right_for_whole_blocks():
    assert numbers(kernel(4, cuda_target("sm_90a"), whole=True)) == ""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_fault_gives_its_message_and_wrong_results(fault):
    verdict = run_fault(fault)
    check, words, shown = MESSAGES[fault.name]
    assert verdict.check == check
    assert words in verdict.message
    assert verdict.numbers == shown


def test_every_fault_has_an_expected_message():
    assert {fault.name for fault in FAULTS} == set(MESSAGES)
