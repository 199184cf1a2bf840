"""Worker process that measures CPU candidates, some of which fail: python faulty_cpu_worker.py '{"1": "abort"}'.

The JSON argument maps values of the knob "block.0" to faults of candidates.
"""

import json
import os
import sys
import time

import numpy as np
from patience import say_that_this_hangs

from vdla.compiler.tune.measure import trial_cpu
from vdla.compiler.tune.measure.descriptions import load
from vdla.compiler.tune.measure.worker import serve


def faulty(description):
    measure = load(description)

    def measured(values):
        match json.loads(sys.argv[1]).get(str((values or {}).get("block.0"))):
            case "abort":
                print("LLVM ERROR: out of luck", file=sys.stderr, flush=True)
                os.abort()
            case "hang":
                say_that_this_hangs()
                time.sleep(3600)
            case "memory":
                np.zeros(1 << 40, np.uint8)
            case "wrong":
                right = trial_cpu.expected
                trial_cpu._known.cache_clear()
                trial_cpu.expected = lambda workload, arrays: right(workload, arrays) + np.float32(0.5)
                try:
                    return measure(values)
                finally:
                    trial_cpu.expected = right
                    trial_cpu._known.cache_clear()
        return measure(values)

    return measured


if __name__ == "__main__":
    serve(faulty)
