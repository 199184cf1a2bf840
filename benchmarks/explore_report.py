"""The report of an exploration with 2,000 designs: its size, the time to write it, and the time until it is usable in a
browser.

    python benchmarks/explore_report.py [--designs N] [--folder DIR] [--json] [--write]

Random designs around `vta` run two shipped networks; the page has the layers of 24 designs of the front. "usable" is
the time from the start of the navigation until the browser has painted the whole page. "choose" is the time from
choosing a design until the browser has painted it. The page itself measures these times (`performance.now`). The
figures are median and least of 7 loads in Debian's headless Chromium, without a GPU and without a cache. With
`--folder` the study's records stay there and later runs use them. With `--write` the figures go to
benchmarks/results/explore_report.json.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import vdla
from vdla.benchmarks.harness.command_line import DESIGNS, FOLDER, OUTPUT, Given, run_script
from vdla.benchmarks.harness.output import finish, listed
from vdla.codesign import models

NETWORKS = ("small_cnn", "mlp")
SPACE = {
    "base": "vta",
    "fields": {
        "block_in": [4, 8, 16, 32, 64],
        "block_out": "block_in",
        "inp_buffer_bytes": {"from": 4096, "to": 131072, "times": 2},
        "wgt_buffer_bytes": {"from": 32768, "to": 524288, "times": 2},
        "acc_buffer_bytes": {"from": 32768, "to": 262144, "times": 2},
        "acc_banks": [2, 4, 8],
        "bus_bytes": [8, 16, 32, 64],
        "read_latency": [30, 100, 200],
        "outstanding_reads": [4, 8, 16],
    },
}
LOADS = 7
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PAINTED = """
async (design) => {
  const began = performance.now();
  change({ a: design });
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - began;
}
"""


def measure(folder: Path, designs: int) -> dict[str, Any]:
    """Makes a report of `designs` designs in `folder` and loads it in a browser; returns all figures of the benchmark
    by name.
    """
    paths = []
    for name in NETWORKS:
        paths.append(folder / f"{name}.onnx")
        models.write(paths[-1], name)
    began = time.process_time()
    found = vdla.explore(SPACE, paths, budget=designs, strategy="random", folder=folder)
    searched = time.process_time() - began
    found.to_html()  # A first report computes the layers and loads code, so that the timed one does not.
    began = time.process_time()
    text = found.to_html(layers=24)
    page = folder / "report.html"
    page.write_text(text)
    written = time.process_time() - began
    return {
        "designs": len(found.exploration.designs),
        "failed": sum(design.objectives is None for design in found.exploration.designs),
        "front": len(found.front),
        "networks": list(NETWORKS),
        "bytes": page.stat().st_size,
        "search and evaluation, CPU s": round(searched, 1),
        "layers and page, CPU s": round(written, 2),
        **in_browser(page, [design.number for design in found.front]),
    }


def in_browser(page: Path, front: list[int]) -> dict[str, Any]:
    """Loads the report page LOADS times in a headless browser. Returns the milliseconds until the page is usable, and
    the milliseconds to show a design after it is chosen, each as median and least. `front`: numbers of designs, of
    which each load chooses one.
    """
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium-headless-shell")
    if program is None:
        raise SystemExit("chromium-headless-shell is not installed: apt-get install chromium-headless-shell")
    usable, chosen = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        version = browser.version
        for load in range(LOADS):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            tab = context.new_page()
            tab.goto(page.as_uri())
            tab.wait_for_function("document.documentElement.dataset.usable", timeout=120_000)
            usable.append(float(tab.evaluate("Number(document.documentElement.dataset.usable)")))
            chosen.append(float(tab.evaluate(PAINTED, front[load % len(front)])))
            context.close()
        browser.close()
    return {
        "browser": f"Chromium {version}, headless, no GPU",
        "usable, ms": {"median": round(statistics.median(usable)), "least": round(min(usable))},
        "choose, ms": {"median": round(statistics.median(chosen)), "least": round(min(chosen))},
    }


OPTIONS = (DESIGNS.but(default=2000), FOLDER, *OUTPUT)


def main(options: Given) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        figures = measure(folder, options.designs)
    finish(options, "explore_report", figures, lines=listed(figures), packages=("playwright",))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
