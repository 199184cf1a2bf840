"""Queries LLVM about a processor that a user names: its architecture, and the features that it has."""

from __future__ import annotations

import difflib
import json
import re
import subprocess
import sys

import llvmlite.binding as llvm

from .architectures import ARCHITECTURES, Architecture, initialise
from .errors import TargetError, UnknownNameError


def architecture_of(triple: str) -> Architecture:
    """The architecture of a target triple. Raises TargetError for an architecture or object file format that is not
    supported.
    """
    initialise()
    try:
        name = llvm.Target.from_triple(triple).name
    except RuntimeError:
        name = ""
    # LLVM treats Thumb, another encoding of the same processors, as a separate target.
    name = "arm" if name == "thumb" else name
    for architecture in ARCHITECTURES:
        if architecture.name == name:
            break
    else:
        known = ", ".join(a.name for a in ARCHITECTURES)
        raise TargetError(
            f"-mtriple={triple}: this architecture is not supported; supported are {known}, in triples such as "
            "aarch64-linux-gnu"
        )
    if (form := llvm.get_object_format(triple)) not in ("ELF", "Wasm"):
        raise TargetError(
            f"-mtriple={triple}: {form or 'unknown'} objects are not supported; name a system with ELF (such as "
            f"{name}-linux-gnu) or WebAssembly"
        )
    return architecture


def query_features(triple: str, cpu: str, features: str, architecture: Architecture) -> dict[str, bool]:
    """For each feature in `architecture.queries`, and for `architecture.floats`: whether the processor has it,
    according to LLVM. Raises TargetError for processors and features that LLVM does not know.
    """
    queries = [q for q in (architecture.floats, *architecture.queries) if q]
    result = _ask(triple, cpu, features, *queries)
    if unknown := re.search(r"'([^']+)' is not a recognized (processor|feature)", result.stderr):
        name, kind = unknown.groups()
        option = "-mcpu" if kind == "processor" else "-mattr"
        known = _known(triple, architecture.cpu)[0 if kind == "processor" else 1]
        name = name.lstrip("+-")
        # The complete list would fill a screen.
        close = difflib.get_close_matches(name, known, n=8, cutoff=0.5)
        there_are = f"close to it are {', '.join(close)}" if close else f"there are {', '.join(known)}"
        raise UnknownNameError(
            "cpu" if kind == "processor" else kind,
            name,
            f"{option}: {architecture.name} has no {kind} {name}; {there_are}",
        )
    if result.returncode:
        reason = result.stderr.strip().splitlines()
        raise TargetError(
            f"-mcpu={cpu} -mattr={features}: LLVM does not accept these: {reason[-1] if reason else 'no reason given'}"
        )
    return dict(zip(queries, json.loads(result.stdout), strict=True))


def _ask(triple: str, cpu: str, features: str, *queries: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-P",
        "-m",
        "vdla.compiler.codegen.cpu.llvm_query",
        triple,
        cpu,
        features,
        *queries,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _known(triple: str, cpu: str) -> tuple[list[str], list[str]]:
    """The names of the processors, and of the features, that LLVM knows for a triple, from the output of its option
    +help. `cpu`: any processor of the triple that LLVM knows.
    """
    text = _ask(triple, cpu, "+help").stderr
    processors, _, features = text.partition("Available features")
    return tuple([re.findall(r"^  (\S+)\s+- ", part, re.MULTILINE) for part in (processors, features)])  # type: ignore[return-value]
