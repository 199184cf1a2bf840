"""Compares cycles in the committed results with newly simulated cycles, which do not depend on the computer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from vdla.codesign import models
from vdla.codesign.demo import LATENCIES
from vdla.compiler.pipeline import compile_program
from vdla.compiler.records.book import RecordBook, shipped_book
from vdla.compiler.runtime.accelerator import run
from vdla.isa.config import Config, load_config

from .page import At, Document, Where, at


@dataclass(frozen=True, slots=True)
class Stale:
    """A figure in a file of results (`kept`) that differs from the newly computed one (`today`)."""

    file: str
    figure: str
    kept: object
    today: object

    def __str__(self) -> str:
        return (
            f"benchmarks/results/{self.file}.json: {self.figure}: {self.kept:,} there, {self.today:,} today"
        )


@cache
def _resnet18() -> bytes:
    return models.build("resnet18").SerializeToString(deterministic=True)


def resnet18_cycles(config: Config, *, virtual_threads: int = 2, records: RecordBook | None = None) -> int:
    """Cycles of ResNet-18 on the machine `config`, as reported by `vdla run resnet18 --config ...`. `records`:
    schedules of the tuner (None: default schedules).
    """
    compiled = compile_program(_resnet18(), config, virtual_threads=virtual_threads, records=records)
    return run(compiled, {}, data=False).simulation.cycles


def figures_of_today() -> Iterator[tuple[At, int]]:
    """Yields (place in the results, newly simulated cycles) of ResNet-18 on each preset."""
    vta = load_config("vta")
    plain = resnet18_cycles(vta)
    for file, path in (
        ("network", ("cycles, vta",)),
        ("rtl", ("cycles",)),
        ("demo", ("report", "total", "cycles")),
    ):
        yield at(file, *path), plain
    yield at("network", "cycles, vta, tuned"), resnet18_cycles(vta, records=shipped_book())
    yield _variant("one virtual thread (no latency hiding)"), resnet18_cycles(vta, virtual_threads=1)
    for latency in LATENCIES:
        slow = vta.with_memory(replace(vta.memory, read_latency=latency))
        yield _variant(f"read latency {latency}"), resnet18_cycles(slow)


def _variant(name: str) -> At:
    return at("demo", "report", "variants", Where("name", name), "cycles")


def stale(files: Mapping[str, Document]) -> list[Stale]:
    """The cycles of ResNet-18 in the committed results `files` that differ from newly simulated ones."""
    return [
        Stale(figure.file, " / ".join(map(str, figure.path)), kept, today)
        for figure, today in figures_of_today()
        if (kept := figure.value(files)) != today
    ]
