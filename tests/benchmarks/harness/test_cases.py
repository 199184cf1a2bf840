"""Benchmark cases and rows: their names, their figures, and that our side and the peer (ONNX Runtime) compute
the same.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from vdla.benchmarks import cpu
from vdla.benchmarks.harness.case import Case, Row, measure
from vdla.benchmarks.harness.command_line import parse
from vdla.benchmarks.harness.convolutions import COPIES, convolution_case, marginal
from vdla.benchmarks.harness.products import int8_product_case, product_case
from vdla.benchmarks.harness.suite import UnknownRowError, choose, geometric_means, other_suite, paper_suite
from vdla.codesign.named_layers import same_window


def test_the_suite_is_the_papers() -> None:
    names = [entry.name for entry in paper_suite()]
    layers = [f"C{i}" for i in range(1, 13)] + [f"D{i}" for i in range(1, 10)]
    assert set(names) >= {*layers, "gemm512", "gemm1024", "gemm2048", "int8_1024"}
    assert set(names) >= {"resnet18", "mobilenet", "language_model", "dqn", "dcgan"}
    assert len(names) == len(set(names))
    others = [entry.name for entry in other_suite()]
    assert len(others) == len(set(others)) and not set(others) & set(names)


def test_rows_are_chosen_by_name_in_the_suites_order() -> None:
    assert [entry.name for entry in choose(paper_suite(), ["D2", "C3"])] == ["C3", "D2"]
    assert len(choose(paper_suite(), [])) == len(paper_suite())
    with pytest.raises(UnknownRowError, match="no row 'C13'; it has C1, C2"):
        choose(paper_suite(), ["C1", "C13"])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "make",
    [
        lambda threads: convolution_case("C11", threads),
        lambda threads: convolution_case("D9", threads),
        lambda threads: product_case("odd", 48, 33, 50, threads),
        lambda threads: int8_product_case(48, threads),
    ],
)
def test_both_sides_compute_the_same(make, threads: int) -> None:
    with closing(make(threads)) as case:
        assert case.threads == threads and case.operations > 0 and case.error <= 1e-5
        for run in (*case.ours, *case.peer):
            run()


def test_a_row_is_medians_and_the_median_of_the_rounds_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> None:
        return None

    case = Case(name="x", threads=1, operations=3e9, error=0.0, ours=(nothing,), peer=(nothing, nothing))
    rounds = [[1.0, 3.0, 2.0], [2.0, 3.0, 1.0], [12.0, 13.0, 21.0]]
    monkeypatch.setattr("vdla.benchmarks.harness.case.interleaved", lambda *_, **__: rounds)
    assert measure(case, rounds=3) == Row(
        name="x", ours_ms=2000.0, peer_ms=2000.0, ratio=1.0, threads=1, gflops=1.5, error=0.0
    )
    # Of eleven copies' time and one's, the peer's is a tenth of the difference.
    marginally = replace(case, peer_time=marginal)
    assert COPIES == 11
    assert measure(marginally, rounds=3).peer_ms == 1000.0
    assert measure(replace(case, peer_time=min), rounds=3).ratio == 1.0
    # So is ours where it runs both.
    rounds.insert(1, [11.0, 23.0, 22.0])
    both = replace(case, ours=(nothing, nothing), ours_time=marginal, peer_time=marginal)
    assert measure(both, rounds=3) == Row(
        name="x", ours_ms=2000.0, peer_ms=1000.0, ratio=1.0, threads=1, gflops=1.5, error=0.0
    )


def test_padding_is_same() -> None:
    assert same_window(224, 7, 2).pads == (2, 2, 3, 3)
    assert same_window(56, 1, 2).pads == (0, 0, 0, 0)
    assert same_window(7, 3, 1).outputs(7, 7) == (7, 7)


def test_geometric_means_are_by_group() -> None:
    row = Row(name="C1", ours_ms=1.0, peer_ms=1.0, ratio=2.0, threads=1, gflops=1.0, error=0.0)
    rows = [row, replace(row, name="C2", ratio=0.5), replace(row, name="dqn", ratio=3.0)]
    assert geometric_means(paper_suite(), rows) == {"convolutions": 1.0, "networks": 3.0}
    lost = [row, replace(row, name="C2", ratio=-0.1)]
    assert geometric_means(paper_suite(), lost) == {"convolutions": None}


def test_the_benchmark_of_kernels_has_the_rows_without_the_networks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cpu.main(parse("", cpu.OPTIONS, ["--only", "D9", "--rounds", "1"]))
    assert capsys.readouterr().out.split()[:2] == ["D9", "ours"]
    with pytest.raises(UnknownRowError):
        cpu.main(parse("", cpu.OPTIONS, ["--only", "dqn"]))
