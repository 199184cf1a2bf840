"""Any text is allowed as a name in models, files and configurations: no name sends control sequences to the terminal,
and none is lost.
"""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
from rich.progress import Progress
from rich.table import Table

from vdla.codesign.cli import output
from vdla.codesign.demo import run_demo
from vdla.codesign.models import build
from vdla.codesign.report.canvas import new_figure, png, words
from vdla.codesign.report.console import PlainConsole
from vdla.codesign.report.perfetto_trace import Slice, Track, write_trace
from vdla.isa.config import parse_config
from vdla.isa.describe import c_header
from vdla.isa.errors import ConfigError
from vdla.util.printable import printable

EVIL = "[/x][bold]\n\x1b[31m\r\x07\u202e$\\frac{ :smile: 中 "
SHOWN = r"[/x][bold]\n\x1b[31m\r\x07\u202e$\frac{ :smile: 中 "
FILE = "[bold]a\n\x1b[31m$"
"""A name with control characters and markup that the file system accepts."""
UNPRINTABLE = re.compile(r"[^\n\x20-\x7e\xa1-\u2027\u2030-\ud7ff\ue000-\uffff]")


def renamed(name: str) -> onnx.ModelProto:
    """A shipped model, each of whose names begins with control characters and markup (EVIL)."""
    model = build(name)
    graph = model.graph
    for node in graph.node:
        node.name = EVIL + node.name
        for names in (node.input, node.output):
            names[:] = [EVIL + item if item else item for item in names]
    for tensors in (graph.input, graph.output, graph.initializer, graph.value_info):
        for tensor in tensors:
            tensor.name = EVIL + tensor.name
    graph.name = EVIL
    return model


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / f"{FILE}.onnx"
    onnx.save(renamed("mlp"), path)
    return path


def assert_plain(text: str) -> None:
    """Asserts that a text has only printable characters and line ends."""
    assert not (found := UNPRINTABLE.search(text)), (found, text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "--config", "tiny"), SHOWN[-20:]),
        (("run", "--device", "cpu", "--profile"), SHOWN[-20:]),
        (("run", "--device", "cuda:emulated", "--profile"), SHOWN[-20:]),
        (("run", "--config", "tiny", "--target", "vdla,llvm"), r"[bold]a\n\x1b[31m$ on tiny"),
        (("run", "--config", "tiny", "--inputs", "IN"), f"{FILE!r}.npz"[1:-5]),
        (("compile", "--target", "llvm", "-o", "OUT.tar"), r"[bold]a\n\x1b[31m$.tar"),
        (("compile", "--target", "cuda -arch=sm_90", "-o", "OUT.tar"), r"[bold]a\n\x1b[31m$.tar"),
        (("compile", "--target", "vdla", "--config", "tiny", "-o", "OUT.vdla"), r"[bold]a\n\x1b[31m$.vdla"),
        (
            (
                "tune",
                "--config",
                "tiny",
                "--trials",
                "1",
                "--workers",
                "0",
                "--in-place",
                "0",
                "--strategy",
                "random",
                "-o",
                "OUT.jsonl",
            ),
            SHOWN[:9],
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_names_are_shown_without_control_characters(vdla, evil, tmp_path, arguments, said) -> None:
    np.savez(tmp_path / f"{FILE}.npz", other=np.zeros(1))
    places = {"IN": tmp_path / f"{FILE}.npz"}
    for suffix in ("tar", "vdla", "jsonl"):
        places[f"OUT.{suffix}"] = tmp_path / f"{FILE}.{suffix}"
    command, *rest = (places.get(item, item) for item in arguments)
    outcome = vdla(command, evil, *rest)
    assert outcome.code == (2 if "IN" in arguments else 0), outcome.err
    assert_plain(outcome.out)
    assert_plain(outcome.err)
    assert said in outcome.out + outcome.err


def test_traces_hold_the_names(vdla, evil, tmp_path) -> None:
    assert vdla("run", evil, "--config", "tiny", "--timeline", tmp_path / "t").code == 0
    trace = Trace.FromString((tmp_path / "t").read_bytes())
    named = [entry.name for packet in trace.packet for entry in packet.interned_data.event_names]
    assert any(name.startswith(SHOWN) for name in named)
    assert all(name.isprintable() for name in named)


@pytest.mark.parametrize(
    "arguments", [("--config", "tiny"), ("--device", "cpu"), ("--device", "cuda:emulated")], ids=" ".join
)
def test_dumps_hold_the_names(vdla, evil, tmp_path, arguments) -> None:
    assert vdla("run", evil, *arguments, "--dump-passes", tmp_path / "dumps").code == 0
    files = [path for path in (tmp_path / "dumps").rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert path.name.isprintable()
        assert_plain(path.read_text())


def test_reports_and_pictures_hold_the_names(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("vdla.codesign.demo.models.build", lambda *_: renamed("mlp"))
    config = parse_config('name = "[/x] $\\\\frac{ 中"\n', "test")
    result = run_demo("mlp", config, tmp_path, lambda _text: None)
    assert result.passed
    assert {"roofline.png", "layers.png"} <= {path.name for path in result.files}


@pytest.mark.parametrize("text", [EVIL, "$", "$$", r"\$x$", "\ud800", "$" * 500])
def test_pictures_draw_any_name(text) -> None:
    figure = new_figure(3, 2)
    figure.subplots().set_title(words(text, 30), fontweight="bold")
    assert png(figure)  # A letter that no font has is a warning, and warnings are errors here.


def test_timelines_take_lone_surrogates() -> None:
    data = write_trace(
        "\ud800", [Track(name="\x1b", slices=[Slice(0, 1, "\ud800", {"layer": "\ud800"})])], []
    )
    assert b"\\ud800" in data and b"\x1b" not in data


def test_tables_titles_and_lines_are_plain(capsys) -> None:
    console = PlainConsole(width=200)
    table = Table(title=EVIL, title_justify="left")
    table.add_column(EVIL)
    table.add_row(EVIL)
    console.print(table)
    console.print(EVIL, soft_wrap=True)
    out = capsys.readouterr().out
    assert_plain(out)
    assert out.count(SHOWN.strip()) == 4


def test_progress_is_plain(capsys) -> None:
    with Progress(*output.step_columns(), console=PlainConsole(width=200)) as progress:
        steps = output.Steps(progress)
        steps.begin(f"compiling {EVIL}")
        steps.end()
    out = capsys.readouterr().out
    assert f"compiling {SHOWN}" in out
    assert_plain(out)


def test_errors_are_one_line_whatever_they_quote(vdla, tmp_path) -> None:
    place = tmp_path / f"{FILE}.toml"
    place.write_text('"[/x]\\u001b\\n" = 1\n')
    assert r"\x1b[31m$.toml: unknown field [/x]\x1b\n;" in vdla("config", place).message()
    assert r"--\x1b[31m\x0a" in vdla("run", "--\x1b[31m\n").message()
    assert r"there\n" in vdla("run", "there\n.onnx").message()
    place.write_text('name = "a\\u001b"\n')
    assert "all printable" in vdla("config", place).message()
    place.write_text('name = "[/x][bold]"\n')
    assert "configuration [/x][bold]" in vdla("config", place).out


def test_long_names_are_cut() -> None:
    text = f"node {'n' * 10**6}: give another\n"
    assert len(printable(text)) < 2010 and printable(text).endswith(r"n: give another\n")
    assert printable("abcdef", 4) == "ab…f"


def test_a_configuration_ends_no_comment() -> None:
    header = c_header(parse_config('name = "*/ int x; /*"\n', "test"))
    assert header.startswith("/* The instruction set of configuration * / int x; / *,")
    with pytest.raises(ConfigError, match="all printable"):
        parse_config('name = "a\\nb"\n', "test")


def test_terminals_without_the_letters(tmp_path) -> None:
    place = tmp_path / "c.toml"
    place.write_text('name = "中"\n')
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            "from vdla.codesign.cli.main import main; main()",
            "isa",
            "--markdown",
            "--config",
            place,
        ],
        env={"PYTHONIOENCODING": "ascii", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr


def test_only_the_modules_that_escape_names_print() -> None:
    root = Path(output.__file__).parent.parent
    for path in root.rglob("*.py"):
        text = path.read_text()
        if path.name != "console.py":
            assert not re.search(r"(?<!Plain)\bConsole\(", text), path
        if path.parent.name == "cli" and path.name not in ("output.py", "main.py", "process.py"):
            assert not re.search(r"(?<![._\w])print\(", text), path
        for column in re.findall(r"TextColumn\(.*?\)", text):
            assert "markup=False" in column, path
