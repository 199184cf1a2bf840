"""A program that starts writers of tuning records and kills them while they write: `record_writers.py FILE SEED`.

Each writer continues at the end of the file, reports the number of each trial when it is written, and is killed by
SIGKILL some time after its first record. The last writer instead reaches a limit on the file's size in the middle of a
line; its error message is printed. Then the number of kills and the reported trials are printed.
"""

import json
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path

from vdla.compiler.records.files import RecordError, RecordWriter, read_records
from vdla.compiler.records.record import Record, Task

KILLS = 30
TASK = Task(
    workload={"template": "dense", "rows": 8, "shape": [16] * 2000}, target={"kind": "vdla", "config": "t"}
)


def record(trial: int) -> Record:
    knobs = {"rows": trial % 7, "columns": 1}
    return Record(task=TASK, knobs=knobs, cost=5.0 + trial, trial=trial, seed=0, strategy="a", elapsed=0.0)


def write_on(path: Path, told: int, most: int | None = None) -> None:
    """Appends trials to the file until the process is killed, or raises RecordError when a line would make the file
    larger than `most` bytes (None: no limit). Writes the number of each trial, once it is in the file, to the file
    descriptor `told`.
    """
    trial = 1 + max((r.trial for r in read_records(path)[0]), default=-1)
    if most is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    with RecordWriter(path) as writer:
        while True:
            writer.append(record(trial))
            os.write(told, trial.to_bytes(4, "little"))
            trial += 1


def main() -> None:
    path, chance = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
    path.touch()
    told: list[int] = []
    for attempt in range(KILLS + 1):
        reading, writing = os.pipe()
        most = path.stat().st_size + 10_000 if attempt == KILLS else None
        child = os.fork()
        if child == 0:
            try:
                write_on(path, writing, most)
            except RecordError as error:
                print(json.dumps({"refused": str(error)}), flush=True)
            os._exit(0)
        os.close(writing)
        data = os.read(reading, 4)
        if most is None:
            time.sleep(0.005 * chance.random())
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while piece := os.read(reading, 1 << 16):
            data += piece
        os.close(reading)
        told += [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data) - 3, 4)]
    print(json.dumps({"kills": KILLS, "told": told}), flush=True)


if __name__ == "__main__":
    main()
