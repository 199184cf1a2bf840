"""Hashes of the sources that determine costs. If two processes have equal hashes, their costs are comparable."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

_PACKAGES = ("vdla.compiler", "vdla.isa", "vdla.sim")
_WITHOUT_COSTS = (
    "frontends/",
    "records/",
    *(f"tune/{part}/" for part in ("program_features", "runs", "search")),
)
"""Folders of the compiler that decide which models and candidates are measured, and have no influence on
their costs.
"""


@functools.cache
def sources_digest(*packages: str) -> str:
    """A hash of the source files of `packages` (folders of the toolkit), 12 hexadecimal digits."""
    return _digest(leave_out=(), packages=packages)


@functools.cache
def package_identity() -> str:
    """The package's version, and a hash of the sources that trials use. People compare them to see whether costs are
    comparable.
    """
    return f"vdla {version('vdla')} (sources {_digest(leave_out=())})"


@functools.cache
def compiler_identity(kind: str) -> str:
    """Identity of the compiler for costs on a `kind` of target ("vdla", "llvm", "cuda"). Costs are comparable if the
    identities are equal.

    The identity consists of the package's version and a hash of the sources of compiler and simulator, without the
    folders `_WITHOUT_COSTS`. Any change of these sources, even of a comment, changes the identity. For "llvm" the
    identity also has the version of llvmlite, for "cuda" the version of NVRTC, if it is installed.
    """
    identity = f"{version('vdla')}+{_digest(leave_out=_WITHOUT_COSTS)}"
    if kind == "llvm":
        return f"{identity} llvmlite {version('llvmlite')}"
    if kind == "cuda":
        with contextlib.suppress(PackageNotFoundError):  # Records can be read without the extra.
            return f"{identity} nvrtc {version('nvidia-cuda-nvrtc')}"
    return identity


def _digest(leave_out: tuple[str, ...], packages: tuple[str, ...] = _PACKAGES) -> str:
    digest = hashlib.sha256()
    for package in packages:
        # The simulator is located, not imported: most readers of records do not use it.
        spec = find_spec(package)
        assert spec is not None and spec.origin is not None, package
        root = Path(spec.origin).parent
        for path in sorted(root.rglob("*.py")):
            name = str(path.relative_to(root))
            if not name.startswith(leave_out):
                digest.update(f"{package}/{name}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
