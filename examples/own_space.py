"""Your own space of machines: search it for a machine that is no larger than `tiny` and faster on your network.

    pip install -e ".[explore]" && python examples/own_space.py

The search evaluates one design in sixteen; it is guided by models that it fits to the designs evaluated so far. Cycles
are exact; area and clock are predicted, by models of syntheses.
"""

import sys

from own_network import network, pictures

import vdla

SPACE = {
    "base": "tiny",
    "fields": {
        "block_in": [4, 8, 16],
        "block_out": [4, 8, 16],
        "bus_bytes": [8, 16],
        "post_lanes": [1, 2, 4],
        "inp_buffer_bytes": {"from": 1024, "to": 8192, "times": 2},
        "acc_buffer_bytes": {"from": 4096, "to": 16384, "times": 2},
    },
}
BUDGET = 40


def main() -> None:
    """Print the five fastest machines of the Pareto front of latency and area, and why the fastest beats `tiny`."""
    calibration, _ = pictures(64, seed=2)
    model = vdla.quantize(network(), {"image": calibration}).content
    area = next(row["first"] for row in vdla.compare("tiny", "tiny", model).rows if row["name"] == "area")
    found = vdla.explore(
        SPACE, model, ("latency", "area"), constraints=f"area<={area:.2f}mm2", budget=BUDGET, strategy="model"
    )

    print(f"{found}; the fastest:")
    print(f"{'us':>6} {'mm2':>6}  fields that differ from those of tiny ({area:.2f} mm2)")
    tiny = vdla.config("tiny")
    for design in found.front[:5]:
        latency, size = design.objectives
        changed = {name: value for name, value in design.fields.items() if value != field(tiny, name)}
        print(f"{1e3 * latency:6.1f} {size:6.2f}  " + ", ".join(f"{k}={v}" for k, v in changed.items()))
    for sentence in vdla.compare("tiny", found.front[0].machine, model).explanation:
        print(sentence)


def field(machine: vdla.Config, name: str) -> object:
    """The value of the field `name` of the configuration `machine` or, if it has no such field, of its memory."""
    return getattr(machine, name) if hasattr(machine, name) else getattr(machine.memory, name)


if __name__ == "__main__":
    try:
        main()
    except vdla.UserError as error:
        sys.exit(f"error: {error}")
