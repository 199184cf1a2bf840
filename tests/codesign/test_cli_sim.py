import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from vdla.isa.assembler import assemble
from vdla.isa.config import load_config
from vdla.isa.layout import encode_uops
from vdla.isa.program import bare_program
from vdla.isa.program_file import save_program
from vdla.verify.random_scratchpads import random_scratchpads

TINY = load_config("tiny")
VECTORS = sorted((Path(__file__).parent.parent / "isa" / "vectors").glob("*.json"))


def write_vector(vector: Path, folder: Path) -> tuple[dict, Path, Path]:
    """Writes a VTA program and its memory image to files in `folder`. Returns (the test vector's values, path of the
    program, path of the image); formats: the README of the instruction set's vectors.
    """
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


def test_the_text_report_names_instructions_and_units(vdla, tmp_path: Path) -> None:
    values, program, memory = write_vector(VECTORS[2], tmp_path)
    outcome = vdla("sim", "--insns", program, "--memory", memory)
    assert outcome.code == 0 and f"{len(values['insns'])} instructions" in outcome.out
    for unit in ("load", "compute", "store"):
        assert unit in outcome.out


# --- scratchpads at launch ------------------------------------------------------------------------------

GEMM_ON_WHAT_IS_THERE = """
    GEMM uop_end=1 iter_out=1 iter_in=4 dst_factor_in=1 src_factor_in=1 push_next
    STORE.OUT sram_base=2 y_size=1 x_size=4 x_stride=4 pop_prev
    FINISH
"""


@pytest.fixture
def contents() -> dict[str, NDArray[np.uint8]]:
    """Random contents of the scratchpads; the first micro-op addresses accumulator 2, input 3 and weight 5."""
    filled = random_scratchpads(TINY, 1)
    filled["uop"][:4] = encode_uops(TINY, np.array([2]), np.array([3]), np.array([5])).view(np.uint8)
    return filled


@pytest.fixture
def program(tmp_path: Path) -> Path:
    words = assemble(GEMM_ON_WHAT_IS_THERE, TINY)
    save_program(bare_program(TINY, words, np.zeros(4 * TINY.out_bytes, np.uint8)), tmp_path / "p.vdla")
    return tmp_path / "p.vdla"


@pytest.mark.parametrize("engine", ["cycle", "reference", "rtl"])
def test_a_program_finds_its_scratchpads(vdla, tmp_path: Path, program: Path, contents, engine: str) -> None:
    file, out = tmp_path / "s.npz", tmp_path / "out.bin"
    np.savez(file, **contents)
    vdla(
        *("sim", "--insns", program, "--scratchpads", file, "--memory-out", out, "--engine", engine, "--json")
    ).document()
    block = (TINY.block_out, TINY.block_in)
    inputs = contents["inp"].view(np.int8).reshape(-1, TINY.batch, TINY.block_in)[3:7].astype(np.int32)
    weights = contents["wgt"].view(np.int8).reshape(-1, *block)[5].astype(np.int32)
    sums = contents["acc"].view(np.int32).reshape(-1, TINY.batch, TINY.block_out)[2:6]
    assert out.read_bytes() == (sums + inputs @ weights.T).astype(np.int8).tobytes()


def test_scratchpads_that_a_file_does_not_name_are_zero(vdla, tmp_path: Path, program: Path, contents):
    file, out = tmp_path / "s.npz", tmp_path / "out.bin"
    np.savez(file, acc=contents["acc"])
    vdla("sim", "--insns", program, "--scratchpads", file, "--memory-out", out, "--json").document()
    # The micro-op is zero as well: the product is none, and goes to accumulator 0.
    assert out.read_bytes() == contents["acc"].view(np.int32)[8:24].astype(np.int8).tobytes()


def test_micro_ops_in_the_file_are_checked(vdla, tmp_path: Path, program: Path, contents):
    last = np.array([TINY.acc_depth - 1])
    contents["uop"][:4] = encode_uops(TINY, last, np.array([0]), np.array([0])).view(np.uint8)
    np.savez(tmp_path / "s.npz", **contents)
    message = vdla("sim", "--insns", program, "--scratchpads", tmp_path / "s.npz").message()
    assert "p.vdla: bounds: " in message and "GEMM" in message


def _infinite(contents: dict[str, NDArray[np.uint8]]) -> dict[str, NDArray[np.uint8]]:
    table = contents["par"].view(np.uint32).reshape(TINY.par_depth, 2, TINY.block_out)
    table[1, 1, 2] = np.float32(np.inf).view(np.uint32)
    return contents


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda c: c | {"out": c["inp"]}, ["configuration 'tiny' has no 'out'"]),
        (lambda c: c | {"acc": c["acc"][1:]}, ["acc is uint8 of shape", "expected uint8 of"]),
        (lambda c: c | {"acc": c["acc"].reshape(2, -1)}, ["acc is uint8 of shape (2,"]),
        (lambda c: c | {"inp": c["inp"].view(np.int8)}, ["inp is int8"]),
        (lambda c: c | {"uop": c["uop"].astype(object)}, ["not an .npz archive of uint8 arrays"]),
        (_infinite, ["array 'par': the scale of entry 1, lane 2 is inf"]),
    ],
    ids=["name", "size", "shape", "dtype", "pickle", "scale"],
)
def test_scratchpads_that_the_machine_cannot_hold(
    vdla, tmp_path: Path, program: Path, contents, change, parts: list[str]
) -> None:
    np.savez(tmp_path / "s.npz", **change(contents))
    message = vdla("sim", "--insns", program, "--scratchpads", tmp_path / "s.npz").message()
    assert message.startswith(f"error: {tmp_path / 's.npz'}: ") and all(part in message for part in parts)


@pytest.mark.parametrize("damage", ["missing", "text", "cut", "flipped", "bare"])
def test_invalid_files_of_scratchpads_are_refused(
    vdla, tmp_path: Path, program: Path, contents, damage: str
) -> None:
    file = tmp_path / "s.npz"
    np.savez(file, **contents)
    data = bytearray(file.read_bytes())
    match damage:
        case "missing":
            file.unlink()
        case "text":
            file.write_text("uop = 3\n")
        case "cut":
            file.write_bytes(data[:-30])
        case "flipped":
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
        case _:
            with file.open("wb") as stream:
                np.save(stream, contents["acc"])
    message = vdla("sim", "--insns", program, "--scratchpads", file).message()
    expected = "cannot read the scratchpads: No such file" if damage == "missing" else "the file is not an"
    assert message.startswith(f"error: {file}: {expected}")
