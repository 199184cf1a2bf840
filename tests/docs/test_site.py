"""The documentation site builds without network access and without warnings, and contains every page of the
repository.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import vdla

ROOT = Path(__file__).parents[2]
NOT_ON_THE_SITE = {"README.md"}
"""Pages that the site leaves out: README.md is for the repository's front page; the site begins with docs/index.md."""
# As `python -m sphinx`, with fewer collections of garbage: a tenth of the time.
BUILD = """
import gc, sys
gc.set_threshold(50_000)
from sphinx.cmd.build import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-c", BUILD, "-W", "--keep-going", "-q", "-b", "html", "-c", "docs"]
    done = subprocess.run(
        [*command, "-d", str(folder / "doctrees"), ".", str(folder / "html")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


def test_the_site_has_every_page_of_the_repository(site: Path) -> None:
    folders = [
        path for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "." and path.name != "build"
    ]
    found = [*ROOT.glob("*.md"), *(page for folder in folders for page in folder.rglob("*.md"))]
    pages = sorted({path.relative_to(ROOT).as_posix() for path in found} - NOT_ON_THE_SITE)
    assert len(pages) > 5
    assert [page for page in pages if not (site / page).with_suffix(".html").is_file()] == []


def test_the_first_address_leads_to_the_first_page(site: Path) -> None:
    assert "url=docs/index.html" in (site / "index.html").read_text(encoding="utf-8")
    assert "<h1>vdla" in (site / "docs" / "index.html").read_text(encoding="utf-8")


def test_every_name_of_the_package_is_in_the_reference(site: Path) -> None:
    page = (site / "docs" / "reference" / "api.html").read_text(encoding="utf-8")
    assert [name for name in vdla.__all__ if f'id="vdla.{name}"' not in page] == []
    # Schedule's methods say what their primitives do, with the program before and after.
    assert "for i_j in range(24)" in re.sub(r"<[^>]+>", "", page)
