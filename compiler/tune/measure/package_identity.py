"""Whether two processes, here or elsewhere, would measure the same: the version and the sources of what measures."""

from __future__ import annotations

import functools
import hashlib
from importlib.metadata import version
from pathlib import Path

import vdla.compiler
import vdla.isa
import vdla.sim


@functools.cache
def package_identity() -> str:
    """Version of the package and a hash of the sources that trials run, for people to compare."""
    digest = hashlib.sha256()
    for package in (vdla.compiler, vdla.isa, vdla.sim):
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*.py")):
            digest.update(f"{package.__name__}/{path.relative_to(root)}\0".encode())
            digest.update(path.read_bytes())
    return f"vdla {version('vdla')} (sources {digest.hexdigest()[:12]})"
