"""Parses the user's notation for a processor: "llvm", or "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53
-mattr=+dotprod".
"""

from __future__ import annotations

import re
from functools import lru_cache

import llvmlite.binding as llvm

from .architectures import vectors_of
from .errors import TargetError, UnknownNameError
from .llvm_query import joined
from .machine import CpuTarget, host_target, target_of
from .named_processors import architecture_of, query_features

OPTIONS = ("-mtriple", "-mcpu", "-mattr")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_FEATURES = re.compile(r"[+-][a-z0-9][A-Za-z0-9_.-]*(,[+-][a-z0-9][A-Za-z0-9_.-]*)*")


@lru_cache(maxsize=64)
def parse_target(text: str) -> CpuTarget:
    """The processor described by `text`: "llvm", then any of the options -mtriple=, -mcpu= and -mattr=, named like
    LLVM's.

    "llvm" alone stands for this machine. With options but without -mtriple, the triple is this machine's. With options
    but without -mcpu, the processor is the least capable one of the architecture. -mattr adds ("+sve") or removes
    ("-neon") features. Raises TargetError, which names the wrong option and its legal values.
    """
    words = text.split()
    if not words or words[0] != "llvm":
        raise TargetError(f'target "{text}" does not begin with "llvm"; write "llvm", or "llvm -mtriple=..."')
    given = _options(words[1:])
    if not given:
        return host_target()
    triple = given.get("-mtriple", llvm.get_process_triple())
    architecture = architecture_of(triple)
    cpu = given.get("-mcpu", architecture.cpu)
    # Features of the least capable processor do not apply to a named one.
    features = joined("" if "-mcpu" in given else architecture.features, given.get("-mattr", ""))
    has = query_features(triple, cpu, features, architecture)
    if architecture.floats and not has[architecture.floats]:
        raise TargetError(
            f"{cpu} has no floating-point arithmetic; give another -mcpu, or add -mattr={architecture.floats}"
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


def check_known(target: CpuTarget) -> None:
    """Raises TargetError unless LLVM knows all names of a target; for an unknown processor, LLVM would assume the least
    capable one of the architecture.
    """
    if target == host_target():
        return
    if not target.cpu:
        raise UnknownNameError("cpu", "", "the target names no processor")
    given = {"-mtriple": target.triple, "-mcpu": target.cpu, "-mattr": target.features}
    parse_target(" ".join(["llvm", *(f"{name}={value}" for name, value in given.items() if value)]))
