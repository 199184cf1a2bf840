"""Threads for parallel loops. The threads of a pool take chunks of a loop by one atomic counter; idle threads spin for
a while, then sleep.

The code of the pool is LLVM IR like the kernels, so building it needs only LLVM. The threads are Python threads that
call this code and stay in it, without the interpreter's lock, until the pool is closed. A loop ends when its chunks are
done; it does not wait for helper threads that got no processor time meanwhile.
"""

from __future__ import annotations

import ctypes
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import TargetError
from .machine import host_target
from .machine_code import compile_module
from .module import Module

IDLE_SPINS = 100_000
"""Number of times that a helper thread checks for a new loop before it sleeps. The checks take one to several
milliseconds. To wake a thread takes up to hundreds of microseconds on a virtual machine, so a helper must not sleep
while the caller runs serial parts.
"""
YIELD_SPINS = 4000
"""Before the calling thread yields its core, it checks this number of times whether the last chunks are done. The
checks take tens of microseconds.
"""
_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
"""Number of Linux's futex system call on each architecture. Operation 128 + 0 of futex lets a thread wait as long as a
word in memory has a given value; operation 128 + 1 wakes waiting threads.
"""
_WORDS = 16
"""Number of 64-bit words in a pool's memory. Word 0 is the epoch (number of the current loop), word 1 whether threads
must stop. Words 2 and 3 are the address of the loop's function and of its arguments. Words 4 and 5 are the number of
chunks of the loop, and the number of finished chunks. Word 6 is the number of sleeping helper threads. Word 8, in a
cache line of its own, is the number of chunks that no thread has taken yet, with the epoch in the upper half.
"""


FUNCTIONS = ("launch", "work", "stop")
"""Functions of the pool's module that Python calls or passes to kernels."""


class Pool:
    """A pool of `threads` threads, the caller's included. Close it, or use it as a context manager.

    Raises TargetError if `threads` is less than 1, and if the machine is not Linux on x86-64, aarch64 or riscv64. In a
    forked child, an inherited pool has no threads; using it raises TargetError.
    """

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise TargetError(f"a pool needs at least one thread, not {threads}")
        number = _FUTEX.get(platform.machine())
        if number is None or platform.system() != "Linux":
            raise TargetError(
                "pools of threads need Linux on x86-64, aarch64 or riscv64; run on one thread instead"
            )
        self.threads = threads
        self._code = compile_module(_module(number), host_target(), FUNCTIONS)
        self._words = (ctypes.c_int64 * _WORDS)()
        self._lock = threading.Lock()
        self._process = os.getpid()
        self.address = ctypes.addressof(self._words)
        self.launch = self._code.library["launch"]
        work = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(self._code.library["work"])
        self._helpers = [
            threading.Thread(target=work, args=(self.address, worker), daemon=True, name=f"vdla-{worker}")
            for worker in range(1, threads)
        ]
        for helper in self._helpers:
            helper.start()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A context in which no other thread of this program uses the pool; entering waits until none does. Raises
        TargetError if the pool is closed, or was made in another process.
        """
        if os.getpid() != self._process:
            raise TargetError(
                "the threads of this pool do not exist in a forked process; make a new pool there"
            )
        with self._lock:
            if not self._helpers and self.threads > 1:
                raise TargetError("this pool is closed")
            yield

    def close(self) -> None:
        """Ends the threads. A second call has no effect."""
        with self._lock:
            if self._helpers and os.getpid() == self._process:
                stop = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._code.library["stop"])
                stop(self.address)
                for helper in self._helpers:
                    helper.join()
            self._helpers = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _module(futex: int) -> Module:
    pause = "call void @llvm.x86.sse2.pause()" if platform.machine() == "x86_64" else "fence seq_cst"
    declare = "declare void @llvm.x86.sse2.pause()" if platform.machine() == "x86_64" else ""
    text = f"""target triple = "{host_target().triple}"
{declare}
declare i64 @syscall(i64, ...)
declare i32 @sched_yield()

; Chunks until there are none left. Who takes one may rely on task, closure and chunks: the launch waits for it.
define internal void @run(ptr %pool, i64 %worker) {{
entry:
  %task.at = getelementptr i64, ptr %pool, i64 2
  %closure.at = getelementptr i64, ptr %pool, i64 3
  %chunks.at = getelementptr i64, ptr %pool, i64 4
  %done.at = getelementptr i64, ptr %pool, i64 5
  %left.at = getelementptr i64, ptr %pool, i64 8
  br label %look
look:
  %seen = load atomic i64, ptr %left.at acquire, align 8
  br label %again
again:
  %word = phi i64 [ %seen, %look ], [ %other, %take ]
  %left = and i64 %word, 4294967295
  %none = icmp eq i64 %left, 0
  br i1 %none, label %leave, label %take
take:
  %less = sub i64 %word, 1
  %pair = cmpxchg ptr %left.at, i64 %word, i64 %less acq_rel acquire
  %other = extractvalue {{ i64, i1 }} %pair, 0
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %do, label %again
do:
  %task = load ptr, ptr %task.at, align 8
  %closure = load ptr, ptr %closure.at, align 8
  %chunks = load i64, ptr %chunks.at, align 8
  %chunk = sub i64 %chunks, %left
  call void %task(ptr %closure, i64 %chunk, i64 %worker)
  %before = atomicrmw add ptr %done.at, i64 1 release
  br label %look
leave:
  ret void
}}

; A helper's life: wait for a new epoch, then run.
define void @work(ptr %pool, i64 %worker) {{
entry:
  %stop.at = getelementptr i64, ptr %pool, i64 1
  %sleepers.at = getelementptr i64, ptr %pool, i64 6
  br label %wait
wait:
  %seen = phi i32 [ 0, %entry ], [ %now, %ran ]
  br label %look
look:
  %spins = phi i32 [ 0, %wait ], [ %spun, %spin ], [ 0, %slept ]
  %now = load atomic i32, ptr %pool acquire, align 8
  %same = icmp eq i32 %now, %seen
  br i1 %same, label %spin, label %woken
spin:
  {pause}
  %spun = add i32 %spins, 1
  %tired = icmp eq i32 %spun, {IDLE_SPINS}
  br i1 %tired, label %sleep, label %look
sleep:
  %before = atomicrmw add ptr %sleepers.at, i64 1 seq_cst
  ; Returns at once if the epoch has changed meanwhile.
  %ignored = call i64 (i64, ...) @syscall(i64 {futex}, ptr %pool, i64 128, i32 %seen, ptr null, ptr null, i64 0)
  %after = atomicrmw sub ptr %sleepers.at, i64 1 seq_cst
  br label %slept
slept:
  br label %look
woken:
  %stop = load atomic i64, ptr %stop.at acquire, align 8
  %end = icmp ne i64 %stop, 0
  br i1 %end, label %leave, label %ran
ran:
  call void @run(ptr %pool, i64 %worker)
  br label %wait
leave:
  ret void
}}

; A new epoch; sleepers are woken.
define internal void @announce(ptr %pool) {{
entry:
  %sleepers.at = getelementptr i64, ptr %pool, i64 6
  %epoch = atomicrmw add ptr %pool, i32 1 seq_cst
  %sleepers = load atomic i64, ptr %sleepers.at seq_cst, align 8
  %any = icmp ne i64 %sleepers, 0
  br i1 %any, label %wake, label %done
wake:
  %ignored = call i64 (i64, ...) @syscall(i64 {futex}, ptr %pool, i64 129, i32 2147483647, ptr null, ptr null, i64 0)
  br label %done
done:
  ret void
}}

define void @stop(ptr %pool) {{
entry:
  %stop.at = getelementptr i64, ptr %pool, i64 1
  store atomic i64 1, ptr %stop.at release, align 8
  call void @announce(ptr %pool)
  ret void
}}

define void @launch(ptr %pool, ptr %task, ptr %closure, i64 %chunks) {{
entry:
  %task.at = getelementptr i64, ptr %pool, i64 2
  %closure.at = getelementptr i64, ptr %pool, i64 3
  %chunks.at = getelementptr i64, ptr %pool, i64 4
  %done.at = getelementptr i64, ptr %pool, i64 5
  %left.at = getelementptr i64, ptr %pool, i64 8
  %some = icmp sgt i64 %chunks, 0
  br i1 %some, label %publish, label %leave
publish:
  store ptr %task, ptr %task.at, align 8
  store ptr %closure, ptr %closure.at, align 8
  store i64 %chunks, ptr %chunks.at, align 8
  store atomic i64 0, ptr %done.at monotonic, align 8
  ; The epoch makes this word differ from all before, so that no late comer takes a chunk of a loop that is over.
  %epoch = load atomic i32, ptr %pool monotonic, align 8
  %wide = zext i32 %epoch to i64
  %high = shl i64 %wide, 32
  %word = or i64 %high, %chunks
  store atomic i64 %word, ptr %left.at release, align 8
  call void @announce(ptr %pool)
  call void @run(ptr %pool, i64 0)
  br label %look
look:
  %spins = phi i32 [ 0, %publish ], [ %spun, %spin ], [ 0, %yield ]
  %done = load atomic i64, ptr %done.at acquire, align 8
  %all = icmp eq i64 %done, %chunks
  br i1 %all, label %leave, label %spin
spin:
  {pause}
  %spun = add i32 %spins, 1
  %tired = icmp eq i32 %spun, {YIELD_SPINS}
  br i1 %tired, label %yield, label %look
yield:
  %ignored = call i32 @sched_yield()
  br label %look
leave:
  ret void
}}
"""
    return Module(text=text, function="launch", workspace_bytes=0, scratch_bytes=0)
