import dataclasses
import io
import json
import os

import numpy as np
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.isa.config import load_config
from vdla.isa.errors import ProgramError
from vdla.isa.program import Program, Segment, bare_program, instruction_address
from vdla.isa.program_file import from_bytes, hex_lines, load_program, read_hex, save_program, to_bytes
from vdla.isa.program_text import from_text, read_program, to_text
from vdla.util.files import WriteError
from vdla.verify.random_programs import random_config, random_program

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@st.composite
def programs(draw):
    seed = draw(st.integers(0, 30))
    base = random_program(random_config(seed), seed, length=draw(st.integers(0, 12)))
    image = base.image[: draw(st.integers(0, 100))].copy()
    groups = tuple(draw(st.lists(names, max_size=3, unique=True)))
    count = len(base.instructions)
    chosen = draw(st.lists(st.integers(-1, len(groups) - 1), min_size=count, max_size=count))
    segments = []
    for name in draw(st.lists(names, max_size=3, unique=True)):
        address = draw(st.integers(0, len(image)))
        size = draw(st.integers(0, len(image) - address))
        kind = draw(st.sampled_from(["input", "output", "constant"]))
        segments.append(Segment(name=name, kind=kind, address=address, size=size))
    return dataclasses.replace(
        base,
        image=image,
        groups=groups,
        group_of=np.array(chosen, np.int32).reshape(-1),
        segments=tuple(segments),
    )


@given(programs())
@settings(max_examples=examples(60), deadline=None)
def test_binary_and_text_forms_round_trip(program):
    data = to_bytes(program)
    assert from_bytes(data, "x") == program
    assert to_bytes(from_bytes(data, "x")) == data
    text = to_text(program)
    assert from_text(text, "x") == program
    assert to_text(from_text(text, "x")) == text


def small() -> Program:
    config = load_config("tiny")
    return random_program(config, 1, length=3)


def test_files_are_whole_or_absent(tmp_path):
    path = tmp_path / "a.vdla"
    save_program(small(), path)
    assert load_program(path) == small() == read_program(path)
    assert os.listdir(tmp_path) == ["a.vdla"]
    with pytest.raises(WriteError, match=r"missing.*cannot be written"):
        save_program(small(), tmp_path / "missing" / "a.vdla")
    (tmp_path / "folder").mkdir()
    with pytest.raises(WriteError, match="cannot be written"):
        save_program(small(), tmp_path / "folder")
    assert sorted(os.listdir(tmp_path)) == ["a.vdla", "folder"]


def test_text_files_are_read_by_content(tmp_path):
    path = tmp_path / "a.s"
    path.write_text(to_text(small()))
    assert read_program(path) == small()


def test_bare_instructions_are_a_program_for_a_given_configuration(tmp_path):
    path = tmp_path / "a.s"
    path.write_text("# nothing else\nFINISH\n")
    program = read_program(path, load_config("tiny"))
    assert program == bare_program(load_config("tiny"), np.array([[3, 0]], np.uint64))
    with pytest.raises(ProgramError, match=r"before \.config"):
        read_program(path)


def test_truncated_files_are_refused_with_their_name():
    data = to_bytes(small())
    for size in [0, 1, 100, len(data) // 2, len(data) - 1]:
        with pytest.raises(ProgramError, match=r"f\.vdla: truncated"):
            from_bytes(data[:size], "f.vdla")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04rest", b"\xff\xfe\x00", b"hello", b"\x7fELF"])
def test_foreign_files_are_refused_with_their_name(tmp_path, content):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    for load in (load_program, read_program):
        with pytest.raises(ProgramError, match="foreign"):
            load(path)
    with pytest.raises(ProgramError, match="absent: No such file"):
        load_program(tmp_path / "absent")


def test_flipped_bits_never_pass_silently():
    data = to_bytes(small())
    for place in range(0, len(data), len(data) // 200):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        try:
            assert from_bytes(bytes(damaged), "f") == small()  # a bit that archives do not use
        except ProgramError as error:
            assert str(error).startswith("f: ")


def test_another_version_is_named():
    data = to_bytes(small())
    with np.load(io.BytesIO(data)) as archive:
        arrays = dict(archive)
    metadata = json.loads(arrays["metadata"].tobytes()) | {"version": 99}
    arrays["metadata"] = np.frombuffer(json.dumps(metadata).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    with pytest.raises(ProgramError, match="version 99"):
        from_bytes(buffer.getvalue(), "f")


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (".imagine 3", "no directive .imagine; there are .config"),
        (".image -3", "expected a number"),
        (".image 99999999999999", "at most"),
        (".segment 1 2", "ADDRESS SIZE KIND"),
        (".segment 1 2 input name", "a string in JSON"),
        (".data 0 xx", "bytes in hexadecimal"),
        (".data 0 00", "outside the image of 0"),
        (".groups 3", "a list of names"),
        (".groups [3]", "a list of names"),
        ('.group "x"', ".groups does not list it"),
        (".config {}", "fields of this version of vdla (field 'extensions' is missing)"),
        ("GEMN", "no instruction 'GEMN'"),
    ],
)
def test_text_errors_name_the_line(line, part):
    with pytest.raises(ProgramError) as error:
        from_text(f"# first\n{line}\n", "p.s", load_config("tiny"))
    assert str(error.value).startswith("p.s:2: ")
    assert part in str(error.value)


def test_contradictory_parts_are_refused():
    program = small()
    whole = Segment(name="a", kind="input", address=0, size=len(program.image) + 1)
    for change, part in [
        ({"groups": ("a", "a")}, "same name"),
        ({"group_of": np.full(len(program.instructions), 3, np.int32)}, "outside -1"),
        ({"group_of": np.zeros(1, np.int64)}, "group_of is int64"),
        ({"segments": (whole,)}, "'a' covers bytes"),
        ({"image": np.zeros(4, np.int8)}, "image is int8"),
    ]:
        with pytest.raises(ProgramError, match=part):
            dataclasses.replace(program, **change)
    with pytest.raises(ProgramError, match="no segment 'zz'"):
        program.segment("zz")


def test_hexadecimal_lines_round_trip_and_errors_name_the_line(tmp_path):
    path = tmp_path / "x.hex"
    words = small().instructions
    path.write_text("# comment\n\n" + hex_lines(words))
    assert np.array_equal(read_hex(path), words)
    for bad in ("12", "g" * 32, "0" * 33):
        path.write_text(f"{'0' * 32}\n{bad}\n")
        with pytest.raises(ProgramError, match=r"x\.hex:2: "):
            read_hex(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ProgramError, match="not a text file"):
        read_hex(path)


def test_instructions_lie_at_the_next_page():
    assert [instruction_address(size) for size in (0, 1, 4096, 4097)] == [0, 4096, 4096, 8192]
