"""A measuring process some of whose candidates go wrong: python faulty_cpu_worker.py '{"1": "abort"}' MEMORY.

The fault of a candidate is looked up by its knob "unroll".
"""

import json
import os
import sys
import time

import numpy as np
from vdla.compiler.tune.measure import measure_cpu_worker as worker


def faulty(request):
    fault = json.loads(sys.argv[1]).get(str((request["knobs"] or {}).get("unroll")))
    match fault:
        case "abort":
            print("LLVM ERROR: out of luck", file=sys.stderr, flush=True)
            os.abort()
        case "hang":
            time.sleep(3600)
        case "memory":
            return {**worker.evaluate(request), **_exhausted()}
        case "wrong":
            right = worker.expected
            worker._known.cache_clear()
            worker.expected = lambda workload, arrays: right(workload, arrays) + np.float32(0.5)
            try:
                return worker.evaluate(request)
            finally:
                worker.expected = right
                worker._known.cache_clear()
    return worker.evaluate(request)


def _exhausted():
    try:
        np.zeros(1 << 40, np.uint8)
    except MemoryError as error:
        return {"seconds": None, "error": f"MemoryError: {error}"}
    return {}


if __name__ == "__main__":
    worker.main(faulty)
