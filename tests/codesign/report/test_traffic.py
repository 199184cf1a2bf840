import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdla.codesign.report.split import layer_boundaries
from vdla.codesign.report.traffic import (
    KINDS,
    Traffic,
    Unread,
    explain_excess,
    find_runs,
    group_traffic,
    owners,
)
from vdla.isa.config import Config, load_config
from vdla.isa.layout import encode
from vdla.isa.program import Program
from vdla.isa.registers import register_value


def words(config: Config, *instructions: tuple[str, dict[str, int]]) -> np.ndarray:
    rows = [encode(config, name, **values) for name, values in instructions]
    return np.array(rows, dtype=np.uint64)


def pieces(config: Config, *instructions: tuple[str, dict[str, int]]) -> list[tuple[int, str, int, int]]:
    runs = find_runs(config, words(config, *instructions), 4096)
    rows = zip(runs.instruction, runs.kind, runs.start, runs.length, strict=True)
    return [(int(i), KINDS[k], int(s), int(n)) for i, k, s, n in rows if KINDS[k] != "instruction"]


def test_rows_of_a_strided_load() -> None:
    vta = load_config("vta")
    load = (
        "LOAD.INP",
        {"dram_base": 10, "y_size": 2, "x_size": 3, "x_stride": 7, "y_pad_0": 2, "x_pad_1": 1},
    )
    assert pieces(vta, load) == [(0, "inp", 160, 48), (0, "inp", 160 + 7 * 16, 48)]


@pytest.mark.parametrize(
    ("name", "kind", "size"),
    [
        ("LOAD.UOP", "uop", 4),
        ("LOAD.WGT", "wgt", 256),
        ("LOAD.ACC", "acc", 64),
        ("LOAD.ACC8", "acc", 16),
        ("LOAD.PAR", "par", 128),
    ],
)
def test_element_sizes(name: str, kind: str, size: int) -> None:
    load = (name, {"dram_base": 3, "y_size": 1, "x_size": 2, "x_stride": 2})
    assert pieces(load_config("vta"), load) == [(0, kind, 3 * size, 2 * size)]


def test_empty_transfers_move_nothing() -> None:
    empty = {"dram_base": 3, "y_size": 4, "x_size": 0, "x_stride": 2}
    assert pieces(load_config("vta"), ("LOAD.INP", empty), ("STORE.OUT", empty), ("FINISH", {})) == []


def test_patch_reads_each_row_once_and_only_inside_the_image() -> None:
    # A 7x7 window of 3 channels, stride 2, pad 3 over rows of 672 bytes: the first patch starts 9 bytes outside.
    vta = load_config("vta")
    register = register_value("PATCH", run=21, step=6, pitch=10, pad_left=9, row_bytes=672)
    config = ("CONFIG", {"unit": 0, "register": 1, "value": register})
    load = {"dram_base": 1000, "x_size": 112, "x_stride": 672, "y_size": 2, "y_pad_0": 1}
    assert pieces(vta, config, ("LOAD.PATCH", load)) == [(1, "inp", 1000, 672), (1, "inp", 1672, 672)]
    inner = {**load, "x_size": 2, "y_size": 1, "y_pad_0": 0}
    assert pieces(vta, config, ("LOAD.PATCH", inner)) == [(1, "inp", 1000, 6 + 21 - 9)]


def test_operand_reads_follow_the_register_in_force() -> None:
    vta = load_config("vta")
    store = {"dram_base": 100, "y_size": 1, "x_size": 2, "x_stride": 2, "combine": 1, "operand": 1}

    def delta(value: int) -> tuple[str, dict[str, int]]:
        return ("CONFIG", {"unit": 2, "register": 5, "value": register_value("OPERAND", delta=value)})

    got = pieces(
        vta, ("STORE.POST", store), delta(-40), ("STORE.POST", store), delta(8), ("STORE.POST", store)
    )
    assert [piece for piece in got if piece[1] == "out"] == [(i, "out", 1600, 32) for i in (0, 2, 4)]
    assert [piece[2] for piece in got if piece[1] == "operand"] == [1600, 960, 1728]


def program(config: Config, group_of: list[int], *instructions: tuple[str, dict[str, int]]) -> Program:
    return Program(
        config=config,
        instructions=words(config, *instructions),
        image=np.zeros(5000, np.uint8),
        groups=("first", "second"),
        group_of=np.array(group_of, np.int32),
    )


def test_groups_share_out_everything_and_tell_reads_again() -> None:
    vta = load_config("vta")
    load = {"dram_base": 0, "y_size": 1, "x_size": 10, "x_stride": 10}
    halo = {**load, "dram_base": 8}
    made = program(
        vta,
        [-1, 0, 0, 1, -1],
        ("FINISH", {}),
        ("LOAD.INP", load),
        ("LOAD.INP", halo),
        ("LOAD.INP", load),
        ("FINISH", {}),
    )
    assert owners(made).tolist() == [0, 0, 0, 1, 1]
    first, second = group_traffic(made)
    assert first.moved["inp"] == 320 and first.distinct["inp"] == 18 * 16
    assert second.moved["inp"] == second.distinct["inp"] == 160
    assert first.moved["instruction"] == 3 * 16 and second.moved["instruction"] == 2 * 16
    assert first.total + second.total == 480 + 80


@given(st.data())
def test_explanations_sum_up(data: st.DataObject) -> None:
    moved = {kind: data.draw(st.integers(0, 1000)) for kind in KINDS}
    distinct = {kind: data.draw(st.integers(0, moved[kind])) for kind in KINDS}
    compulsory = {kind: data.draw(st.integers(0, 1000)) for kind in ("inp", "wgt", "par", "operand", "out")}
    excess = explain_excess(Traffic(moved=moved, distinct=distinct), compulsory)
    assert sum(compulsory.values()) + sum(excess.values()) == sum(moved.values())
    assert all(excess.values())


def test_reasons_have_names() -> None:
    moved = dict.fromkeys(KINDS, 0) | {
        "inp": 120,
        "wgt": 64,
        "out": 32,
        "uop": 8,
        "instruction": 16,
        "par": 128,
    }
    distinct = dict(moved) | {"inp": 90}
    compulsory = {"inp": 50, "wgt": 48, "out": 40, "par": 64}
    assert explain_excess(Traffic(moved=moved, distinct=distinct, unread={"inp": 25}), compulsory) == {
        "instructions": 16,
        "micro-ops": 8,
        "wgt padding": 16,
        "inp read again": 30,
        "inp skipped by windows": 25,
        "inp padding": 15,
        "scales and padded channels": 64,
        "out not moved": -8,
    }


def test_bytes_that_no_window_reads_are_counted_once_and_only_where_they_were_loaded() -> None:
    vta = load_config("vta")
    load = {"dram_base": 4, "y_size": 2, "x_size": 3, "x_stride": 8}
    made = program(vta, [0, 0, 0], ("LOAD.INP", load), ("LOAD.INP", load), ("FINISH", {}))
    # Bytes 64 to 112 and 192 to 240 are loaded; of a tensor at 100 every second byte holds what no window reads.
    mask = np.arange(200) % 2 == 0
    unread = Unread(start=100, mask=mask)
    only, _ = group_traffic(made, [unread, unread])
    assert only.unread == {"inp": 12 // 2 + 48 // 2, "acc": 0} and only.distinct["inp"] == 96


def test_layers_end_with_their_last_store_and_share_out_all_cycles() -> None:
    vta = load_config("vta")
    store = ("STORE.OUT", {})
    made = program(vta, [0, 0, 1, 1, -1], store, store, ("LOAD.INP", {}), store, ("FINISH", {}))
    ends = np.array([50, 40, 10, 90, 95])
    assert layer_boundaries(made, ends, 95).tolist() == [0, 50, 95]
    overtaken = np.array([50, 60, 10, 30, 95])
    assert layer_boundaries(made, overtaken, 95).tolist() == [0, 60, 95]
