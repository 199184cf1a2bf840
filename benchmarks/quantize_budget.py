"""Quantization decided layer by layer, compared with the same form for all layers: Pareto fronts of SQNR against
latency, on `vta`.

    python benchmarks/quantize_budget.py [--only NAME ...] [--budget N] [--samples N] [--json] [--write]

Each network is calibrated on N samples; its error is the SQNR (signal to quantization noise ratio) of the outputs on N
other samples. `uniform` are the four forms that are the same for all layers. Cycles are exact; the time of float layers
is that of an assumed processor (see `processor`). `within` is the front's best SQNR at given multiples of the latency
of uint8 with one scale for each channel. The shipped networks have seeded weights, not trained ones. `searches`
compares the search on `small_cnn` with two other searches that begin with the same points. One of them then only
changes points of the front; the other draws random decisions. The measure is the hypervolume of (log latency, log
noise), bounded by the largest latency and the worst noise of `uniform`, divided by the hypervolume of all searches
together. There are figures for several seeds.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from vdla.benchmarks.harness.command_line import ONLY, OUTPUT, SAMPLES, Given, Option, run_script
from vdla.benchmarks.harness.output import finish
from vdla.codesign.explore.front import hypervolume
from vdla.codesign.models import build, sample_inputs
from vdla.codesign.quantization.evaluate import Figures, Target
from vdla.codesign.quantization.processor import CORTEX_A9
from vdla.codesign.quantization.run import decide, open_study
from vdla.codesign.quantization.search import Asking, Search, front_of
from vdla.codesign.quantization.study import SearchSettings, Study
from vdla.codesign.quantization.tables import document
from vdla.codesign.technology.components import shipped_components
from vdla.compiler.quantize.decisions import Decisions
from vdla.compiler.quantize.quantize import Recipe, read_model
from vdla.isa.config import load_config

NETWORKS = ("small_cnn", "mobilenet", "resnet18")
TIMES = (1.0, 1.05, 1.25, 2.0, 5.0)
SEEDS = range(3)


@contextlib.contextmanager
def opened(name: str, budget: int, samples: int) -> Iterator[Study]:
    """A context with a search for the quantization of the shipped network `name`. Quantization is calibrated on
    `samples` random inputs and judged on another `samples` inputs; `budget`: number of evaluations.
    """

    def drawn(seed: int) -> list[dict[str, np.ndarray]]:
        return [{"input": part} for part in np.split(sample_inputs(name, samples, seed), samples)]

    model = read_model(build(name, "float").SerializeToString())
    with open_study(
        model,
        drawn(1),
        drawn(2),
        target=Target(config=load_config("vta"), components=shipped_components(), processor=CORTEX_A9),
        recipe=Recipe(),
        choices={},
        settings=SearchSettings(budget=budget),
        remark=print,
    ) as study:
        yield study


def measure(name: str, study: Study, samples: int) -> dict[str, object]:
    started = time.process_time()
    outcome = decide(study, runs=samples)
    seconds = time.process_time() - started
    account, front = document(outcome), outcome.found.front
    base = account["uniform"]["per-channel u8"]
    within = {
        str(times): max(
            member.figures.sqnr
            for member in front
            if member.figures.milliseconds <= times * base["latency_ms"]
        )
        for times in TIMES
    }
    return {
        "name": name,
        "evaluations": account["members"],
        "cpu_seconds_per_evaluation": round(seconds / account["members"], 3),
        "uniform": account["uniform"],
        "within": within,
        "front": account["front"],
        "chosen": {key: value for key, value in account["chosen"].items() if key != "layers"},
        "rungs": account["rungs"],
        "processor": account["processor"],
    }


class AroundAlone(Search):
    """A search for quantization decisions that begins with the same assignments of decisions as `Search`, and then only
    changes assignments on the Pareto front.
    """

    def ask(self) -> Asking:
        for start in self.starts:
            yield from self._run(start)
        yield from self._around()


class RandomDecisions(Search):
    """A search for quantization decisions that begins with the same assignments of decisions as `Search`, and then
    draws random assignments. For each assignment, a probability p is drawn at random. Each layer that may be float is
    float with probability p; each other decision is changed with probability 1/2.
    """

    def ask(self) -> Asking:
        for start in self.starts:
            yield from self._run(start)
        random = Random(self.seed)
        while self.left > 0:
            decisions, share = Decisions(), random.random()
            for move in self.moves:
                if random.random() < (share if move.kind == "place" else 0.5):
                    decisions = move.on(decisions)
            yield from self._run(decisions)


@dataclass(kw_only=True)
class Searches:
    """Runs searches for the quantization of one network (`study`), each with `budget` evaluations. `known` maps each
    assignment of quantization decisions that was evaluated so far to its figures, so that no search evaluates it again.
    """

    study: Study
    budget: int
    known: dict[Decisions, Figures]

    def run(self, kind: type[Search], seed: int) -> dict[Decisions, Figures]:
        search = kind(
            starts=list(self.study.starts.values()),
            moves=self.study.moves(),
            canonical=self.study.canonical,
            cost=self.study.value,
            budget=self.budget,
            seed=seed,
        )
        asking = search.ask()
        decisions = next(asking)
        try:
            while True:
                if decisions not in self.known:
                    self.known[decisions] = self.study.evaluator.evaluate(decisions)
                decisions = asking.send(self.known[decisions])
        except StopIteration:
            return search.known


def compare_searches(study: Study, budget: int) -> dict[str, object]:
    """Compares the kinds of search (`Search`, AroundAlone, RandomDecisions) on the network of `study`, which is
    `small_cnn`. For each kind, mean and least value over seeds of a ratio: the hypervolume that the search finds with
    `budget` evaluations, divided by the hypervolume of the results of all searches together.
    """
    known: dict[Decisions, Figures] = {}
    searches = Searches(study=study, budget=budget, known=known)
    kinds = {"search": Search, "around the front alone": AroundAlone, "random decisions": RandomDecisions}
    found = {name: [searches.run(kind, seed) for seed in SEEDS] for name, kind in kinds.items()}
    reference = (
        1.01 * max(math.log(figures.milliseconds) for figures in known.values() if figures.failed is None)
        + 0.01,
        math.log(max(known[start].noise for start in study.starts.values())) + 0.01,
    )

    def volume(part: dict[Decisions, Figures]) -> float:
        members = [part[decisions] for decisions in front_of(part, study.value)]
        return hypervolume(
            np.array([(math.log(f.milliseconds), math.log(f.noise)) for f in members]), reference
        )

    best = volume(known)
    shares = {name: [volume(part) / best for part in runs] for name, runs in found.items()}
    return {
        "network": "small_cnn",
        "evaluations": budget,
        "seeds": len(SEEDS),
        "known": len(known),
        "hypervolume": {
            name: {"mean": round(float(np.mean(each)), 4), "least": round(min(each), 4)}
            for name, each in shares.items()
        },
    }


def show(row: dict[str, object]) -> None:
    print(f"{row['name']}: {row['evaluations']} evaluations, {row['cpu_seconds_per_evaluation']} CPU s each")
    uniform, front = row["uniform"], row["front"]
    assert isinstance(uniform, dict) and isinstance(front, Sequence)
    for label, member in (*uniform.items(), *((f"member {m['member']}", m) for m in front)):
        print(
            f"  {label:16} {member['sqnr_db']:6.2f} dB {member['latency_ms']:10.3f} ms {member['cycles']:10,} cycles "
            f"{member['energy_uj']:10.1f} uJ  float {member['float_layers']:2} s8 {member['s8_groups']:2} "
            f"per tensor {member['per_tensor_layers']:2}"
        )
    print(f"  within {row['within']}", flush=True)


OPTIONS = (
    ONLY.but(nargs="+", choices=NETWORKS, default=NETWORKS, metavar=None),
    Option("--budget", "number of decisions that each search tries", int, 60),
    SAMPLES.but(default=16),
    *OUTPUT,
)


def main(options: Given) -> None:
    rows: list[dict[str, object]] = []
    searches: dict[str, object] = {}
    for name in options.only:
        with opened(name, options.budget, options.samples) as study:
            rows.append(measure(name, study, options.samples))
            if not options.json:
                show(rows[-1])
            if name == "small_cnn":
                searches = compare_searches(study, options.budget)
                if not options.json:
                    print(f"  searches {searches['hypervolume']}", flush=True)
    figures = {"config": "vta", "samples": options.samples, "rows": rows, "searches": searches}
    finish(options, "quantize_budget", figures)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
