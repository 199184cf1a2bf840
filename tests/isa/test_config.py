"""Derived values and identity of configurations."""

import dataclasses

import pytest
from vdla.isa.config import Config, load_config, parse_config, toml_text
from vdla.isa.errors import ConfigError
from vdla.isa.program import config_from_dict
from vdla.isa.timing import post_latency

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
