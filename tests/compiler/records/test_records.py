"""A tuning record as a line of JSON: it is read back as it was, and an invalid line is refused with the reason."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_records import LINE, LLVM, TASK, VDLA, WORKLOAD, trial

from vdla.compiler.codegen.cpu.machine import CpuTarget
from vdla.compiler.records.line import (
    MOST_BYTES,
    MOST_CHARACTERS,
    LineError,
    LineParser,
    record_line,
)
from vdla.compiler.records.record import Task
from vdla.isa.config import load_config


def test_the_form_of_a_line_is_stable():
    assert record_line(trial()) == LINE
    assert LineParser().parse(LINE) == trial()
    compiled = trial(compiler="0.1.0+6d3f")
    assert record_line(compiled) == LINE[:-2] + b',"compiler":"0.1.0+6d3f"}\n'
    parser = LineParser()
    assert [parser.parse(line) for line in (record_line(compiled), LINE)] == [compiled, trial()]
    with pytest.raises(LineError, match="compiler is 7, must be a printable word"):
        parser.parse(record_line(compiled).replace(b'"0.1.0+6d3f"', b"7"))
    # As a person or another program might write it.
    fields = json.loads(LINE)
    spaced = json.dumps({name: fields[name] for name in reversed(fields)}, indent=None).encode()
    assert LineParser().parse(spaced) == trial()
    nested = trial(task=Task(workload={"template": "a", "b": 1, "knobs": {"c": '","knobs":'}}, target=VDLA))
    parser = LineParser()
    assert [parser.parse(record_line(nested)) for _ in range(2)] == [nested] * 2
    # It begins like that line, up to the first "knobs", and goes on like any other.
    mixed = record_line(nested).partition(b',"knobs":')[0] + LINE[LINE.index(b',"knobs":') :]
    with pytest.raises(LineError, match="not JSON"):
        parser.parse(mixed)


def test_failures_and_numbers_of_numpy_come_back():
    failed = trial(cost=None, error="LegalityError: rows\n    split(i, 3)\n      ^\x1b[31m")
    back = LineParser().parse(record_line(failed))
    assert (back.cost, back.error) == (None, "LegalityError: rows split(i, 3) ^\\x1b[31m")
    back = LineParser().parse(record_line(trial(cost=None, error="é" * 10**5)))
    assert back.error == "é" * MOST_CHARACTERS
    assert LineParser().parse(record_line(trial(cost=None, error=" \n"))).error == "no reason given"
    counted = trial(np.int64(3), np.float64(7040), knobs={"rows": np.int64(4), "threads": np.int32(2)})
    assert record_line(counted) == LINE


def test_tasks_are_equal_by_what_they_are_not_by_names_and_order():
    turned = {"relu": True, "kernel": (3, 3), "height": 56, "template": "conv2d"}
    assert Task(workload=turned, target=VDLA).workload == WORKLOAD
    assert Task(workload=turned, target=VDLA) == TASK
    assert {TASK: 1}[Task(workload=turned, target={**VDLA, "config": "mine"})] == 1
    assert Task(workload=WORKLOAD, target={**VDLA, "config": "mine"}).key == TASK.key
    keys = {TASK.key}
    for other in ({"relu": 1}, {"relu": 1.0}, {"height": 57}, {"kernel": [3, 3, 1]}, {"stride": 1}):
        keys.add(Task(workload={**WORKLOAD, **other}, target=VDLA).key)
    keys.add(Task(workload=WORKLOAD, target={**VDLA, "digest": "ed07"}).key)
    keys.add(Task(workload=WORKLOAD, target={**LLVM, "digest": "ed06"}).key)
    keys.add(Task(workload=WORKLOAD, target={"kind": "vdla"}).key)
    assert len(keys) == 9


def test_targets_are_described_by_what_they_are():
    vta = load_config("vta")
    renamed, faster = dataclasses.replace(vta, name="mine"), dataclasses.replace(vta, clock_mhz=200)
    keys = [
        Task(workload=WORKLOAD, target=c.described).key for c in (vta, renamed, faster, load_config("vta"))
    ]
    assert keys[0] == keys[1] == keys[3] != keys[2]
    assert vta.described == {"kind": "vdla", "config": "vta", "digest": vta.digest}

    cpu = CpuTarget(
        triple="x86_64-linux-gnu",
        cpu="znver5",
        features="+avx512f,+clwb",
        vector_bits=512,
        vector_registers=32,
        fused_multiply_add=True,
        dot_product=True,
    )
    assert cpu.described.keys() == {"kind", "triple", "cpu", "digest"}
    # A virtual machine that hides what no kernel uses is the same machine; one with other vectors or caches is none.
    assert dataclasses.replace(cpu, features="+avx512f,-clwb").digest == cpu.digest
    assert dataclasses.replace(cpu, features="-avx512f,+clwb").digest != cpu.digest
    assert dataclasses.replace(cpu, cache_bytes=(49152, 1 << 20)).digest != cpu.digest


REFUSED = [
    ({"workload": "conv2d"}, "workload is 'conv2d', must be an object"),
    ({"workload": {"height": 3}}, "workload.template is None, must be a name"),
    ({"workload": {"template": "\x1b[2J"}}, "workload.template is '\\x1b[2J', must be a name"),
    ({"workload": {"template": "a", "b": "\ud800"}}, "workload.b is"),
    (
        {"workload": {"template": "a", "b": [1, 2**63]}},
        "workload.b[1] is 9223372036854775808, must be a plain",
    ),
    ({"workload": {"template": "a", "b": [[[[[[[[[]]]]]]]]]}}, "is nested more than 8 levels deep"),
    ({"workload": {"template": "a", "": 1}}, "workload has a field ''"),
    ({"target": {"kind": "tpu"}}, "target.kind is 'tpu', must be one of vdla, llvm, cuda"),
    ({"target": None}, "target is None, must be an object"),
    ({"knobs": []}, "knobs is [], must be an object"),
    ({"knobs": {"rows": "4"}}, "knobs.rows is '4', must be an integer"),
    ({"knobs": {"rows": True}}, "knobs.rows is True, must be an integer"),
    ({"knobs": {"rows": 4.0}}, "knobs.rows is 4.0, must be an integer"),
    ({"knobs": {"rows": 2**63}}, "must be an integer"),
    ({"knobs": {"": 1}}, "the name of a knob is '', must be a printable word"),
    ({"cost": "7040"}, "cost is '7040', must be a positive number"),
    ({"cost": -1.0}, "cost is -1.0, must be a positive number"),
    ({"cost": 0}, "cost is 0, must be a positive number"),
    ({"cost": False}, "cost is False, must be a positive number"),
    ({"cost": 10**400}, "must be a positive number"),
    ({"cost": None}, "error is None, must be one line of text"),
    (
        {"cost": None, "error": "x" * 501},
        "must be one line of text, at most 500 characters, where cost is null",
    ),
    ({"cost": None, "error": "a\nb"}, "must be one line of text"),
    ({"error": "slow"}, "error is 'slow', must be null where there is a cost"),
    ({"unit": "seconds"}, "unit is 'seconds', must be cycles for this target"),
    ({"target": LLVM}, "unit is 'cycles', must be seconds for this target"),
    ({"trial": -1}, "trial is -1, must be an integer of 0 or more"),
    ({"trial": 1.0}, "trial is 1.0, must be an integer of 0 or more"),
    ({"trial": 1 << 40}, "trial is 1099511627776, must be below 1,099,511,627,776"),
    ({"seed": None}, "seed is None, must be an integer of 0 or more"),
    ({"strategy": ""}, "strategy is '', must be a printable word"),
    ({"strategy": ["model"]}, "strategy is ['model'], must be a printable word"),
    ({"elapsed": -0.5}, "elapsed is -0.5, must be a number of seconds, 0 or more"),
    ({"elapsed": "soon"}, "elapsed is 'soon'"),
    ({"note": "x"}, "it has an unknown field 'note'"),
    ({"version": "1"}, "it has no version"),
    ({"version": True}, "it has no version"),
]


@pytest.mark.parametrize(("changes", "detail"), REFUSED)
def test_records_with_invalid_fields_are_refused(changes, detail):
    line = json.dumps({**json.loads(LINE), **changes}, separators=(",", ":")).encode()
    warm = LineParser()
    warm.parse(LINE)
    for parser in (LineParser(), warm):
        with pytest.raises(LineError) as caught:
            parser.parse(line)
        assert caught.value.kind == "not a record"
        assert detail in caught.value.detail
        assert caught.value.detail.isprintable()


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (LINE[:-2], "not JSON"),
        (LINE[:-1] + LINE, "not JSON"),
        (LINE.replace(b"7040.0", b"NaN"), "not JSON"),
        (LINE.replace(b"7040.0", b"-Infinity"), "not JSON"),
        (LINE.replace(b"7040.0", b"9" * 5000), "not JSON"),
        (b"[" * 60_000, "not JSON"),
        (b'{"a":' * 10_000, "not JSON"),
        (b"the fox", "not JSON"),
        (LINE.replace(b'"rows":4', b'"rows":4,"rows":5'), "with a field twice"),
        (LINE.replace(b'"seed":1', b'"seed":1,"version":1'), "with a field twice"),
        (LINE.replace(b'"relu":true', b'"relu":true,"relu":true'), "with a field twice"),
        (LINE.replace(b'"version":1', b'"version":2'), "of another version"),
        (b'{"version":7,"what":"ever"}', "of another version"),
        (LINE.replace(b"7040.0", b"1e999"), "not a record"),
        (LINE.replace(b'"seed":1,', b""), "not a record"),
        (b"[1, 2]", "not a record"),
        (b'"version"', "not a record"),
        (b"\xff" + LINE, "not text"),
        (b"\0" * 100, "not text"),
        (LINE[:-1] + b" " * MOST_BYTES, f"longer than {MOST_BYTES} bytes"),
    ],
)
def test_lines_that_are_not_records_are_refused(line, kind):
    warm = LineParser()
    warm.parse(LINE)
    for parser in (LineParser(), warm):
        with pytest.raises(LineError) as caught:
            parser.parse(line)
        assert caught.value.kind == kind


@settings(max_examples=examples(150), deadline=None)
@given(
    st.integers(0, len(LINE) - 1),
    st.integers(0, 12),
    st.sampled_from(
        [b"", b'"', b",", b"{", b"}", b"[", b"\\", b"1", b'"seed":1,', b',"knobs":{}', b'"target":{},']
    ),
)
def test_remembered_tasks_change_no_answer(begin, length, middle):
    line = LINE[:begin] + middle + LINE[begin + length :]
    warm = LineParser()
    warm.parse(LINE)
    answers = []
    for parser in (LineParser(), warm, warm):
        try:
            answers.append(parser.parse(line))
        except LineError as error:
            answers.append((error.kind, error.detail))
    assert answers[0] == answers[1] == answers[2]


def test_a_record_too_long_to_be_read_is_not_written():
    task = Task(workload={"template": "a", "b": [1] * MOST_BYTES}, target=VDLA)
    with pytest.raises(ValueError, match=f"a record is longer than {MOST_BYTES} bytes"):
        record_line(trial(task=task))
