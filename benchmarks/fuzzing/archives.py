"""Kind "archives": archives of `vdla compile` that are cut, damaged, or edited with a new checksum, and then run.

Machine code itself stays unchanged: an archive is a program, and a user who runs one trusts its maker. All other parts,
including headers of the code, are damaged.
"""

from __future__ import annotations

import functools
import io
import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from vdla.compiler.runtime.archive import CHECKSUM, DESCRIPTION, archive_bytes, checksum

from .drawing import FLOATS, INTEGERS, TEXTS, Draw, damaged
from .networks import float_network, quantized_network
from .outcome import Outcome, call, judge

_NETWORKS = 6
_MOST_HEADER = 64
"""Unit of the number of bytes that damage may hit: only the first 3 x _MOST_HEADER bytes of a library. They hold the
header of the library and of its first object; machine code behind them stays as it was.
"""


def archive_case(seed: int, index: int, folder: Path) -> Outcome:
    """Makes a random damaged archive of a compiled network, runs it, and returns the verdict. `seed`, `index`: the seed
    of the campaign and the number of the case; `folder`: an empty folder for files.
    """
    draw = Draw("archives", seed, index)
    path, out = folder / "net.tar", folder / "out.npz"
    path.write_bytes(random_archive(draw))
    return judge(call("run", path, "--json", "--outputs", out), files=[out])


@functools.cache
def _archive(number: int) -> bytes:
    """The bytes of archive `number` of _NETWORKS: a random network, compiled."""
    draw = Draw("networks to compile", 0, number)
    while True:
        model = (quantized_network if draw.chance(0.5) else float_network)(draw)
        with tempfile.TemporaryDirectory() as place:
            model_path, path = Path(place, "net.onnx"), Path(place, "net.tar")
            model_path.write_bytes(model.SerializeToString())
            if call("compile", model_path, "--target", "llvm", "-o", path).code == 0:
                return path.read_bytes()


def random_archive(draw: Draw) -> bytes:
    """The bytes of a compiled archive that was cut, damaged or edited at random, with numbers from `draw`."""
    content = _archive(draw.below(_NETWORKS))
    if draw.chance(0.25):
        return damaged(draw, content)
    members = _members(content)
    if draw.chance(0.75):
        document = json.loads(members[DESCRIPTION])
        for _ in range(1 + draw.below(2)):
            change_document(draw, document)
        members[DESCRIPTION] = json.dumps(document).encode()
    else:
        name = draw.of([name for name in members if name not in (CHECKSUM, DESCRIPTION)])
        if name.endswith(".a"):
            head = members[name][: _MOST_HEADER * 3]
            members[name] = damaged(draw, head) + members[name][len(head) :]
        elif draw.chance(0.3):
            del members[name]
        else:
            members[name] = damaged(draw, members[name])
    if draw.chance(0.9):
        members[CHECKSUM] = checksum({name: data for name, data in members.items() if name != CHECKSUM})
    return archive_bytes(members)


def change_document(draw: Draw, document: Any) -> None:
    """Changes, removes or repeats one value somewhere in the JSON document `document` of an archive, in place."""
    place = document
    for _ in range(1 + draw.below(5)):
        keys: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = draw.of(keys)
        if isinstance(place[key], dict | list) and place[key] and draw.chance(0.85):
            place = place[key]
            continue
        if draw.chance(0.15):
            del place[key]
        elif draw.chance(0.1) and isinstance(place, list):
            place.append(place[key])
        else:
            place[key] = _value(draw, place[key])
        return


def _value(draw: Draw, old: Any) -> Any:
    if isinstance(old, int) and draw.chance(0.5):
        return old + draw.of((1, -1, 64, -64, 4096))
    match draw.below(6):
        case 0:
            return draw.of(TEXTS)
        case 1:
            return draw.of((None, True, [], {}, [1, 2, 3], "cpu"))
        case 2:
            return draw.of(FLOATS[:6])
    return draw.of(INTEGERS)


def _members(content: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        held = [(entry.name, archive.extractfile(entry)) for entry in archive]
        return {name: file.read() for name, file in held if file is not None}
