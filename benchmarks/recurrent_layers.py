"""Models of one or two recurrent layers (GRU, RNN, LSTM) against ONNX Runtime, float32, and the time to compile them.

    python benchmarks/recurrent_layers.py [--only NAME ...] [--rounds N] [--json] [--write]

Each is compiled as `vdla.compile(model, target="llvm")` does and called as a user calls it, on one thread; ONNX Runtime
gets the same model and array. `ratio` is our time over ONNX Runtime's: thread CPU time, interleaved in one process, the
median over the rounds. Outputs are compared first. `compile` is the compilation time in thread CPU seconds without the
cache. The name of a layer states its kind, the size of its state and the number of steps; each step reads 40 numbers,
for a batch of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import thread_time
from typing import Any

import numpy as np
import onnx
from onnx import helper

from vdla.benchmarks.harness.case import Case, measure, relative_error
from vdla.benchmarks.harness.command_line import ONLY, OUTPUT, ROUNDS, Given, run_script
from vdla.benchmarks.harness.output import finish, measure_all
from vdla.benchmarks.harness.peer import model_of, session, value
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.pipeline import compile_kernels

INPUTS = 40
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """A stack of `count` recurrent layers of `kind` "RNN", "GRU" or "LSTM" with states of `hidden` numbers, over
    `steps` steps. `both`: in both directions. `reset_after`: a GRU's reset gate is applied after the product (ONNX's
    linear_before_reset).
    """

    kind: str
    hidden: int
    steps: int
    count: int = 1
    both: bool = False
    reset_after: bool = True

    def model(self) -> onnx.ModelProto:
        """The layers with seeded weights, as PyTorch exports them."""
        rng = np.random.default_rng(0)
        directions, gates = 1 + self.both, GATES[self.kind]
        nodes, constants = [], {}
        data, width = "X", INPUTS
        attributes: dict[str, Any] = {
            "hidden_size": self.hidden,
            "direction": "bidirectional" if self.both else "forward",
        }
        if self.kind == "GRU":
            attributes["linear_before_reset"] = int(self.reset_after)
        for layer in range(self.count):
            shapes = {
                f"W{layer}": (directions, gates * self.hidden, width),
                f"R{layer}": (directions, gates * self.hidden, self.hidden),
                f"B{layer}": (directions, 2 * gates * self.hidden),
            }
            for name, shape in shapes.items():
                constants[name] = rng.normal(0, 0.1, shape).astype(np.float32)
            nodes.append(helper.make_node(self.kind, [data, *shapes], [f"all{layer}"], **attributes))
            width = directions * self.hidden
            moved = f"moved{layer}"
            nodes.append(helper.make_node("Transpose", [f"all{layer}"], [moved], perm=[0, 2, 1, 3]))
            data = "Y" if layer == self.count - 1 else f"data{layer}"
            constants["shape"] = np.array([0, 0, -1], np.int64)
            nodes.append(helper.make_node("Reshape", [moved, "shape"], [data]))
        return model_of(
            nodes,
            [value("X", (self.steps, 1, INPUTS))],
            [value("Y", (self.steps, 1, width))],
            constants,
        )


LAYERS = {
    "GRU 32 x 12, two layers": Layers(kind="GRU", hidden=32, steps=12, count=2),
    "GRU 256 x 64": Layers(kind="GRU", hidden=256, steps=64),
    "GRU 256 x 64, reset before": Layers(kind="GRU", hidden=256, steps=64, reset_after=False),
    "GRU 128 x 200": Layers(kind="GRU", hidden=128, steps=200),
    "GRU 650 x 35": Layers(kind="GRU", hidden=650, steps=35),
    "GRU 256 x 64, both ways": Layers(kind="GRU", hidden=256, steps=64, both=True),
    "GRU 64 x 400": Layers(kind="GRU", hidden=64, steps=400),
    "RNN 64 x 200": Layers(kind="RNN", hidden=64, steps=200),
    "RNN 256 x 64": Layers(kind="RNN", hidden=256, steps=64),
    "LSTM 64 x 200": Layers(kind="LSTM", hidden=64, steps=200),
    "LSTM 256 x 64": Layers(kind="LSTM", hidden=256, steps=64),
}


def row_of(name: str, rounds: int) -> dict[str, Any]:
    """Compiles the model `name` and measures it and ONNX Runtime in turns, in `rounds` rounds; returns its row of the
    results.
    """
    layers = LAYERS[name]
    model = layers.model()
    started = thread_time()
    network = compile_kernels(model.SerializeToString(), cpu_now())
    seconds = thread_time() - started
    peer = session(model)
    feeds = {"X": np.random.default_rng(1).standard_normal((layers.steps, 1, INPUTS), dtype=np.float32)}
    expected = np.asarray(peer.run(None, feeds)[0])
    case = Case(
        name=name,
        threads=1,
        operations=float(sum(launch.operations for launch in network.launches)),
        error=relative_error(network.run(feeds)["Y"], expected),
        ours=(lambda: network.run(feeds),),
        peer=(lambda: peer.run(None, feeds),),
    )
    row = measure(case, rounds)
    return {
        "name": name,
        "ours_ms": row.ours_ms,
        "peer_ms": row.peer_ms,
        "ratio": round(1 / row.ratio, 3),
        "error": row.error,
        "compile": round(seconds, 3),
        "kernels": len(network.kernels),
    }


def line(row: Mapping[str, Any]) -> str:
    return (
        f"{row['name']:28} ours {row['ours_ms']:8.4f} ms  peer {row['peer_ms']:8.4f} ms  ratio {row['ratio']:6.3f}  "
        f"error {row['error']:.1e}  compiled in {row['compile']:.3f} s"
    )


OPTIONS = (
    ONLY.but(nargs="+", choices=list(LAYERS), default=list(LAYERS), metavar=None),
    ROUNDS.but(default=25),
    *OUTPUT,
)


def main(options: Given) -> None:
    # One-time costs of the process must not count for the first model.
    compile_kernels(Layers(kind="GRU", hidden=4, steps=2).model().SerializeToString(), cpu_now()).close()
    rows = measure_all(options.only, lambda name: row_of(name, options.rounds), line, quiet=options.json)
    figures = {"ratio_is": "our time over the peer's", "rows": rows}
    finish(options, "recurrent_layers", figures, shown=rows)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
