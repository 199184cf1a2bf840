"""The form of the generated Verilog: what is alike is one module, and memories are zero at power-up."""

import re
from collections import Counter

import pytest
from vdla.hw.compute.array import COLUMN
from vdla.hw.store import combine, requantize
from vdla.hw.verilog import generate_verilog
from vdla.isa.config import load_config

TINY = load_config("tiny")


@pytest.fixture(scope="module")
def text() -> str:
    return generate_verilog(TINY)


def test_equal_units_are_instances_of_one_module(text: str):
    modules = Counter(re.findall(r"^module (\S+)\(", text, re.MULTILINE))
    instances = Counter(re.findall(r"^  ([a-z]\w*) \w+ \($", text, re.MULTILINE))
    assert set(modules.values()) == {1}
    columns = TINY.batch * TINY.block_out
    assert instances[COLUMN] == columns and instances[requantize.LANE] == columns
    kinds = {name: count for name, count in instances.items() if name.startswith(combine.LANE)}
    # Four kinds, so that synthesis does not merge what selects in all lanes.
    assert sum(kinds.values()) == columns and len(kinds) == min(4, columns)
    assert instances.keys() <= modules.keys()


def test_every_memory_has_initial_values(text: str):
    memories = 0
    for module in re.findall(r"^module .*?^endmodule$", text, re.MULTILINE | re.DOTALL):
        for name in re.findall(r"^  reg (?:\[\d+:0\] )?(\\\S+|\w+) +\[\d+:0\];$", module, re.MULTILINE):
            memories += 1
            assert re.search(rf"^ +{re.escape(name)} ?\[.*\] = \d+'", module, re.MULTILINE), name
    assert memories > 10
    # A word a line would be most of the text of a large machine.
    assert len(re.findall(r"\[\d+\] = 32'd0;", text)) < 10
