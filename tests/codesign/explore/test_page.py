"""The report page of an exploration in a real browser: clicks, keys, drags and downloads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from browser import browser, opened
from campaign import representatives
from playwright.sync_api import Browser, Page

import vdla
from vdla.codesign import models
from vdla.isa.config import load_config
from vdla.isa.config_text import toml_text

SPACE = {
    "base": "tiny",
    "fields": {
        "block_in": [4, 8],
        "block_out": "block_in",
        "bus_bytes": [8, 16],
        "read_latency": [30, 100],
        "inp_buffer_bytes": [128, 1024, 4096],
    },
}


@dataclass(frozen=True, eq=False)
class Studied:
    explored: vdla.Explored
    folder: Path
    browser: Browser

    def page(self) -> Path:
        return self.folder / "report.html"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studied]:
    folder = tmp_path_factory.mktemp("study")
    model = folder / "mlp.onnx"
    model.write_bytes(models.build("mlp").SerializeToString())
    found = vdla.explore(
        SPACE, model, budget=24, strategy="exhaustive", constraints=["area<19mm2"], folder=folder
    )
    found.save(folder)
    with browser() as program:
        yield Studied(found, folder, program)


def title(page: Page) -> str:
    return page.inner_text("#design-title")


def test_a_design_is_chosen_compared_and_downloaded(study: Studied):
    with opened(study.browser, study.page()) as page:
        front = [design.number for design in study.explored.front]
        first, last = front[0], front[-1]
        page.locator(f'#front-svg circle.front[data-design="{first}"]').click(force=True)
        assert title(page) == f"A: design {first}"
        page.locator(f'#front-svg circle.front[data-design="{last}"]').click(force=True, modifiers=["Shift"])
        assert page.inner_text("#compare-title") == f"A: design {first} and B: design {last}"
        short = page.inner_text("#compare-short")
        a, b = (study.explored.exploration.designs[number].figures for number in (first, last))
        assert "more" in short or "fewer" in short or "less" in short
        assert ("area: B has" in short) == (a.square_millimetres != b.square_millimetres)
        # The cycles of the table of layers are those of the simulation.
        cycles = f"{a.networks['mlp'].cycles:,}"
        assert cycles in page.inner_text("#layers-table tbody tr:last-child")
        with page.expect_download() as download:
            page.click("#download-toml")
        text = Path(download.value.path()).read_text()
        assert download.value.suggested_filename == f"{first}.toml"
        assert text == (study.folder / "front" / f"{first}.toml").read_text()
        assert load_config(study.folder / "front" / f"{first}.toml").digest in {
            design.machine.digest for design in study.explored.front if design.machine is not None
        }


def test_the_file_of_every_design(study: Studied):
    with opened(study.browser, study.page()) as page:
        for design in study.explored.exploration.designs:
            if design.machine is not None:
                assert page.evaluate(f"toml({design.number})") == toml_text(design.machine)
        assert page.evaluate("toml(reference)") == toml_text(load_config("tiny"))
        commands = page.evaluate(f"commands({study.explored.front[0].number}).map((item) => item[1])")
        assert any(text.startswith("vdla run ") and text.endswith("--engine rtl") for text in commands)
        assert {text.split()[1] for text in commands} == {"run", "cosim", "rtl", "synth", "compare"}


def test_brushes_and_the_table_agree(study: Studied):
    with opened(study.browser, study.page()) as page:
        page.uncheck("#table-front")
        rows = study.explored.rows()
        ran = [row for row in rows if not row["failed"]]
        assert page.locator("#table-body tbody tr").count() == len(ran)
        axis = page.locator('[data-axis="block_in"] .axis-hit')
        axis.scroll_into_view_if_needed()
        box = axis.bounding_box()
        assert box is not None
        x, middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, box["y"] + 1)
        page.mouse.down()
        page.mouse.move(x, middle, steps=3)
        page.mouse.up()
        wide = [row for row in ran if row["block_in"] == 8]
        assert 0 < len(wide) < len(ran)
        assert page.inner_text("#parallel-count") == f"{len(wide)} of {len(ran)} designs"
        assert page.locator("#table-body tbody tr").count() == len(wide)
        assert page.locator("#front-svg .dot.out").count() >= len(ran) - len(wide)
        page.click("#parallel-clear")
        assert page.locator("#table-body tbody tr").count() == len(ran)
        # The same by keyboard: from the top of the axis down to its middle.
        page.focus('[data-axis="block_in"]')
        for _ in range(12):
            page.keyboard.press("ArrowDown")
        narrow = len(ran) - len(wide)
        assert page.inner_text("#parallel-count") == f"{narrow} of {len(ran)} designs"
        page.keyboard.press("Delete")
        assert page.inner_text("#parallel-count") == f"{len(ran)} of {len(ran)} designs"
        with page.expect_download() as download:
            page.click("#table-csv")
        lines = Path(download.value.path()).read_text().splitlines()
        assert len(lines) == len(ran) + 1 and lines[0].startswith("design,block_in,")


def test_keys_go_along_the_front(study: Studied):
    with opened(study.browser, study.page()) as page:
        page.select_option("#front-x", "latency")
        front = [design.number for design in study.explored.front]
        page.locator(f'#front-svg circle.front[data-design="{front[0]}"]').click(force=True)
        page.focus("#front-svg")
        page.keyboard.press("ArrowRight")
        assert title(page) == f"A: design {front[1]}"
        page.keyboard.press("Enter")
        assert page.inner_text("#compare-title").endswith(f"B: design {front[1]}")
        page.keyboard.press("ArrowLeft")
        assert title(page) == f"A: design {front[0]}"


@pytest.mark.parametrize(
    ("scheme", "width"),
    representatives(
        [("light", 1280), ("dark", 1280), ("light", 390)], 0, always=[("dark", 1280), ("light", 390)]
    ),
)
def test_nothing_sticks_out(study: Studied, scheme: str, width: int):
    with opened(study.browser, study.page(), scheme=scheme, width=width) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        page.click("#theme")
        assert page.evaluate("document.documentElement.dataset.theme") != scheme
        for figure in ("utilization", "dram"):
            page.select_option("#front-y", figure)
            page.check("#front-log")
        for name in page.locator("#history-what option").all():
            page.select_option("#history-what", name.get_attribute("value"))
        for button in page.locator("#sensitivity-table th button").all_inner_texts():
            page.click(f"#sensitivity-table th button:text-is('{button}')")
