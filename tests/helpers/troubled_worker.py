"""A worker process whose candidates do as their knob "do" says: return a cost, crash, hang, raise an exception, print
...
"""

import os
import signal
import time
from collections.abc import Mapping

from patience import say_that_this_hangs

from vdla.compiler.tune.measure.descriptions import Description, Measure, TaskError
from vdla.compiler.tune.measure.trial import Result
from vdla.compiler.tune.measure.worker import serve

FINE, CRASH, HANG, RAISE, PRINT, CRASH_ONCE, PID = range(7)


def load(description: Description) -> Measure:
    if description["kind"] == "none":
        raise TaskError("no task")
    if description["kind"] == "fatal":
        os._exit(9)

    def measure(values: Mapping[str, int] | None) -> Result:
        values = values or {"do": FINE, "cost": 0}
        cost = float(values["cost"])
        match values["do"]:
            case 1:
                os.kill(os.getpid(), signal.SIGSEGV)
            case 2:
                say_that_this_hangs()
                while True:
                    time.sleep(60)
            case 3:
                raise IndexError(f"no {cost:.0f}")
            case 4:
                os.write(1, b'{"cost": 1.0}\n')
            case 5:
                flag = str(description["flag"])
                if not os.path.exists(flag):
                    open(flag, "w").close()
                    os.abort()
            case 6:
                return Result(cost=float(os.getpid()))
        time.sleep(0.002)
        return Result(cost=cost, seconds=0.002)

    return measure


if __name__ == "__main__":
    serve(load)
