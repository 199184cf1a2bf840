"""The results of `vdla demo` for ResNet-18 on `vta`, from which the README's layer table is made.

python benchmarks/demo.py [--write]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from vdla.benchmarks.harness.command_line import WRITE, Given, run_script
from vdla.benchmarks.harness.results import write_results
from vdla.codesign.demo import run_demo
from vdla.isa.config import load_config

MODEL, CONFIG = "resnet18", "vta"


OPTIONS = (WRITE,)


def main(options: Given) -> int:
    with tempfile.TemporaryDirectory() as folder:
        demo = run_demo(MODEL, load_config(CONFIG), Path(folder), lambda step: print(step, file=sys.stderr))
    total = demo.account.total
    print(f"{total.cycles:,} cycles, utilization {total.utilization:.4f}")
    if options.write:
        write_results("demo", {"report": demo.document}, compact=True)
    return not demo.passed


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
