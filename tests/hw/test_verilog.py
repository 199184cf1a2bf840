"""The structure of the generated Verilog: equal components share one module, and memories are zero at power-up."""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from amaranth.hdl import Const, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from tiny_verilog import tiny_verilog

from vdla.hw.compute.columns import COLUMN
from vdla.hw.lanes import ACCUMULATOR_LANE, ALU_LANE
from vdla.hw.shared_modules import SharedModules, place
from vdla.hw.store import requantize
from vdla.hw.store.lanes import REDUCTION, STAGE_B
from vdla.hw.synthesis.netlist import module_lines, plain_path
from vdla.hw.synthesis.units import unit_of_path
from vdla.hw.synthesis.yosys import yosys_command
from vdla.hw.verilog import component_verilog
from vdla.isa.config import load_config

TINY = load_config("tiny")


@pytest.fixture(scope="module")
def text() -> str:
    return tiny_verilog()


def test_equal_units_are_instances_of_one_module(text: str):
    modules = re.findall(r"^module (\\\S+|\w+)", text, re.MULTILINE)
    assert len(modules) == len(set(modules))
    inside = {
        found[1]: Counter(re.findall(r"^  (\\vdla\S+) +(?:\\\S+|\w+) +\($", found[0], re.MULTILINE))
        for found in re.finditer(r"^module (\\\S+|\w+).*?^endmodule$", text, re.MULTILINE | re.DOTALL)
    }

    def instances(name: str) -> int:
        if name == "vdla":
            return 1
        return sum(counts[name] * instances(around) for around, counts in inside.items() if name in counts)

    columns = TINY.batch * TINY.block_out
    names = {plain_path(name.removeprefix("\\vdla.")): name for name in modules}
    array, post = "compute.pipeline.array.array_row", "store.pipeline"
    assert instances(names[array]) == TINY.block_out
    for path in (
        f"{array}.{COLUMN}",
        f"compute.pipeline.{ACCUMULATOR_LANE}",
        f"compute.pipeline.{ACCUMULATOR_LANE}.{ALU_LANE}",
        f"{post}.{requantize.LANE}",
        f"{post}.{REDUCTION}",
    ):
        assert instances(names[path]) == columns, path
    kinds = [instances(name) for path, name in names.items() if re.fullmatch(rf"{post}\.{STAGE_B}_\d", path)]
    # Four kinds, so that synthesis does not merge what selects in all lanes.
    assert sum(kinds) == columns and len(kinds) == min(4, columns)
    # A module's name begins with that of the one that its instances are in.
    for around, counts in inside.items():
        assert all(name.rpartition(".")[0].lstrip("\\") == around.lstrip("\\") for name in counts)


def test_shared_modules_belong_to_the_unit_that_they_are_in(text: str):
    units = {path.rpartition(".")[2]: unit_of_path(path) for _, path in module_lines(text)}
    assert units[COLUMN] == "array" and units[ALU_LANE] == "alu" and units[ACCUMULATOR_LANE] == "compute"
    assert units[requantize.LANE] == units[f"{STAGE_B}_0"] == "post"


class Inverter(wiring.Component):
    a: In(4)
    y: Out(4)
    _MustUse__silence = True

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.sync += self.y.eq(~self.a)
        return m


class Inverters(wiring.Component):
    """Two inverters in series; with `inner`, two more follow in a component of their own."""

    a: In(4)
    y: Out(4)

    def __init__(self, *, inner: bool = False) -> None:
        self._inner = inner
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        value: Value = self.a
        for number in range(2):
            name = f"inverter_{number}"
            value = place(m, platform, name, "inverter", Inverter, a=value).y
        if self._inner:
            m.submodules.inner = inner = Inverters()
            m.d.comb += inner.a.eq(value)
            value = inner.y
        m.d.comb += self.y.eq(value)
        return m


def test_a_shared_module_is_named_after_the_one_around_it():
    text = component_verilog(Inverters(), "twice")
    assert re.findall(r"^module (\\\S+|\w+)", text, re.MULTILINE) == ["twice", "\\twice.inverter"]
    assert len(re.findall(r"^  \\twice\.inverter +inverter_\d \($", text, re.MULTILINE)) == 2


def test_a_shared_module_is_in_one_module():
    with pytest.raises(
        ValueError, match=r"inverter must be inside one module only, not in both twice and twice\.inner"
    ):
        component_verilog(Inverters(inner=True), "twice")


def test_inputs_of_a_shared_module_are_as_wide_as_its_ports():
    shared = SharedModules(lambda component, name, shared: "")
    with pytest.raises(ValueError, match="inverter: a has 4 bits, 3 are given"):
        shared.instance("inverter", Inverter, {"a": Const(0, 3)})


def test_every_memory_has_initial_values(text: str):
    memories = 0
    for module in re.findall(r"^module .*?^endmodule$", text, re.MULTILINE | re.DOTALL):
        for name in re.findall(r"^  reg (?:\[\d+:0\] )?(\\\S+|\w+) +\[\d+:0\];$", module, re.MULTILINE):
            memories += 1
            assert re.search(rf"^ +{re.escape(name)} ?\[.*\] = \d+'", module, re.MULTILINE), name
    assert memories > 10
    # A word a line would be most of the text of a large machine.
    assert len(re.findall(r"\[\d+\] = 32'd0;", text)) < 10


# Yosys takes long for the whole: always run is the unit with most of the text. tests/hw/synthesis/test_flow.py
# synthesizes the whole of the preset tiny.
@pytest.mark.parametrize(
    ("unit", "commands"),
    [
        ("store", "synth -top \\vdla.store.reader"),
        pytest.param("", "synth -top \\vdla.memory_port", marks=pytest.mark.campaign),
        pytest.param("", "synth", marks=pytest.mark.campaign),
    ],
    ids=("the largest unit", "one module", "whole"),
)
def test_a_users_own_yosys_reads_it(text: str, tmp_path: Path, unit: str, commands: str):
    top = "vdla"
    if unit:
        # Its modules, without the number that Amaranth gives the unit.
        top = f"\\vdla.{unit}"
        text = re.sub(rf"(\\vdla\.{unit})\$\d+", r"\1", text)
        modules = re.findall(r"^module .*?^endmodule$", text, re.MULTILINE | re.DOTALL)
        modules = [item for item in modules if item.startswith((f"module {top} ", f"module {top}."))]
        assert len(modules) > 10
        text = "\n".join(modules)
    (tmp_path / "vdla.v").write_text(text)
    script = tmp_path / "script.ys"
    script.write_text(f"read_verilog {tmp_path}/vdla.v\nhierarchy -top {top}\nproc\nopt\n{commands}\n")
    done = subprocess.run([*yosys_command(), script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-500:]
