"""Fifty or a hundred seeded cases of each kind of fuzzing: every input is rejected in one line, or gives right results.
`make campaign` runs thousands.
"""

from collections import Counter
from collections.abc import Iterator

import pytest
from campaign import in_campaigns

from vdla.benchmarks.fuzzing.graphs.tables import float_operators, quantized_operators
from vdla.benchmarks.fuzzing.kinds import KINDS
from vdla.benchmarks.fuzzing.outcome import FAILURES
from vdla.benchmarks.fuzzing.runner import CaseProcess

GRAPHS = {"float_graphs": len(float_operators()), "qdq_graphs": len(quantized_operators())}
"""Number of cases for the kinds that draw random graphs: one for each operator, since case i begins with operator i."""
SLOW = dict.fromkeys(("models", "programs", "records", "tflite"), in_campaigns(100, 50))
"""Number of cases for the kinds whose cases take 30 ms or more each."""
FEW = {"kills": 1, "streams": 3, "interrupts": 4, "tflite_graphs": in_campaigns(40, 20)}
"""Number of cases for the kinds whose cases take the longest."""
CASES = dict.fromkeys(KINDS, 100) | SLOW | FEW | GRAPHS
FIRST = {"kills": 4}
"""Number of the first case, by kind; 0 for kinds that are not listed. Case 4 of "kills" kills its command after 1.3 s,
while it works; other cases wait up to 6 s.
"""
VALID = (*GRAPHS, "attributes", "tflite_graphs")
"""Kinds of cases for which the fuzzer knows the right outcome, so that most verdicts must be "right". In "attributes",
a model is right only if it is refused; in the other kinds, nearly all models must compile.
"""
LIMIT = 120.0
"""Time limit of a case in seconds. The campaign's limit is 20 s; here other tests run at the same time."""
SEED = 1000


@pytest.fixture(scope="module")
def process() -> Iterator[CaseProcess]:
    with CaseProcess(LIMIT) as process:
        yield process


@pytest.mark.parametrize("kind", CASES)
def test_every_input_gives_right_results_or_is_refused_in_one_line(process: CaseProcess, kind: str) -> None:
    first = FIRST.get(kind, 0)
    results = [process.run(kind, SEED, index) for index in range(first, first + CASES[kind])]
    failed = [f"case {r.index}: {r.outcome}" for r in results if r.outcome.verdict in FAILURES]
    assert not failed, "\n".join(failed)
    # Cases that are all refused, or all right, would look at one half only.
    counts = Counter(result.outcome.verdict for result in results)
    # Nothing holds what an archive computes against another result: its model is not there.
    few = kind in FEW
    assert counts["right"] + counts["unchecked"] >= (1 if few else 5), counts
    assert few or kind in ("records", *VALID) or counts["refused"] >= 5, counts
    if kind in VALID:
        assert counts["unchecked"] <= CASES[kind] / 10 and counts["right"] >= CASES[kind] * 0.7, counts
