"""Makes the tables of README.md and hw/synthesis.md anew from the files in benchmarks/results.

    python benchmarks/readme.py [--check]

Blocks between `<!-- figures NAME -->` and `<!-- /figures -->` are replaced (`vdla.benchmarks.harness.tables` has their
rows). Files that were not measured yet are named; their rows are left out. With --check nothing is written; exit code
1 says that a page is not what the files give.
"""

from __future__ import annotations

import argparse
import sys

from vdla.benchmarks.harness.page import missing, read_files, rewritten
from vdla.benchmarks.harness.results import RESULTS, ROOT
from vdla.benchmarks.harness.tables import BLOCKS, PAGES
from vdla.util.whole_files import write_whole


def main() -> None:
    """Rewrite the pages, or look whether that would change them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
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
    for name in missing(BLOCKS, files):
        print(f"not measured: benchmarks/results/{name}.json")
    sys.exit(options.check and changed)


if __name__ == "__main__":
    main()
