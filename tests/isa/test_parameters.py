"""A field of a configuration is declared in one place. The tests check what follows from the declaration: range checks,
documentation, stored forms, and the values of random machines.
"""

import dataclasses
import re
from typing import Any

import pytest

from vdla.isa.config import Config, Memory, parse_config
from vdla.isa.describe import field_table
from vdla.isa.dram_memory import DRAM_FIELDS
from vdla.isa.errors import ConfigError
from vdla.isa.parameters import check_declared, declared, parameter
from vdla.verify.cosim.machines import default_machines
from vdla.verify.random_programs import random_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """A dataclass with declared fields of every kind of range."""

    free: int = parameter(5, "no range of its own")
    size: int = parameter(4, "a power of two", low=2, high=8, power_of_two=True)
    count: int = parameter(3, "a range", low=1, high=9, samples=(1, 9))
    absent: int | None = parameter(None, "may be left out", low=1, high=4)
    word: str = parameter("near", "one of two words", holds=str, choices=("near", "far"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 6}, "memory.size = 6: must be a power of two, 2, 4 or 8"),
        ({"size": 16}, "memory.size = 16: must be a power of two, 2, 4 or 8"),
        ({"count": 0}, "memory.count = 0: must lie between 1 and 9"),
        ({"count": True}, "memory.count = True: expected an integer, 1 to 9"),
        ({"absent": 5}, "memory.absent = 5: must lie between 1 and 4"),
        ({"word": "Far"}, "memory.word = 'Far': give 'near' or 'far'"),
        ({"word": 1}, "memory.word = 1: give 'near' or 'far'"),
    ],
)
def test_values_outside_the_declared_range_are_refused(change: dict[str, Any], message: str):
    with pytest.raises(ConfigError) as error:
        check_declared(Example(**change), "memory.")
    assert str(error.value) == message


def test_values_inside_the_declared_range_are_accepted():
    check_declared(Example(free=-7, size=8, count=9, word="far"))


def test_every_field_is_declared_and_documented():
    names = [item.name for item in dataclasses.fields(Config)]
    assert [name for name, _, _ in declared(Config)] == [
        name for name in names if name not in ("name", "extensions", "instructions", "memory")
    ]
    assert [name for name, _, _ in declared(Memory)] == [item.name for item in dataclasses.fields(Memory)]
    table = field_table()
    for prefix, kind in (("", Config), ("memory.", Memory)):
        for name, _, item in declared(kind):
            line = next(line for line in table.splitlines() if line.startswith(f"| `{prefix}{name}` |"))
            assert item.doc in line and item.legal in line


@pytest.mark.parametrize("kind", [Config, Memory])
def test_samples_are_legal_and_reach_random_machines(kind: type):
    machines = [random_config(seed) for seed in range(60)]
    for name, _, item in declared(kind):
        if not item.samples:
            continue
        for sample in item.samples:
            check_declared(dataclasses.replace(kind(), **{name: sample}))
        owners = machines if kind is Config else [machine.memory for machine in machines]
        assert {getattr(owner, name) for owner in owners} == set(item.samples)


def test_the_machines_of_cosimulation_vary_every_field_of_the_rtl():
    machines = default_machines()
    for kind in (Config, Memory):
        owners = machines if kind is Config else [machine.memory for machine in machines]
        for name, _, item in declared(kind):
            if item.rtl and item.samples:
                assert len({getattr(owner, name) for owner in owners}) > 1, name


def test_fields_added_later_leave_what_was_stored_as_it_was():
    config = Config()
    later = {
        (kind, name): (default, item)
        for kind in (Config, Memory)
        for name, default, item in declared(kind)
        if item.later and name not in DRAM_FIELDS
    }
    for (kind, name), (default, item) in later.items():
        assert item.samples and any(sample != default for sample in item.samples)
        owner = config if kind is Config else config.memory
        other = next(sample for sample in item.samples if sample != default)
        changed = dataclasses.replace(owner, **{name: other})
        machine = changed if isinstance(changed, Config) else dataclasses.replace(config, memory=changed)
        stored = machine.to_dict() if kind is Config else machine.to_dict()["memory"]
        assert stored[name] == other and machine.digest != config.digest
    assert not {name for kind, name in later if kind is Config} & set(config.to_dict())
    assert not {name for kind, name in later if kind is Memory} & set(config.to_dict()["memory"])


def test_fields_of_a_dram_are_stored_only_for_a_dram():
    assert not set(DRAM_FIELDS) & set(Config().to_dict()["memory"])
    dram = Config(memory=Memory(kind="dram", part="MT47H64M16", refresh=False, bank_bytes=1 << 14))
    stored = dram.to_dict()["memory"]
    assert {name: stored[name] for name in DRAM_FIELDS if name in stored} == {
        "kind": "dram", "part": "MT47H64M16", "refresh": False, "bank_bytes": 1 << 14,
    }  # fmt: skip
    assert dataclasses.replace(dram, memory=Memory(**stored)).digest == dram.digest
    digests = {dram.digest, Config().digest}
    others = {"part": "MT47H128M8", "width": 32, "refresh": True, "bank_bytes": 1 << 15, "channels": 2}
    for name, value in others.items():
        width = {"bus_bytes": 16} if name == "width" else {"width": 16} if name == "part" else {}
        memory = dataclasses.replace(dram.memory, **{name: value}, **width)
        digests.add(dataclasses.replace(dram, memory=memory).digest)
    assert len(digests) == 7


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('kind = "ddr"', "memory.kind = 'ddr': give 'fixed' or 'dram'"),
        ('part = "MT47H64M16"', "memory.part is a field of a DRAM; add kind = 'dram' to the memory"),
        ('kind = "dram"', "memory.kind = 'dram' needs the memory's part; give one of IS42S16160"),
        ('kind = "dram"\npart = 3', "memory.part = 3: expected text"),
        ('kind = "dram"\npart = "MT47H64M16"\nwidth = 0', "memory.width = 0: expected an integer above 0"),
        ('kind = "dram"\npart = "MT47H64M16"\nrefresh = 1', "memory.refresh = 1: give true or false"),
        ('kind = "dram"\npart = "MT47H64M16"\njitter = 5', "memory.jitter = 5: a DRAM has no random delays"),
        (
            'kind = "dram"\npart = "MT47H64M16"\ndata_channels = "separate"',
            "memory.data_channels = 'separate': it does not apply to a DRAM; leave it out",
        ),
        ('data_channels = "both"', "memory.data_channels = 'both': give 'shared' or 'separate'"),
        ("data_channels = 2", "memory.data_channels = 2: give 'shared' or 'separate'"),
        ("data_channels = [1]", "memory.data_channels = [1]: give 'shared' or 'separate'"),
        ("channels = 2", "memory.channels is a field of a DRAM; add kind = 'dram' to the memory"),
        (
            'kind = "dram"\npart = "MT47H64M16"\nchannels = 3',
            "memory.channels = 3: must be a power of two, 1, 2, 4 or 8",
        ),
        (
            'kind = "dram"\npart = "MT47H64M16"\nchannels = 2\nchannel_bytes = 2048',
            "memory.channel_bytes = 2048: must be a power of two, 4096, 8192",
        ),
        ('kind = "dram"\npart = "MT47H64M17"', "there is no DRAM part 'MT47H64M17'; give one of IS42S16160"),
        (
            'kind = "dram"\npart = "MT41K128M16"',
            "memory.bus_bytes = 8: MT41K128M16 transfers 16 bytes in a cycle of its controller; give bus_bytes = 16",
        ),
        (
            'kind = "dram"\npart = "MT47H64M16"\nbank_bytes = 3000',
            "bank_bytes = 3000: give a power of two from 2048, the bytes of a row, to 16777216, the bytes of a bank",
        ),
    ],
)
def test_a_memory_that_does_not_exist_is_one_line(lines: str, message: str):
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_config(f"[memory]\n{lines}\n", "machine")
