"""The generated tables of the project's pages: up to date with the committed results, and no measured figure is typed
by hand beside them.
"""

from __future__ import annotations

import re
from types import MappingProxyType

import pytest

from vdla.benchmarks.harness.page import (
    PageError,
    Row,
    Table,
    Text,
    Where,
    at,
    missing,
    read_files,
    rewritten,
)
from vdla.benchmarks.harness.pictures import PICTURES, drawn_from, pictures
from vdla.benchmarks.harness.results import RESULTS, ROOT
from vdla.benchmarks.harness.tables import BLOCKS, PAGES
from vdla.benchmarks.harness.tables_accelerator import demo_text
from vdla.codesign.report.canvas import new_figure, png

WRITTEN = {
    "commit": "abc",
    "date": "2026-01-02",
    "machine": {"processor": "P", "cores": 2, "system": "Linux"},
    "versions": {"onnxruntime": "1.0"},
    "command": "python benchmarks/x.py --write",
}
FILES = {
    "x": {"written": WRITTEN, "speed": 1.234, "rows": [{"name": "a", "time": 5}, {"name": "b", "time": 7}]}
}
ROW = Row("speed", "{0:.2f} ({1} ms)", (at("x", "speed"), at("x", "rows", Where("name", "b"), "time")))


@pytest.mark.parametrize("name", PAGES)
def test_committed_pages_are_what_the_files_give(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "<!-- figures " in text
    remedy = "run: python benchmarks/readme.py"
    assert rewritten(text, BLOCKS, read_files(RESULTS)) == text, (
        f"{name} is not what the files give; {remedy}"
    )


FIGURE = re.compile(
    r"\d+\.\d+|\b\d{1,3}(,\d{3})+|(?<!\w)\d+ ?(%|(ms|us|s|seconds|cycles|times|LSB|MB|caught|of \d+)\b)"
)
"""Regular expression of measured figures in prose: decimals, numbers with commas, and numbers with a unit, but not
names such as ResNet-18, C12 or H100.
"""


@pytest.mark.parametrize(
    ("name", "beginning", "tables"), [("README.md", "## Measured", 1), ("docs/results.md", "# Results", 6)]
)
def test_nothing_is_typed_beside_the_tables_of_measured_figures(
    name: str, beginning: str, tables: int
) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    section = text.split(beginning, 1)[1]
    section = section.split("\n## ", 1)[0] if beginning.startswith("##") else section
    typed = re.sub(r"<!-- figures .*?<!-- /figures -->", "", section, flags=re.DOTALL)
    typed = re.sub(r"`[^`]*`", "", typed)
    assert not [match[0] for match in FIGURE.finditer(typed)]
    assert section.count("<!-- figures ") == section.count("<!-- /figures -->") >= tables


def test_pictures_show_what_is_true_today() -> None:
    document = read_files(RESULTS)["demo"]
    drawn = pictures(document)
    assert [item.name for item in drawn if not item.is_kept] == [], "run: make pages"
    assert {path.name for path in PICTURES.iterdir()} == {item.name for item in drawn}
    assert drawn_from(png(new_figure(1, 1))) == ""
    changed = document | {"report": document["report"] | {"model": "another"}}
    others = [item for item in pictures(changed) if not item.is_kept]
    assert [item.name for item in others] == ["layers.png", "roofline.png"]
    assert all(drawn_from(item.data()) == item.source and len(item.data()) < 100_000 for item in others)


def test_a_table_gives_a_row_by_the_beginning_of_its_measure() -> None:
    other = Row("slowness", "{0}", (at("x", "speed"),))
    table = Table((ROW, other), sources=False)
    assert table.row("slow") is other
    assert table.text(FILES).endswith("| slowness | 1.234 |")
    for beginning, count in (("s", 2), ("t", 0)):
        with pytest.raises(PageError, match=f"{count} rows begin with '{beginning}', not one"):
            table.row(beginning)


def test_every_block_stands_on_a_page() -> None:
    pages = "".join((ROOT / name).read_text(encoding="utf-8") for name in PAGES)
    assert {name for name in BLOCKS if f"<!-- figures {name} -->" not in pages} == set()


def test_a_table_is_its_rows_and_where_they_come_from() -> None:
    gone = Row("elsewhere", "{0}", (at("y", "speed"),))
    text = Table((ROW, gone), note="A note.").text(FILES)
    assert text == (
        "A note.\n\n| measure | value |\n|---|---|\n| speed | 1.23 (7 ms) |\n\n"
        "- benchmarks/results/x.json: `python benchmarks/x.py --write`, commit abc, 2026-01-02, P, 2 cores, "
        "ONNX Runtime 1.0"
    )
    assert list(missing({"t": Table((ROW, gone))}, FILES)) == ["y"]


def test_an_optional_row_waits_for_its_figures() -> None:
    figures = (at("x", "rows", Where("name", "c"), "time"),)
    waiting = Row("of c", "{0} ms", figures, optional=True)
    assert Table((ROW, waiting)).text(FILES) == Table((ROW,)).text(FILES)
    rows = [*FILES["x"]["rows"], {"name": "c", "time": 9}]
    assert "| of c | 9 ms |" in Table((ROW, waiting)).text({"x": FILES["x"] | {"rows": rows}})
    with pytest.raises(PageError, match="has nothing"):
        Table((Row("of c", "{0} ms", figures),)).text(FILES)


def test_blocks_are_replaced_and_all_else_is_kept() -> None:
    page = "before\n<!-- figures t -->\nold 9.99\n<!-- /figures -->\nafter\n"
    blocks = MappingProxyType({"t": Text("x", lambda document: f"{document['speed']:.1f}")})
    made = rewritten(page, blocks, FILES)
    assert made == "before\n<!-- figures t -->\n1.2\n<!-- /figures -->\nafter\n"
    assert rewritten(made, blocks, FILES) == made
    with pytest.raises(PageError, match="there is no block 't'; the blocks are u"):
        rewritten(page, {"u": blocks["t"]}, FILES)


@pytest.mark.parametrize("path", [("nothing",), ("rows", Where("name", "c")), ("speed", "deeper")])
def test_a_figure_that_a_file_does_not_have_is_named(path) -> None:
    with pytest.raises(PageError, match=r"x\.json has nothing at "):
        at("x", *path).value(FILES)


def test_the_demonstrations_table_is_that_of_the_kept_report() -> None:
    report = read_files(RESULTS)["demo"]["report"]
    text = demo_text({"report": report})
    assert f"{report['total']['cycles']:,}" in text and all(v["name"] in text for v in report["variants"])
    changed = report | {"total": report["total"] | {"cycles": 12_345_678}}
    assert "12,345,678" in demo_text({"report": changed})
