"""Generated CUDA C++ run on the CPU: compiled by g++ with a model of blocks, threads and PTX instructions around it.

What the emulation of the loop IR cannot see, the text itself, is tested so: guards of threads, sizes and places of
asynchronous copies, layouts of fragments, offsets in shared memory, barriers. Nothing here is shared with the code
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
