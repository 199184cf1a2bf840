"""Tuning records: looking up the best legal knobs, keeping the few best records, and resuming searches."""

from __future__ import annotations

import dataclasses

import numpy as np
from tuning_records import LLVM, TASK, VDLA, WORKLOAD, file_of, trial

from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.records import files as record_files
from vdla.compiler.records.book import (
    CHECKED,
    RecordBook,
    best_records,
    book_of,
    read_book,
    shipped_book,
    shipped_files,
)
from vdla.compiler.records.files import read_records, write_records
from vdla.compiler.records.package_identity import compiler_identity
from vdla.compiler.records.record import Task
from vdla.compiler.templates.space import Axis, CostEstimates, Space
from vdla.compiler.tune.runs.resumed import points_of, trials_of


def knobs(rows: int, threads: int = 2) -> dict[str, int]:
    return {"rows": rows, "threads": threads}


def space() -> Space:
    """A made-up space of rows (1, 2, 4, 8) and threads (1, 2); points with rows * threads <= 8 are legal."""

    def cost(columns):
        work = columns["rows"] * columns["threads"]
        limits = {"the buffer": work <= 8}
        return CostEstimates(limits=limits, bound=np.ones(len(work)), quantities={}, effective=columns)

    axes = (Axis(name="rows", values=(1, 2, 4, 8)), Axis(name="threads", values=(1, 2)))
    return Space(template="conv2d", axes=axes, cost=cost, floor=1.0, slack=10.0)


OTHER = Task(workload={**WORKLOAD, "height": 28}, target=VDLA)
CPU = Task(workload=WORKLOAD, target=LLVM)
MANY = [
    trial(0, 90.0),
    trial(1, 70.0, knobs=knobs(3)),  # the space has no 3
    trial(2, None),
    trial(3, 75.0, knobs=knobs(8)),  # and allows no 8 x 2
    trial(4, 80.0, knobs=knobs(2)),
    trial(5, 80.0, knobs=knobs(1)),
    trial(6, 85.0, knobs=knobs(2)),
    trial(0, 5.0, OTHER, knobs=knobs(8, 1)),
    trial(0, 0.001, CPU, knobs=knobs(1, 1)),
    trial(1, None, Task(workload=WORKLOAD, target={"kind": "vdla"})),
]


def test_a_book_answers_with_the_best_knobs_that_are_legal(tmp_path):
    book = book_of(MANY)
    assert book.lookup(WORKLOAD, VDLA) == knobs(3)
    assert book.lookup(WORKLOAD, VDLA, space()) == knobs(2)  # of two of equal cost the earlier
    assert book.lookup(WORKLOAD, LLVM) == knobs(1, 1)
    assert book.lookup({**WORKLOAD, "kernel": (3, 3), "height": 28}, {**VDLA, "config": "x"}) == knobs(8, 1)
    assert book.lookup({**WORKLOAD, "height": 14}, VDLA) is None
    assert book.lookup(WORKLOAD, {"kind": "vdla"}, space()) is None
    assert book_of(MANY[1:4]).lookup(WORKLOAD, VDLA, space()) is None
    assert RecordBook().lookup(WORKLOAD, VDLA, space()) is None
    crowd = [trial(i, 1.0 + i, knobs=knobs(8)) for i in range(200)]
    assert book_of([*crowd, trial(200, 900.0)]).lookup(WORKLOAD, VDLA, space()) == knobs(4)


def test_books_of_several_files_and_over_others(tmp_path):
    first, second = file_of(tmp_path, *MANY[:3], name="1"), file_of(tmp_path, *MANY[3:], name="2")
    second.write_bytes(second.read_bytes() + b"fox\n")
    book, skipped = read_book([first, second])
    assert book == book_of(MANY)
    assert [s.warning for s in skipped] == [None, f"{second}: 1 of 8 lines skipped: 1 not JSON (line 8)"]
    # What is tuned here counts more than what was tuned elsewhere, whatever it cost there.
    mine = book_of([trial(0, 1000.0, knobs=knobs(4, 1))])
    assert mine.over(book).lookup(WORKLOAD, VDLA) == knobs(4, 1)
    assert mine.over(book).lookup(WORKLOAD, LLVM) == knobs(1, 1)
    assert book.over(mine).lookup(WORKLOAD, VDLA) == knobs(3)


def test_a_books_digest_is_that_of_its_answers():
    book = book_of(MANY)
    again = [dataclasses.replace(record, elapsed=9.0, trial=record.trial + 50) for record in MANY]
    assert book_of(again).digest == book.digest
    assert book_of(MANY[:-2]).digest != book.digest
    assert book_of([dataclasses.replace(MANY[0], knobs=knobs(1)), *MANY[1:]]).digest != book.digest


def test_the_best_few_are_what_is_worth_keeping(tmp_path):
    kept = best_records(MANY, 2)
    # Tasks in the order of their keys: 28 before 56, then targets by their hashes.
    assert [record for record in kept if record.task.target == VDLA] == [MANY[7], MANY[1], MANY[3]]
    assert kept.count(MANY[8]) == 1
    assert len(kept) == 4
    assert best_records(reversed(kept), 2) == kept
    ours = [record for record in best_records(MANY, 4) if record.task == TASK]
    assert ours == [MANY[1], MANY[3], MANY[4], MANY[5]]  # and not the worse of two with equal knobs
    path = tmp_path / "shipped.jsonl"
    write_records(path, kept)
    assert read_records(path)[0] == kept
    assert book_of(kept).lookup(WORKLOAD, VDLA) == book_of(MANY).lookup(WORKLOAD, VDLA)


def test_shipped_records_are_read_whole(tmp_path):
    files = shipped_files()
    assert "vdla.jsonl" in [skipped.source for _, skipped in files]
    assert [skipped.warning for _, skipped in files if skipped.warning] == []
    assert shipped_book() == book_of(record for records, _ in files for record in records)
    file_of(tmp_path, MANY[0], name="b.jsonl")
    file_of(tmp_path, MANY[7], MANY[8], name="a.jsonl")
    (tmp_path / "notes.txt").write_text("not these")
    assert shipped_files(tmp_path) == [
        ([MANY[7], MANY[8]], record_files.Skipped(source="a.jsonl", lines=2, kinds={})),
        ([MANY[0]], record_files.Skipped(source="b.jsonl", lines=1, kinds={})),
    ]


def test_a_search_goes_on_from_its_own_legal_trials_in_order():
    strange = [
        *reversed(MANY),
        trial(4, 1.0, knobs=knobs(1)),  # its number was used before
        trial(9, 60.0, knobs={"rows": 4}),
        trial(10, 3.0, seed=2),
        trial(10, 3.0, strategy="random"),
        trial(11, 3.0, compiler="0.0.9"),
    ]
    resumed = trials_of(strange, TASK, space(), strategy="model", seed=1)
    points, costs = points_of(resumed.trials.values(), space())
    assert list(resumed.trials) == [0, 2, 4, 5, 6]
    assert points.tolist() == [[2, 1], [2, 1], [1, 1], [0, 1], [1, 1]]
    assert costs.tolist() == [90.0, np.inf, 80.0, 80.0, 85.0]
    assert points.dtype == np.int64
    assert (resumed.duplicates, resumed.foreign, resumed.illegal, resumed.stale) == (1, 2, 1, 1)
    assert resumed.warning == (
        "5 records of this search are not used: 1 of trials that are recorded twice, 2 of knobs that the template "
        "does not have, 1 of knobs that are not legal, 1 of another version of the compiler, whose kernels may "
        "run at other speeds"
    )
    nothing = trials_of(strange, TASK, space(), strategy="genetic", seed=1)
    assert nothing.trials == {} and nothing.warning is None
    assert points_of([], space())[0].shape == (0, 2)


def test_costs_of_other_compilers_and_single_readings_do_not_compare():
    today = compiler_identity("vdla")
    old, fresh = trial(0, 50.0, knobs=knobs(1)), trial(1, 80.0, knobs=knobs(2), compiler=today)
    lucky = trial(2, 70.0, knobs=knobs(4), compiler=today)
    checked = trial(3, 75.0, knobs=knobs(8, 1), compiler=today, strategy=CHECKED)
    older = trial(4, 40.0, knobs=knobs(8, 1), compiler="0.0.9", strategy=CHECKED)
    assert book_of([old]).lookup(WORKLOAD, VDLA) == knobs(1)
    assert book_of([old, fresh]).lookup(WORKLOAD, VDLA) == knobs(2)
    assert book_of([old, fresh, lucky]).lookup(WORKLOAD, VDLA) == knobs(4)
    book = book_of([older, old, fresh, lucky, checked])
    assert [record.cost for record in book.records[TASK.key]] == [75.0, 70.0, 80.0, 40.0, 50.0]
    assert book.stale == (2, 5)


def test_records_of_a_sibling_card_go_before_another_books_of_the_very_card():
    card, sibling = (cuda_target(arch).described for arch in ("sm_90a", "sm_90"))
    mine = book_of([trial(0, 3e-6, Task(workload=WORKLOAD, target=sibling), knobs=knobs(4))])
    other = book_of([trial(0, 1e-6, Task(workload=WORKLOAD, target=card), knobs=knobs(8))])
    assert mine.over(other).lookup(WORKLOAD, card) == mine.lookup(WORKLOAD, card) == knobs(4)
    assert other.over(mine).lookup(WORKLOAD, card) == knobs(8)
