import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

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


def test_timeline_of_a_raw_program(vdla, tmp_path: Path) -> None:
    _, program, memory = write_vector(VECTORS[0], tmp_path)
    file = tmp_path / "t.perfetto-trace"
    document = vdla("sim", "--insns", program, "--memory", memory, "--timeline", file, "--json").document()
    trace = Trace.FromString(file.read_bytes())
    tracks = {p.track_descriptor.name for p in trace.packet if p.HasField("track_descriptor")}
    assert {"fetch", "load", "compute", "store", "DRAM read", "DRAM written"} <= tracks
    names = {entry.name for p in trace.packet for entry in p.interned_data.event_names}
    assert {"LOAD.INP", "GEMM", "STORE.OUT"} <= names
    assert any(name.startswith("wait token:") for name in names)
    assert max(packet.timestamp for packet in trace.packet) == document["cycles"]


def test_counts_bytes_by_kind(vdla, tmp_path: Path) -> None:
    values, program, memory = write_vector(VECTORS[1], tmp_path)
    document = vdla("sim", "--insns", program, "--memory", memory, "--json").document()
    assert document["dram"]["instruction"]["bytes"] == 16 * len(values["insns"])
    assert document["dram"]["out"]["bytes"] > 0


def test_for_people(vdla, tmp_path: Path) -> None:
    values, program, memory = write_vector(VECTORS[2], tmp_path)
    outcome = vdla("sim", "--insns", program, "--memory", memory)
    assert outcome.code == 0 and f"{len(values['insns'])} instructions" in outcome.out
    for unit in ("load", "compute", "store"):
        assert unit in outcome.out
