"""Kind "records": damaged tuning records, given to `vdla run --records`, which must refuse them or give
right outputs.
"""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path

from .archives import change_document
from .drawing import Draw, damaged
from .networks import quantized_network
from .outcome import Outcome, call, judge


def record_case(seed: int, index: int, folder: Path) -> Outcome:
    """Writes random, perhaps damaged, tuning records to a file in `folder`, runs a network with them, and returns the
    verdict. The records follow from `seed`, the seed of the campaign, and `index`, the number of the case.
    """
    draw = Draw("records", seed, index)
    path, model = folder / "records.jsonl", folder / "net.onnx"
    network, records = _recorded()
    model.write_bytes(network)
    path.write_bytes(random_records(draw, records))
    return judge(call("run", model, "--config", "tiny", "--records", path, "--json"))


@functools.cache
def _recorded() -> tuple[bytes, bytes]:
    network = quantized_network(Draw("a network for records", 0, 34)).SerializeToString()
    with tempfile.TemporaryDirectory() as place:
        model, path = Path(place, "net.onnx"), Path(place, "records.jsonl")
        model.write_bytes(network)
        tuned = call("tune", model, "--config", "tiny", "--trials", "6", "-o", path)
        if tuned.code:
            raise RuntimeError(f"the network for records cannot be tuned: {tuned.err}")
        return network, path.read_bytes()


def random_records(draw: Draw, records: bytes) -> bytes:
    """The bytes of the file `records` with random changes; some lines are left out or repeated."""
    if draw.chance(0.3):
        return damaged(draw, records)
    lines = records.decode().splitlines()
    for _ in range(1 + draw.below(3)):
        at = draw.below(len(lines))
        match draw.below(5):
            case 0:
                lines.append(lines[at])
            case 1:
                del lines[at]
            case _:
                document = json.loads(lines[at])
                change_document(draw, document)
                lines[at] = json.dumps(document)
        if not lines:
            return b""
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")
