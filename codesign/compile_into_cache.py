"""Command python -m vdla.codesign.compile_into_cache MODEL TARGET [RECORDS...]: compiles a model into the user's cache,
for another process.

It prints nothing, not even errors: if the entry is missing afterwards, the process that needs it compiles again, and
raises the errors.
"""

from __future__ import annotations

import sys
from pathlib import Path

from vdla.compiler.backends.llvm import LlvmCompiler
from vdla.util.errors import UserError

from .network_cache import cached_network


def main(model: str, target: str, *records: str) -> int:
    """Compiles `model` for `target`, with the tuning records in the files `records`, into the user's cache. Returns the
    exit status: 0 if the network is in the cache.
    """
    from .cli.records import book_from

    try:
        cached_network(Path(model), LlvmCompiler(target), records=book_from(records))
    except UserError:
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
