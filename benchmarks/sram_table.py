"""The table of memory macros that synthesis for standard cells uses, computed by CACTI.

    python benchmarks/sram_table.py --cacti DIR [--write]

DIR holds the program `cacti` of CACTI 7.0 (HP Labs; the Python package `hwcomponents-cacti` ships its sources, built by
`make opt`) and its `tech_params`. Every macro is one bank with a read port and a write port. With `--write` the table
goes to hw/synthesis/cells/sram.json.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path

from vdla.benchmarks.harness.command_line import WRITE, Given, Option, run_script
from vdla.benchmarks.harness.results import ROOT, provenance
from vdla.util.files import write_whole

NODE_NM = 45
WORDS = tuple(2**n for n in range(6, 16))
WIDTHS = (32, 64, 128, 256)
CELLS = "itrs-lop"
_OPTIONS = """\
-size (bytes) {size}
-block size (bytes) {width_bytes}
-output/input bus width {width}
-read-write port 0
-exclusive read port 1
-exclusive write port 1
-single ended read ports 0
-associativity 1
-UCA bank count 1
-UCA bank 1
-technology (u) {node}
-page size (bits) 0
-burst length 8
-internal prefetch width 8
-Data array cell type - "{cells}"
-Data array peripheral type - "{cells}"
-Tag array cell type - "{cells}"
-Tag array peripheral type - "{cells}"
-operating temperature (K) 300
-cache type "ram"
-tag size (b) "default"
-access mode (normal, sequential, fast) - "normal"
-design objective (weight delay, dynamic power, leakage power, cycle time, area) 0:0:0:0:100
-deviate (delay, dynamic power, leakage power, cycle time, area) 20:100000:100000:100000:100000
-NUCAdesign objective (weight delay, dynamic power, leakage power, cycle time, area) 100:100:0:0:100
-NUCAdeviate (delay, dynamic power, leakage power, cycle time, area) 10:10000:10000:10000:10000
-Optimize ED or ED^2 (ED, ED^2, NONE): "NONE"
-Cache model (NUCA, UCA)  - "UCA"
-NUCA bank count 0
-Wire signaling (fullswing, lowswing, default) - "Global_30"
-Wire inside mat - "semi-global"
-Wire outside mat - "semi-global"
-Interconnect projection - "conservative"
-Core count 1
-Add ECC - "false"
-Print level (DETAILED, CONCISE) - "DETAILED"
-Print input parameters - "true"
-Force cache config - "false"
"""
_FIELDS = {
    "access_ns": r"Access time \(ns\): ([\d.e+-]+)",
    "cycle_ns": r"Cycle time \(ns\): +([\d.e+-]+)",
    "read_nj": r"Total dynamic read energy per access \(nJ\): ([\d.e+-]+)",
    "write_nj": r"Total dynamic write energy per access \(nJ\): ([\d.e+-]+)",
    "leakage_mw": r"Total leakage power of a bank \(mW\): ([\d.e+-]+)",
}


def macro(cacti: Path, words: int, width: int, defaults: str) -> dict[str, float]:
    """Figures, by name, of a macro of `words` words of `width` bits: area (square micrometres), times (ns), energies of
    accesses (pJ) and leakage (microwatts). `cacti`: folder of the program `cacti`; `defaults`: lines of CACTI's
    settings for parts that the macro does not have. Raises SystemExit if CACTI does not print a figure.
    """
    text = defaults + _OPTIONS.format(
        size=words * width // 8, width=width, width_bytes=width // 8, node=NODE_NM / 1000, cells=CELLS
    )
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as file:
        file.write(text)
        file.flush()
        printed = subprocess.run(
            [cacti / "cacti", "-infile", file.name], cwd=cacti, capture_output=True, text=True, check=True
        ).stdout
    found = {}
    for name, pattern in _FIELDS.items():
        match = re.search(pattern, printed)
        if match is None:
            raise SystemExit(f"CACTI gives no {name} for {words} words of {width} bits: {printed[-300:]}")
        found[name] = float(match[1])
    sides = re.search(r"Cache height x width \(mm\): ([\d.]+) x ([\d.]+)", printed)
    assert sides is not None
    return {
        "area_um2": float(f"{float(sides[1]) * float(sides[2]) * 1e6:.5g}"),
        "access_ns": float(f"{found['access_ns']:.4g}"),
        "cycle_ns": float(f"{found['cycle_ns']:.4g}"),
        "read_pj": float(f"{found['read_nj'] * 1e3:.4g}"),
        "write_pj": float(f"{found['write_nj'] * 1e3:.4g}"),
        "leakage_uw": float(f"{found['leakage_mw'] * 1e3:.4g}"),
    }


OPTIONS = (
    Option("--cacti", "folder of the program cacti and its tech_params", Path, metavar="DIR", required=True),
    WRITE.but(help="write hw/synthesis/cells/sram.json"),
)


def main(options: Given) -> None:
    # CACTI needs values also for parts that such a memory does not have; these are from CACTI's own example.
    example = (options.cacti / "cache.cfg").read_text(encoding="utf-8")
    names = {line.split("(")[0].split("-")[1].strip() for line in _OPTIONS.splitlines()}
    kept = [
        line
        for line in example.splitlines()
        if line.startswith("-") and line[1:].split("(")[0].split("-")[0].strip(' "') not in names
    ]
    defaults = "\n".join([*kept, ""])
    rows = []
    for words in WORDS:
        for width in WIDTHS:
            row = {"words": words, "width": width, **macro(options.cacti, words, width, defaults)}
            rows.append(row)
            print(json.dumps(row), flush=True)
    if options.write:
        table = {
            "written": provenance(),
            "source": f"CACTI 7.0, HP Labs (BSD licence): {NODE_NM} nm, {CELLS}, 300 K, one bank, "
            "one read and one write port",
            "node_nm": NODE_NM,
            "macros": rows,
        }
        text = json.dumps(table, indent=1)
        path = ROOT / "hw" / "synthesis" / "cells" / "sram.json"
        write_whole(path, (text + "\n").encode())
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
