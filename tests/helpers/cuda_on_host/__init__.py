"""Runs generated CUDA C++ on the CPU: g++ compiles it together with a model of blocks, threads and PTX instructions.

This tests the text itself, which the emulation of the loop IR does not see: guards of threads, sizes and addresses of
asynchronous copies, layouts of fragments, offsets in shared memory, barriers. No code is shared with the code
generator; the models follow the CUDA C++ Programming Guide and the PTX ISA.
"""

from .execute import HostRunError, run_jobs, run_source
from .jobs import HostLaunch, Job, Place, Sparse, Tensor
from .text import UnknownText

__all__ = [
    "HostLaunch",
    "HostRunError",
    "Job",
    "Place",
    "Sparse",
    "Tensor",
    "UnknownText",
    "run_jobs",
    "run_source",
]
