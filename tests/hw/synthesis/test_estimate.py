"""Estimated timing paths of netlists small enough to compute by hand."""

from typing import Any

import pytest

from vdla.hw.synthesis.estimate import longest_paths


def cell(kind: str, inputs: dict[str, list[Any]], outputs: dict[str, list[Any]]) -> dict[str, Any]:
    directions = dict.fromkeys(inputs, "input") | dict.fromkeys(outputs, "output")
    return {"type": kind, "connections": inputs | outputs, "port_directions": directions}


def register(data: Any, output: int, enable: Any = "1") -> dict[str, Any]:
    return cell("TRELLIS_FF", {"CLK": [1], "DI": [data], "CE": [enable]}, {"Q": [output]})


def lut(output: int, *inputs: int) -> dict[str, Any]:
    pins = {pin: [net] for pin, net in zip("ABCD", inputs, strict=False)}
    return cell("LUT4", pins, {"Z": [output]})


WIRE, CLOCK, LUT = 0.75, 0.52, 0.24


def net(*bits: int) -> dict[str, Any]:
    return {"bits": list(bits), "hide_name": 0}


def test_two_tables_between_registers():
    module = {
        "cells": {"from": register("0", 2), "a": lut(3, 2), "b": lut(4, 3), "to": register(4, 5)},
        "netnames": {"unit$7.start": net(2), "unit$7.result": net(5)},
    }
    (path,) = longest_paths(module, {"to": "unit"}, count=5)
    assert path.ns == pytest.approx(CLOCK + 2 * LUT + 3 * WIRE, abs=0.01)
    assert (path.start, path.end, path.pin, path.path) == ("unit.start", "unit.result", "DI", "unit")
    assert path.loads == (1, 1, 1) and path.endpoints == 1


def test_a_wire_to_many_pins_takes_longer_and_enables_are_told_apart():
    enabled = {f"r{k}": register("0", 100 + k, enable=3) for k in range(64)}
    module = {
        "cells": {"from": register("0", 2), "a": lut(3, 2), "data": register(2, 4), **enabled},
        "netnames": {"start": net(2), "slow": net(*range(100, 164))},
    }
    slow, fast = longest_paths(module, {}, count=5)
    assert (slow.pin, slow.endpoints, slow.loads) == ("CE", 64, (2, 64))
    assert slow.ns > CLOCK + LUT + 2 * WIRE + 0.18 * 6
    assert (fast.pin, fast.ns) == ("DI", pytest.approx(CLOCK + WIRE + 0.18, abs=0.01))


def test_a_carry_chain_costs_little_a_bit_and_a_product_much():
    chain = {
        f"c{k}": cell(
            "CCU2C",
            {"A0": [2], "B0": ["0"], "A1": ["0"], "CIN": [30 + k]},
            {"S0": [60 + k], "COUT": [31 + k]},
        )
        for k in range(8)
    }
    product = cell("MULT18X18D", {"A0": [2], "B0": ["1"]}, {"P0": [90]})
    module = {
        "cells": {
            "from": register("0", 2),
            **chain,
            "product": product,
            "sum": register(67, 70),
            "multiplied": register(90, 91),
        },
        "netnames": {"start": net(2), "sum": net(70), "multiplied": net(91)},
    }
    first, second = longest_paths(module, {"sum": "adder", "multiplied": "multiplier"}, count=5)
    assert first.path == "multiplier" and first.ns > 3.93 + CLOCK + 2 * WIRE
    assert second.path == "adder" and second.ns < CLOCK + 0.44 + 7 * 0.07 + 0.45 + 3 * WIRE + 0.18 * 4


def test_only_as_many_as_asked_for():
    cells = {"from": register("0", 2)} | {f"r{k}": register(2, 10 + k) for k in range(5)}
    paths = {f"r{k}": f"unit_{k}" for k in range(5)}
    assert len(longest_paths({"cells": cells, "netnames": {}}, paths, count=3)) == 3
