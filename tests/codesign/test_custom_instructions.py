"""Machines with custom instructions: `vdla.extend`, schedules, commands, area, exploration and tuning in other
processes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from own_gelu import GELU
from own_instruction import XOR, XorLane

import vdla as package
from vdla.codesign.models.build import build
from vdla.codesign.technology.area import area_by_unit, structure_of
from vdla.codesign.technology.components import default_components, shipped_components
from vdla.compiler.templates.vdla.workload import Workload
from vdla.compiler.tune.measure.descriptions import TaskError, describe, load, modules_of
from vdla.isa.errors import ConfigError

EXAMPLES = Path(__file__).parents[2] / "examples"
TINY = package.config("tiny")


@pytest.fixture
def not_imported(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Removes the example's module from the imported modules during a test, and clears PYTHONPATH."""
    kept, path = sys.modules.pop("own_instruction"), list(sys.path)
    monkeypatch.setenv("PYTHONPATH", "")
    yield monkeypatch
    sys.modules["own_instruction"], sys.path[:] = kept, path


def summed(machine: package.Config, terms: int, dtype: str) -> package.Schedule:
    """A schedule of Y = clip(sum of X over `terms` vectors), for X of type `dtype`."""
    n = machine.block_out
    x = package.placeholder("X", (1, terms, 1, n), dtype)
    p = package.placeholder("P", (1, 2, n), "int32")
    term = package.reduce_axis("term", terms)
    total = package.compute(
        "total",
        (1, 1, 1, n),
        lambda o, m, b, j: package.reduce_sum(package.cast(x[o, term, b, j], "int32"), term),
    )
    y = package.compute(
        "Y", (1, 1, 1, n), lambda o, m, b, j: package.post_value(total[o, m, b, j] + p[o, 0, j], p[o, 1, j])
    )
    units = package.accelerator(machine)
    s = package.Schedule(package.program_of(y))
    s.set_scope("total", "acc")
    s.cache_read("X", None, "acc")
    s.cache_read("P", None, "par")
    s.reorder("total.term", "total.b", "total.j")
    s.decompose_reduction("total", "total.term")
    s.tensorize("total.b", *units.alu("ADD"))
    s.tensorize("Y.b", *units.post())
    return s


def test_a_sum_of_accumulators_is_an_alu_instruction():
    """A sum of int32 vectors is compiled to one ALU instruction on accumulators; the vectors are loaded with all 32
    bits.
    """
    x = np.random.default_rng(0).integers(-(2**31), 2**31, (1, 6, 1, 4), np.int64).astype(np.int32)
    p = np.stack([np.zeros((1, 4), np.int32), np.full((1, 4), 2.0**-25, np.float32).view(np.int32)], 1)
    kernel = package.build(summed(TINY, 6, "int32"), "vdla", TINY)
    text = kernel.source("instructions")
    assert "LOAD.ACC " in text and "LOAD.ACC8" not in text and text.count("ALU ") == 1
    report = package.simulate(kernel, {"X": x, "P": p})
    total = x.sum(1, dtype=np.int32).astype(np.float32) * np.float32(2.0**-25)
    np.testing.assert_array_equal(
        report.outputs["Y"][:, 0], np.clip(np.rint(total), -128, 127).astype(np.int8)
    )


def test_operations_that_a_machine_lacks_are_named():
    with pytest.raises(
        ConfigError, match="no intrinsic for the ALU operation 'XOR'; it has MIN, MAX, ADD, MUL"
    ):
        package.accelerator(TINY).alu("XOR")
    with pytest.raises(ConfigError, match="the immediate 40000 does not fit the 16 bits"):
        package.accelerator("tiny").alu("ADD", 40000)


def test_extend_adds_to_what_the_machine_has():
    once = package.extend("tiny", XOR)
    twice = package.extend(once, GELU, name="both")
    assert (once.name, twice.name) == ("tiny-xor", "both") and twice.instructions == (XOR, GELU)
    assert package.config("tiny").instructions == ()
    with pytest.raises(ConfigError, match="two have the name XOR"):
        package.extend(once, XOR)
    with pytest.raises(
        package.UserError, match=r"instructions\[0\] is 3, of type int; give an AluInstruction"
    ):
        package.extend("tiny", 3)  # pyright: ignore[reportArgumentType]


def test_the_command_line_imports_a_module(vdla, not_imported: pytest.MonkeyPatch):
    machine = str(EXAMPLES / "own_instruction.toml")
    assert "give the command the option --import own_instruction" in vdla("config", machine).message()
    not_imported.chdir(EXAMPLES)
    outcome = vdla("isa", "--config", machine, "--markdown", "--import", "own_instruction")
    assert outcome.code == 0 and "MUL 4, XOR 6" in outcome.out


def test_the_command_line_imports_a_file(vdla, not_imported: pytest.MonkeyPatch):
    machine = str(EXAMPLES / "own_instruction.toml")
    outcome = vdla("isa", "--config", machine, "--header", "--import", str(EXAMPLES / "own_instruction.py"))
    assert outcome.code == 0 and "VDLA_ALU_XOR 6" in outcome.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no such file"),
        ("1 +", "SyntaxError"),
        ("import no_such_package", "it imports 'no_such_package', which is not installed"),
        ("raise ValueError('later')", "ValueError: later"),
        (
            "from dataclasses import replace\nfrom own_instruction import XOR\n"
            "WRONG = replace(XOR, simulate=lambda a, b: a)",
            "instruction XOR: for left = 0 and right = 1, `compute` gives 1 and `simulate` gives 0",
        ),
    ],
)
def test_modules_that_cannot_be_used_are_one_line(vdla, tmp_path: Path, text: str | None, message: str):
    path = tmp_path / "broken.py"
    if text is not None:
        path.write_text(text)
    try:
        assert message in vdla("config", "tiny", "--import", str(path)).message()
    finally:
        sys.modules.pop("broken", None)


def test_unknown_modules_are_one_line(vdla):
    message = vdla("config", "tiny", "--import", "no_such_module").message()
    assert "there is no module 'no_such_module' in the current folder or installed" in message


@pytest.mark.parametrize("components", [default_components(), shipped_components()], ids=["models", "table"])
def test_area_counts_stated_gates(components):
    plain, extended = (
        sum(structure_of(machine, components).area.values()) for machine in (TINY, package.extend(TINY, GELU))
    )
    lanes = TINY.batch * TINY.block_out
    cost = GELU.cost
    assert cost is not None
    gate, flop = (24, 96) if components.modelled else (0.798, 4.522)
    assert extended - plain == pytest.approx(lanes * (cost.gates * gate + cost.flops * flop) / 1e6, rel=1e-3)


def test_the_table_of_area_names_them():
    assert "custom instructions" in area_by_unit(package.extend(TINY, GELU), shipped_components())
    assert "custom instructions" not in area_by_unit(TINY, shipped_components())


def test_workers_of_the_tuner_import_the_module(not_imported: pytest.MonkeyPatch):
    workload = Workload(
        template="conv2d", batch=1, channels=8, height=4, width=4, filters=8, kernel=(3, 3), pads=(1, 1, 1, 1)
    )
    description = json.loads(json.dumps(describe(package.extend("tiny", XOR), workload)))
    plain = load(describe(package.config("tiny"), workload))(None)
    not_imported.syspath_prepend(str(EXAMPLES))
    assert load(description)(None).cost == plain.cost and "own_instruction" in sys.modules
    with pytest.raises(TaskError, match="custom instructions are in no_such_module"):
        load({**description, "imports": ["no_such_module"]})


def test_explorations_evaluate_them_in_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An exploration evaluates machines with a custom instruction in worker processes: the base machine's file names
    the instruction, and the workers import its module.
    """
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    machine = tmp_path / "machine.toml"
    machine.write_text((EXAMPLES / "own_instruction.toml").read_text())
    space = {"base": str(machine), "fields": {"acc_banks": [1, 2]}}
    explored = package.explore(space, build("mlp"), strategy="exhaustive", workers=2)
    designs = explored.exploration.designs
    assert [design.figures.failed for design in designs] == [None, None]


def test_instructions_of_the_running_script_cannot_reach_other_processes():
    lane = type("Lane", (XorLane,), {"__module__": "__main__"})
    with pytest.raises(TaskError, match="instruction XOR is defined in the script that runs"):
        modules_of([replace(TINY, instructions=(replace(XOR, rtl=lane),))])
