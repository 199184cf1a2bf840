"""The cycles shown on the project's pages equal the cycles of the present compiler and simulator."""

import re

import pytest
from shipped import shipped

from vdla.benchmarks.harness import exact
from vdla.benchmarks.harness.exact import resnet18_cycles, stale
from vdla.benchmarks.harness.page import At, read_files
from vdla.benchmarks.harness.results import RESULTS, ROOT, read_results
from vdla.isa.config import load_config

RESNET18 = re.compile(r"\b7,2\d\d,\d{3}\b")
"""Regular expression that finds cycle counts of ResNet-18, on a machine of 256 multipliers, in pages: numbers from
7,200,000 to 7,299,999. The roofline of this network on this machine is 7,148,913 cycles.
"""


@pytest.fixture(scope="module", autouse=True)
def today() -> list[tuple[At, int]]:
    """Yields a list of newly simulated figures as (place in the results, cycles). While a test uses the list,
    `figures_of_today` returns it, too, so that programs are compiled only once.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "_resnet18", lambda: shipped("resnet18", "u8"))
        figures = list(exact.figures_of_today())
        patch.setattr(exact, "figures_of_today", lambda: iter(figures))
        yield figures


def test_results_are_of_today() -> None:
    files = read_files(RESULTS)
    assert [str(item) for item in stale(files)] == [], "run: make pages"
    changed = {**files, "rtl": {**files["rtl"], "cycles": 7_222_133}}
    kept = files["rtl"]["cycles"]
    assert [str(item) for item in stale(changed)] == [
        f"benchmarks/results/rtl.json: cycles: 7,222,133 there, {kept:,} today"
    ]


def test_resnet18_has_one_count_on_all_pages(today: list[tuple[At, int]]) -> None:
    known = {f"{cycles:,}" for _, cycles in today} | {f"{resnet18_cycles(load_config('osdi18')):,}"}
    placed = [row["cycles"] for row in read_results("dram_placement")["rows"] if row["name"] == "resnet18"]
    (row,) = (row for row in read_results("dram_channels")["rows"] if row["name"] == "resnet18")
    placed += [*row["cycles"].values(), *row["pieces"].values(), row["fixed"], row["wide"]]
    known |= {f"{cycles:,}" for cycles in placed}
    pages = [ROOT / "README.md", *ROOT.glob("notebooks/*.ipynb")]
    pages += [page for folder in ("docs", "hw", "isa", "compiler") for page in ROOT.glob(f"{folder}/**/*.md")]
    shown = {
        page.relative_to(ROOT).as_posix(): set(RESNET18.findall(page.read_text(encoding="utf-8")))
        for page in pages
    }
    assert {name: found - known for name, found in shown.items() if found - known} == {}
    expected = ("README.md", "docs/tutorials/read_a_report.md", "notebooks/latency_hiding.ipynb")
    assert all(shown[name] for name in expected)
