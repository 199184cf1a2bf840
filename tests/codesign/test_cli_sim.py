import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

VECTORS = sorted((Path(__file__).parent.parent / "isa" / "vectors").glob("*.json"))


def write_vector(vector: Path, folder: Path) -> tuple[dict, Path, Path]:
    """A VTA program and its memory image as files (formats: the README of the instruction set's vectors)."""
    values = json.loads(vector.read_text(encoding="utf-8"))
    generator = np.random.default_rng(values["seed"] + 10**6)
    image = generator.integers(0, 256, values["size"], dtype=np.uint8)
    image[:4096] = np.frombuffer(bytes.fromhex(values["uop_hex"]), np.uint8)
    program, memory = folder / "prog.hex", folder / "in.bin"
    program.write_text("\n".join(values["insns"]) + "\n", encoding="utf-8")
    memory.write_bytes(image.tobytes())
    return values, program, memory


@pytest.mark.parametrize("engine", ["cycle", "reference"])
@pytest.mark.parametrize("vector", VECTORS, ids=lambda path: path.stem)
def test_vta_programs_come_out_byte_for_byte(vdla, tmp_path: Path, vector: Path, engine: str) -> None:
    values, program, memory = write_vector(vector, tmp_path)
    out = tmp_path / "out.bin"
    document = vdla(
        "sim", "--insns", program, "--memory", memory, "--memory-out", out, "--engine", engine, "--json"
    ).document()
    assert hashlib.sha256(out.read_bytes()).hexdigest() == values["sha256"]
    assert document["instructions"] == len(values["insns"])
    if engine == "reference":
        assert document["cycles"] is None and document["units"] is None
    else:
        assert document["cycles"] > 0
        assert set(document["units"]) == {"load", "compute", "store"}
        for unit in document["units"].values():
            assert unit["busy"] + sum(unit["stalls"].values()) == document["cycles"]


def test_there_are_eight_vectors() -> None:
    assert len(VECTORS) == 8
