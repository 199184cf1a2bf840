"""Threads for parallel loops: a pool that spins, then sleeps, and hands out chunks by one atomic counter.

The pool is LLVM IR like the kernels, so nothing but LLVM is needed to build it. Its threads are Python threads that
call into it and stay there, without the interpreter's lock, until the pool is closed.
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

SPINS = 4000
"""Looks at the counter before a waiting thread sleeps: some tens of microseconds."""
_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
"""Number of Linux's futex call; with 128 + 0 it waits while a word holds a value, with 128 + 1 it wakes waiters."""
_WORDS = 16
"""64-bit words of a pool: 0 epoch, 1 whether to stop, 2 task, 3 closure, 4 chunks, 5 helpers at work, 6 helpers asleep,
7 helpers in all, 8 next chunk."""


class Pool:
    """`threads` threads, the caller's included. Close it, or use it as a context manager.

    A pool that a forked child inherits has no threads there; its turns raise TargetError.
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
        self._code = compile_module(_module(number), host_target())
        self._words = (ctypes.c_int64 * _WORDS)()
        self._lock = threading.Lock()
        self._process = os.getpid()
        self.address = ctypes.addressof(self._words)
        self.launch = self._code.engine.get_function_address("launch")
        work = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(
            self._code.engine.get_function_address("work")
        )
        self._words[7] = threads - 1
        self._helpers = [
            threading.Thread(target=work, args=(self.address, worker), daemon=True, name=f"vdla-{worker}")
            for worker in range(1, threads)
        ]
        for helper in self._helpers:
            helper.start()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Within, no other thread of this program uses the pool."""
        if os.getpid() != self._process:
            raise TargetError(
                "this pool's threads did not come along into the forked process; make a new pool there"
            )
        with self._lock:
            if not self._helpers and self.threads > 1:
                raise TargetError("this pool is closed")
            yield

    def close(self) -> None:
        """Ends the threads. Nothing happens the second time."""
        with self._lock:
            if self._helpers and os.getpid() == self._process:
                stop = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._code.engine.get_function_address("stop"))
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

; Chunks until there are none left.
define internal void @run(ptr %pool, i64 %worker) {{
entry:
  %task.at = getelementptr i64, ptr %pool, i64 2
  %closure.at = getelementptr i64, ptr %pool, i64 3
  %chunks.at = getelementptr i64, ptr %pool, i64 4
  %next.at = getelementptr i64, ptr %pool, i64 8
  %task = load ptr, ptr %task.at, align 8
  %closure = load ptr, ptr %closure.at, align 8
  %chunks = load i64, ptr %chunks.at, align 8
  br label %again
again:
  %chunk = atomicrmw add ptr %next.at, i64 1 monotonic
  %more = icmp slt i64 %chunk, %chunks
  br i1 %more, label %do, label %done
do:
  call void %task(ptr %closure, i64 %chunk, i64 %worker)
  br label %again
done:
  ret void
}}

; A helper's life: wait for a new epoch, run, say so.
define void @work(ptr %pool, i64 %worker) {{
entry:
  %stop.at = getelementptr i64, ptr %pool, i64 1
  %busy.at = getelementptr i64, ptr %pool, i64 5
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
  %tired = icmp eq i32 %spun, {SPINS}
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
  %left = atomicrmw sub ptr %busy.at, i64 1 release
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
  %busy.at = getelementptr i64, ptr %pool, i64 5
  %helpers.at = getelementptr i64, ptr %pool, i64 7
  %next.at = getelementptr i64, ptr %pool, i64 8
  %helpers = load i64, ptr %helpers.at, align 8
  store ptr %task, ptr %task.at, align 8
  store ptr %closure, ptr %closure.at, align 8
  store i64 %chunks, ptr %chunks.at, align 8
  store atomic i64 0, ptr %next.at monotonic, align 8
  store atomic i64 %helpers, ptr %busy.at monotonic, align 8
  call void @announce(ptr %pool)
  call void @run(ptr %pool, i64 0)
  br label %look
look:
  %spins = phi i32 [ 0, %entry ], [ %spun, %spin ], [ 0, %yield ]
  %busy = load atomic i64, ptr %busy.at acquire, align 8
  %done = icmp eq i64 %busy, 0
  br i1 %done, label %leave, label %spin
spin:
  {pause}
  %spun = add i32 %spins, 1
  %tired = icmp eq i32 %spun, {SPINS}
  br i1 %tired, label %yield, label %look
yield:
  %ignored = call i32 @sched_yield()
  br label %look
leave:
  ret void
}}
"""
    return Module(text=text, function="launch", workspace_bytes=0, scratch_bytes=0)
