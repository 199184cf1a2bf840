"""Spaces of machines: the syntax of their files, their points, and error messages that name the wrong entry."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vdla.codesign.explore.expressions import parse_expression
from vdla.codesign.explore.metrics import parse_constraint, parse_objectives
from vdla.codesign.explore.space import SpaceError, load_space, space_of, without_machine
from vdla.isa.config import load_config
from vdla.util.errors import UserError


def test_points_lists_ranges_and_fields_that_follow():
    space = space_of(
        {
            "base": "tiny",
            "conditions": ["inp_buffer_bytes >= 64 * block_in or read_latency == 30"],
            "fields": {
                "block_in": [4, 8, 4],
                "block_out": "block_in",
                "acc_buffer_bytes": "inp_buffer_bytes * 4",
                "inp_buffer_bytes": {"from": 256, "to": 2048, "times": 2},
                "read_latency": {"from": 30, "to": 65, "step": 15},
            },
        }
    )
    assert space.size == 2 * 4 * 3 == len({*space.points()})
    assert space.point(0) == (0, 0, 0) and space.point(space.size - 1) == (1, 3, 2)
    machine = space.machine((1, 3, 1))
    assert (machine.block_in, machine.block_out, machine.memory.read_latency) == (8, 8, 45)
    assert machine.inp_buffer_bytes == 2048 and machine.acc_buffer_bytes == 8192
    with pytest.raises(UserError, match=r"the condition inp_buffer_bytes >= .* does not hold"):
        space.machine((1, 0, 1))


def test_fifos_follow_from_the_memory_of_each_machine():
    space = space_of({"base": "vta", "fields": {"bus_bytes": [8, 64], "read_latency": [30, 400]}})
    sizes = [space.machine(point).fifo_bytes("load") for point in space.points()]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]
    assert not any(space.machine(point).warnings for point in space.points())


def test_a_field_of_words_is_searched():
    space = space_of({"base": "vta", "fields": {"data_channels": ["shared", "separate"], "bus_bytes": [8]}})
    machines = [space.machine(point) for point in space.points()]
    assert [item.memory.data_channels for item in machines] == ["shared", "separate"]
    assert len({item.digest for item in machines}) == 2
    with pytest.raises(SpaceError, match="data_channels = 2: expected texts"):
        space_of({"base": "vta", "fields": {"data_channels": [2]}})


def test_a_base_is_read_from_the_folder_of_the_space(tmp_path: Path):
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nblock_in = 8\nblock_out = 8\nacc_buffer_bytes = 32768\nwgt_buffer_bytes = 65536\n'
    )
    (tmp_path / "space.toml").write_text('base = "mine.toml"\n[fields]\nclock_mhz = [50, 200]\n')
    space = load_space(tmp_path / "space.toml")
    assert space.base.name == "mine" and [space.machine(p).clock_mhz for p in space.points()] == [50, 200]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "has no"),
        ({"fields": {}}, "has no"),
        ({"fields": {"blok_in": [8]}}, "there is no field blok_in; did you mean block_in?"),
        ({"fields": {"block_in": []}}, "block_in has 0 values"),
        ({"fields": {"block_in": [8.5]}}, "expected integers"),
        ({"fields": {"extensions": ["post"]}}, "expected lists of names"),
        ({"fields": {"block_in": {"from": 8, "to": 4, "step": 1}}}, "from = 8 is above to = 4; exchange"),
        (
            {"fields": {"block_in": {"from": 8, "to": 64, "times": 1}}},
            "never gets past to = 64; give times = 2",
        ),
        ({"fields": {"block_in": {"from": 8, "to": 64}}}, "write a range as"),
        ({"fields": {"block_in": "block_out", "block_out": "block_in"}}, "depend on each other in a circle"),
        ({"fields": {"block_in": "lanes"}}, "there is no field lanes"),
        ({"fields": {"block_in": [8]}, "conditions": "x"}, "give a list of texts"),
        ({"fields": {"block_in": [8]}, "condition": []}, "unknown key condition"),
        (
            {"fields": {"block_in": [3, 5]}},
            "none of 2 examined choices of field values is a legal machine; change fields or conditions; the first "
            "choice fails with: block_in = 3",
        ),
        ({"base": "nobody", "fields": {"block_in": [8]}}, "nobody: "),
        ({"base": 3, "fields": {"block_in": [8]}}, "give a preset"),
    ],
)
def test_invalid_spaces_are_refused(table: dict[str, object], message: str):
    with pytest.raises(UserError, match=message.replace("?", r"\?")):
        space_of(table)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "block_in.real",
        "[1]",
        "lambda: 1",
        "block_in ** 99",
        "'a'",
        "1 +",
        "f(1)",
        "2.5",
        "x" * 600,
    ],
)
def test_expressions_that_are_refused(text: str):
    with pytest.raises(UserError):
        parse_expression(text)


def test_expressions():
    fields = {"a": 6, "b": 4, "names": ("post",)}
    cases = {"a * b - 1": 23, "a // b % 2": 1, "1 < b <= a": 1, "not (a == 6 and b > 9) or -a": 1, "-b": -4}
    for text, value in cases.items():
        assert parse_expression(text).value(fields) == value
    for text in ("a // (b - 4)", "names + 1", " * ".join(["a"] * 200)):
        with pytest.raises(UserError):
            parse_expression(text).value(fields)


def test_constraints_and_objectives():
    assert parse_constraint("area<2mm2").excess(3.0) == 0.5
    assert parse_constraint("area < 2e6 um2").limit == 2.0
    assert parse_constraint("latency<=5us").limit == 5e-3
    assert parse_constraint("energy<3mJ").limit == pytest.approx(3000)
    assert parse_constraint("utilization>0.9").excess(0.45) == 0.5
    for text in ("area", "area<", "area<2parsec", "speed<2", "area<1..2", "area=2", "area<1e999"):
        with pytest.raises(UserError):
            parse_constraint(text)
    for names in ([], ["latency", "latency"], ["speed"]):
        with pytest.raises(UserError):
            parse_objectives(names)


@pytest.mark.parametrize(
    "values", ["not 1", "extensions", [[["post"]]], [["post", 1]], [[None]], [{}], ["post"], 3]
)
def test_invalid_lists_of_extensions_are_refused(values: object):
    with pytest.raises(SpaceError, match=r"extensions = .*: expected lists of names"):
        space_of({"base": "tiny", "fields": {"extensions": values}})


def test_a_base_that_is_a_pipe(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "space.toml").write_text('base = "pipe"\n[fields]\nacc_banks = [1, 2]\n')
    with pytest.raises(SpaceError, match="a pipe or a device, not a file"):
        load_space(tmp_path / "space.toml")


def test_machines_have_the_bases_other_fields():
    machine = space_of({"base": "edge8", "fields": {"clock_mhz": [70]}}).machine((0,))
    base = load_config("edge8")
    assert machine.inp_buffer_bytes == base.inp_buffer_bytes and machine.clock_mhz == 70


def test_points_without_a_machine_are_counted_with_their_reason():
    square = {"base": "vta", "fields": {"block_in": [8, 16], "block_out": "block_in"}}
    assert without_machine(space_of(square)) is None
    fields = {"block_in": [8, 16, 32], "block_out": [8, 16]}
    table = {"base": "vta", "fields": fields, "conditions": ["block_in <= block_out"]}
    told = without_machine(space_of(table))
    assert told == "3 of 6 points are not legal machines: the condition block_in <= block_out does not hold"


def test_conditions_and_fields_that_follow_read_the_sizes_of_the_designs_fifos():
    """If a space of machines does not name FIFO sizes, they follow from the bus of each design. Conditions and other
    fields of the space may read FIFO sizes; they must get the sizes of the design, not those of the base machine
    `tiny`.
    """
    fields = {"bus_bytes": [8, 64], "token_queue_depth": "load_fifo_bytes // 64"}
    table = {"base": "tiny", "fields": fields, "conditions": ["load_fifo_bytes <= 2048"]}
    space = space_of(table)
    told = without_machine(space)
    assert told == "1 of 2 points are not legal machines: the condition load_fifo_bytes <= 2048 does not hold"
    machine = space.machine((0,))
    assert (
        machine.fifo_bytes("load") <= 2048 and machine.token_queue_depth == machine.fifo_bytes("load") // 64
    )
    wide = space_of(table | {"conditions": ["load_fifo_bytes > 2048"]}).machine((1,))
    assert wide.fifo_bytes("load") == 64 * wide.token_queue_depth > 2048
    named = space_of({"base": "tiny", "fields": {"bus_bytes": [64], "load_fifo_bytes": [16384]}})
    assert named.machine((0, 0)).load_fifo_bytes == 16384


def test_designs_of_a_base_that_names_no_extensions_have_those_that_suit_their_shape():
    space = space_of({"base": "tiny", "fields": {"block_in": [4, 8], "block_out": [8]}})
    assert without_machine(space) is None
    found = [space.machine(point).extensions for point in space.points()]
    assert found == [("post", "patch", "depthwise", "taps"), ("post", "patch", "depthwise")]
