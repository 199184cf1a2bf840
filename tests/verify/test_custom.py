"""The check of custom instructions finds parts that disagree or cannot run, and passes the examples."""

from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from own_gelu import GELU
from own_instruction import XOR, XorLane
from own_popcount import BINARY
from wrong_instruction import FORGETFUL, ForgetfulLane

import vdla
from vdla.isa.config import load_config
from vdla.isa.errors import ConfigError
from vdla.verify.cosim.campaign import run_campaign
from vdla.verify.custom import check_instruction


class LateLane(XorLane):
    """A lane whose XOR result comes one cycle too late."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.sync += self.result.eq(self.left ^ self.right)
        return m


class OtherMembers(wiring.Component):
    """A component with other members than a lane needs."""

    left: In(32)
    result: Out(32)

    def elaborate(self, platform: object) -> Module:
        return Module()


class NeedsArguments(XorLane):
    """A component that cannot be made without arguments."""

    def __init__(self, width: int) -> None:
        super().__init__()


@pytest.mark.parametrize("instruction", [XOR, GELU, BINARY], ids=lambda item: item.name)
def test_examples_pass(instruction: vdla.AluInstruction):
    check_instruction(instruction)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"simulate": lambda a, b: a | b}, "`simulate` gives"),
        ({"simulate": lambda a, b: str(a)}, "numba cannot compile its `simulate`"),
        ({"rtl": LateLane}, "`rtl` gives"),
        ({"rtl": ForgetfulLane, "cycles": 3}, "`rtl` gives"),
        ({"rtl": OtherMembers}, "OtherMembers has left, result; a lane needs the members left and right"),
        ({"rtl": NeedsArguments}, "NeedsArguments needs the argument 'width'"),
        ({"rtl": dict}, "dict is not an amaranth.lib.wiring.Component"),
        ({"expression": lambda a, b: a + b}, "`expression` gives"),
        ({"expression": lambda a, b: a < b}, "expression gives bool"),
        ({"expression": lambda a, b: a ^ 1.5}, "expression raises OperandError"),
        ({"compute": lambda a, b: (a ^ b).astype(float)}, "compute returns float64"),
        ({"compute": lambda a, b: 3}, r"compute returns int64\[\]"),
        ({"compute": lambda a, b: a @ 2}, "compute raises ValueError"),
    ],
)
def test_disagreeing_parts_are_refused_in_one_line(values: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=f"^instruction XOR: .*{message}") as raised:
        check_instruction(replace(XOR, **values))  # pyright: ignore[reportArgumentType]
    assert "\n" not in str(raised.value)


def test_random_operands_find_a_difference_in_a_single_bit():
    def almost(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return (left ^ right) & ~(1 << 13)

    with pytest.raises(ConfigError, match="operand pairs differ"):
        check_instruction(replace(XOR, compute=almost))


def test_extended_machines_equal_their_rtl_in_every_cycle():
    """A machine with two custom instructions, one of a single cycle and one of four, equals its RTL in every cycle."""
    machine = vdla.extend(replace(load_config("tiny"), acc_banks=1), XOR, GELU)
    assert machine.name == "tiny-xor-gelu" and machine.instructions == (XOR, GELU)
    campaign = run_campaign([machine], 40, 1, jobs=2)
    assert len(campaign.lengths) == 40 and not campaign.mismatches
    hit = {name for group, name in campaign.counts if group == "operations"}
    assert {"ALU XOR immediate", "ALU XOR accumulator", "ALU GELU immediate", "ALU GELU accumulator"} <= hit


def test_co_simulation_finds_wrong_hardware():
    """Co-simulation finds a custom instruction whose RTL reads an operand too late, on a machine whose instruction was
    never checked.
    """
    campaign = run_campaign([replace(load_config("tiny"), instructions=(FORGETFUL,))], 30, 2, jobs=2)
    assert campaign.mismatches and campaign.failure is not None
