"""Derived values and equality of configurations."""

import dataclasses

import pytest

from vdla.isa.config import Config, load_config, parse_config
from vdla.isa.config_text import toml_text
from vdla.isa.errors import ConfigError
from vdla.isa.program_file import config_from_dict
from vdla.isa.timing import post_latency, write_burst_beats

EDGE8 = load_config("edge8")


@pytest.mark.parametrize(("lanes", "passes"), [(None, 1), (16, 1), (8, 2), (1, 16)])
def test_passes_make_up_for_the_lanes_that_are_missing(lanes: int | None, passes: int):
    config = Config(batch=2, block_in=8, block_out=8, wgt_buffer_bytes=65536, post_lanes=lanes)
    assert config.post_passes == passes
    assert post_latency(config) == post_latency(dataclasses.replace(config, post_lanes=None)) + passes - 1


def test_without_post_there_is_nothing_to_pass():
    assert dataclasses.replace(EDGE8, extensions=("patch",)).post_passes == 1


def test_a_lane_count_makes_another_machine_unless_it_is_all_lanes():
    absent = dataclasses.replace(EDGE8, post_lanes=None)
    digests = [dataclasses.replace(EDGE8, post_lanes=lanes).digest for lanes in (1, 2, 4, 8)]
    assert len(set(digests)) == 4 and digests[-1] == absent.digest


@pytest.mark.parametrize("lanes", [None, 2])
def test_written_and_read_again(lanes: int | None):
    config = dataclasses.replace(EDGE8, post_lanes=lanes)
    assert parse_config(toml_text(config), "text") == config_from_dict(config.to_dict()) == config


@pytest.mark.parametrize("lanes", [3, 16, 0, -4, True, 2.0])
def test_impossible_lane_counts_are_refused(lanes: object):
    with pytest.raises(
        ConfigError, match=r"post_lanes = .* power of two from 1 to batch \* block_out = 8; leave"
    ):
        dataclasses.replace(EDGE8, post_lanes=lanes)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("depth", "banks", "bank"),
    [(128, 4, 32), (100, 4, 32), (129, 4, 64), (65, 4, 32), (3, 2, 2), (90, 1, 128)],
)
def test_banks_are_powers_of_two_of_any_number_of_vectors(depth: int, banks: int, bank: int):
    """Bank sizes are powers of two, so that the upper bits of an index are the bank; the last banks may be smaller or
    empty.
    """
    config = dataclasses.replace(EDGE8, acc_buffer_bytes=depth * EDGE8.acc_bytes, acc_banks=banks)
    assert (config.acc_depth, config.acc_bank_depth) == (depth, bank)
    assert (depth - 1) // bank < banks


def test_any_number_of_elements_makes_a_scratchpad():
    sizes = {
        "uop_buffer_bytes": 300 * 4,
        "inp_buffer_bytes": 77 * EDGE8.inp_bytes,
        "wgt_buffer_bytes": 3 * EDGE8.wgt_bytes,
        "acc_buffer_bytes": 1000 * EDGE8.acc_bytes,
        "par_buffer_bytes": 5 * EDGE8.par_bytes,
    }
    config = dataclasses.replace(EDGE8, **sizes)  # pyright: ignore[reportArgumentType]
    assert [config.uop_depth, config.inp_depth, config.wgt_depth, config.acc_depth, config.par_depth] == [
        300,
        77,
        3,
        1000,
        5,
    ]
    assert [config.uop_index_bits, config.inp_index_bits, config.wgt_index_bits, config.acc_index_bits] == [
        9,
        7,
        2,
        10,
    ]
    assert parse_config(toml_text(config), "text") == config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"acc_buffer_bytes": 1000}, r"multiple of 32, the bytes of one element; 992 and 1024 are"),
        ({"acc_buffer_bytes": 32}, r"at least two acc elements"),
        ({"wgt_buffer_bytes": True}, r"multiple of 64"),
        ({"par_buffer_bytes": 0}, r"multiple of 64, the bytes of one element; 64 and 128 are"),
    ],
)
def test_parts_of_elements_are_refused(values: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(EDGE8, **values)  # pyright: ignore[reportArgumentType]


def test_bursts_of_the_widest_vectors_hold_whole_vectors():
    config = Config(batch=8, block_in=4, block_out=128, wgt_buffer_bytes=65536, extensions=("post",))
    assert write_burst_beats(config) * config.memory.bus_bytes == config.out_bytes == 1024


@pytest.mark.parametrize(
    ("fields", "extensions"),
    [
        ({"block_in": 16, "block_out": 16}, ("post", "patch", "depthwise")),
        ({"block_in": 8, "block_out": 32}, ("post", "patch", "depthwise", "taps")),
        ({"block_in": 128, "block_out": 4}, ("post", "patch", "depthwise", "taps")),
        # Three positions of 32 bytes: the banks of taps hold eight at least.
        ({"block_in": 8, "block_out": 32, "inp_buffer_bytes": 96}, ("post", "patch")),
        ({"block_in": 8, "block_out": 16, "chain_buffer_bytes": 48}, ("post", "patch")),
    ],
)
def test_a_machine_that_names_no_extensions_has_those_that_suit_its_shape(fields: dict, extensions: tuple):
    machine = Config(**fields)
    assert machine.extensions == extensions and machine.chose_extensions
    named = dataclasses.replace(machine, extensions=tuple(extensions))
    assert named == machine and named.digest == machine.digest and not named.chose_extensions
    # Another shape has its own; named ones stay, and are refused where the shape cannot have them.
    other = dataclasses.replace(
        machine, block_in=16, block_out=16, inp_buffer_bytes=32768, chain_buffer_bytes=0
    )
    assert other.extensions == ("post", "patch", "depthwise")
    written = parse_config(toml_text(machine, as_given=True), "text")
    assert written == machine and written.chose_extensions
    assert not parse_config(toml_text(machine), "text").chose_extensions


def test_named_extensions_are_refused_where_the_shape_cannot_have_them():
    with pytest.raises(ConfigError, match="depthwise needs block_in = block_out"):
        Config(block_in=8, block_out=32, extensions=("post", "depthwise"))
