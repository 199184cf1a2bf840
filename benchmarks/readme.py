"""Writes the tables and pictures of the project's pages from the files in benchmarks/results.

    python benchmarks/readme.py [--check]

Blocks between `<!-- figures NAME -->` and `<!-- /figures -->` are replaced (`vdla.benchmarks.harness.tables` lists
pages and rows). A picture in docs/pictures is drawn again if its data have changed. The name of a file of results that
does not exist yet is printed, and its rows are left out. With --check nothing is written; exit code 1: a page or a
picture differs from the files of results.
"""

from __future__ import annotations

from vdla.benchmarks.harness.catalogue import maker_of
from vdla.benchmarks.harness.command_line import CHECK, Given, run_script
from vdla.benchmarks.harness.page import Document, missing, read_files, rewritten
from vdla.benchmarks.harness.pictures import PICTURES, pictures
from vdla.benchmarks.harness.results import RESULTS, ROOT
from vdla.benchmarks.harness.tables import BLOCKS, PAGES
from vdla.util.files import write_whole

OPTIONS = (CHECK,)


def main(options: Given) -> int:
    """Rewrites the pages and pictures that differ from the files of results; with --check only prints their names.
    Returns whether --check found any.
    """
    files = read_files(RESULTS)
    changed = False
    for name in PAGES:
        path = ROOT / name
        before = path.read_text(encoding="utf-8")
        after = rewritten(before, BLOCKS, files)
        if before == after:
            continue
        changed = True
        print(f"{name}: {'is not what the files give' if options.check else 'written'}")
        if not options.check:
            write_whole(path, after.encode())
    if "demo" in files:
        changed |= _draw(files["demo"], options.check)
    for name in missing(BLOCKS, files):
        maker = maker_of(name)
        print(f"not measured: benchmarks/results/{name}.json, by {maker.path if maker else 'no benchmark'}")
    return options.check and changed


def _draw(demo: Document, check: bool) -> bool:
    """Draws the pictures whose data have changed (with `check` only names them). Returns whether there are any."""
    changed = [picture for picture in pictures(demo) if not picture.is_kept]
    for picture in changed:
        print(f"docs/pictures/{picture.name}: {'shows something else than today' if check else 'written'}")
        if not check:
            PICTURES.mkdir(exist_ok=True)
            write_whole(picture.path, picture.data())
    return bool(changed)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
