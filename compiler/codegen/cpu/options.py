"""Targets in the user's notation: "llvm", or "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53 -mattr=+dotprod"."""

from __future__ import annotations

import difflib
import json
import re
import subprocess
import sys
from functools import lru_cache

import llvmlite.binding as llvm

from .architectures import ARCHITECTURES, Architecture, initialise, vectors_of
from .errors import TargetError, UnknownNameError
from .llvm_query import joined
from .machine import CpuTarget, host_target, target_of

OPTIONS = ("-mtriple", "-mcpu", "-mattr")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_FEATURES = re.compile(r"[+-][a-z0-9][A-Za-z0-9_.-]*(,[+-][a-z0-9][A-Za-z0-9_.-]*)*")


@lru_cache(maxsize=64)
def parse_target(text: str) -> CpuTarget:
    """The processor described by `text`: "llvm", then any of the options -mtriple=, -mcpu= and -mattr=, named as
    LLVM's.

    "llvm" alone is this machine; without -mtriple the triple is this machine's, without -mcpu the processor is the
    least capable one of the architecture. -mattr adds ("+sve") or removes ("-neon") features. Raises TargetError, which
    names the wrong option and its legal values.
    """
    words = text.split()
    if not words or words[0] != "llvm":
        raise TargetError(f'target "{text}" does not begin with "llvm"; write "llvm", or "llvm -mtriple=..."')
    given = _options(words[1:])
    if not given:
        return host_target()
    triple = given.get("-mtriple", llvm.get_process_triple())
    architecture = _architecture(triple)
    cpu = given.get("-mcpu", architecture.cpu)
    # Features of the least capable processor do not apply to a named one.
    features = joined("" if "-mcpu" in given else architecture.features, given.get("-mattr", ""))
    has = _query(triple, cpu, features, architecture)
    if architecture.floats and not has[architecture.floats]:
        raise TargetError(
            f"{cpu} has no arithmetic on floats; take another -mcpu, or add -mattr={architecture.floats}"
        )
    return target_of(triple, cpu, features, vectors_of(architecture.name, has))


def _options(words: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for word in words:
        option, equals, value = word.partition("=")
        if option not in OPTIONS:
            raise TargetError(f"unknown target option {option}; there are {', '.join(OPTIONS)}")
        if option in given:
            raise TargetError(f"target option {option} is given twice")
        if not equals or not value:
            raise TargetError(f"target option {option} needs a value: {option}=...")
        if not (_FEATURES if option == "-mattr" else _NAME).fullmatch(value):
            form = (
                "a list such as +dotprod,-sve" if option == "-mattr" else "a name of letters, digits, . _ + -"
            )
            raise TargetError(f"{word}: the value must be {form}")
        given[option] = value
    return given


def _architecture(triple: str) -> Architecture:
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
            f"-mtriple={triple}: no code is generated for this architecture; there are {known}, "
            "in triples such as aarch64-linux-gnu"
        )
    if (form := llvm.get_object_format(triple)) not in ("ELF", "Wasm"):
        raise TargetError(
            f"-mtriple={triple}: {form or 'unknown'} objects are not written; name a system with ELF "
            f"(such as {name}-linux-gnu) or WebAssembly"
        )
    return architecture


def _query(triple: str, cpu: str, features: str, architecture: Architecture) -> dict[str, bool]:
    """LLVM's answers to the architecture's queries. Raises TargetError for processors and features that LLVM does not
    know.
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
            f"-mcpu={cpu} -mattr={features}: LLVM refuses this: {reason[-1] if reason else 'no reason given'}"
        )
    return dict(zip(queries, json.loads(result.stdout), strict=True))


def check_known(target: CpuTarget) -> None:
    """Raises TargetError unless LLVM knows all names of a target, because for an unknown processor it would assume the
    least capable one.
    """
    if target == host_target():
        return
    if not target.cpu:
        raise UnknownNameError("cpu", "", "the target names no processor")
    given = {"-mtriple": target.triple, "-mcpu": target.cpu, "-mattr": target.features}
    parse_target(" ".join(["llvm", *(f"{name}={value}" for name, value in given.items() if value)]))


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
    """The processors and features that LLVM knows for a triple, from the output of its option +help."""
    text = _ask(triple, cpu, "+help").stderr
    processors, _, features = text.partition("Available features")
    return tuple([re.findall(r"^  (\S+)\s+- ", part, re.MULTILINE) for part in (processors, features)])  # type: ignore[return-value]
