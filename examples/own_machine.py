"""Your own machine: replace fields of a configuration, and see the effect of each change on cycles, energy and area.

    pip install -e . && python examples/own_machine.py

The network is that of own_network.py. Each machine differs from the preset `tiny` in the named fields; the last machine
has all changes together. `vdla config --fields` lists the fields; `vdla.config` refuses a machine that cannot be built,
with the reason.
"""

from own_network import network, pictures

import vdla

CHANGES = {
    "wider bus": {"bus_bytes": 16},
    "faster memory": {"read_latency": 15},
    "more input channels": {"block_in": 8},
    "more output channels": {"block_out": 8},
}


def main() -> None:
    """Print one line for each machine, and the causes of the difference between the last machine and `tiny`."""
    calibration, _ = pictures(64, seed=2)
    model = vdla.quantize(network(), {"image": calibration}).content
    everything = {field: value for change in CHANGES.values() for field, value in change.items()}

    print(f"{'machine':21} {'cycles':>7} {'MHz':>6} {'us':>6} {'uJ':>6} {'mm2':>6}")
    for name, change in {"tiny": {}, **CHANGES, "all of these": everything}.items():
        machine = vdla.config("tiny", name=name, **change)
        compared = vdla.compare("tiny", machine, model)
        total = {row["name"]: row["second"] for row in compared.rows if row["kind"] == "total"}
        print(
            f"{name:21} {total['cycles']:7,.0f} {total['clock']:6.1f} {1e3 * total['latency']:6.1f} "
            f"{total['energy']:6.1f} {total['area']:6.2f}"
        )
    print("\nall of these against tiny:")
    for sentence in compared.explanation:
        print(f"  {sentence}")

    try:
        vdla.config("tiny", acc_buffer_bytes=100)
    except vdla.UserError as error:
        print(f"\nA machine that cannot be built: {error}")


if __name__ == "__main__":
    main()
