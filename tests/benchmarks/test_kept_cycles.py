"""Cycles in the committed results equal newly simulated cycles: a few networks in every run, all networks in
campaigns.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from campaign import representatives
from shipped import shipped

from vdla.benchmarks import grid, kept_cycles
from vdla.benchmarks.kept_cycles import KeptCycles
from vdla.codesign import models
from vdla.codesign.explore.networks import load_network

ALL = {str(figure): figure for figure in kept_cycles.kept_cycles()}
EACH = {"grid": 1, "outside": 1}
"""Number of quick figures that every test run compares, by file of results. They are one of ResNet-18 in "grid", and
one of MnasNet, which has depthwise convolutions, in "outside". The MobileNet of grid_mobilenets takes seconds to
calibrate and is left to campaigns.
"""


@pytest.fixture(scope="module", autouse=True)
def networks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Makes the benchmark take shipped networks from files that are built once for all processes of a test run."""

    def network_of(name: str, folder):
        if name not in models.NAMES:
            return load_network(grid.quantized(name, grid.IMAGE), name=name)
        path = tmp_path_factory.mktemp("networks") / f"{name}.onnx"
        path.write_bytes(shipped(name, "u8"))
        return load_network(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid, "network_of", network_of)
        kept_cycles._network.cache_clear()
        yield
        kept_cycles._network.cache_clear()


def cases() -> list[str]:
    found = []
    for file in dict.fromkeys(figure.file for figure in ALL.values()):
        names = [name for name, figure in ALL.items() if figure.file == file]
        quick = [name for name in names if ALL[name].quick]
        # Those that are not quick are left to campaigns, whatever the draw.
        found += representatives(quick, EACH.get(file, 0), seed=38)
        found += representatives([name for name in names if name not in quick], 0)
    return found


@pytest.mark.parametrize("name", cases())
def test_cycles_are_of_today(name: str) -> None:
    figure: KeptCycles = ALL[name]
    assert figure.kept == figure.today(), "run the command that the file names (`written`), then make pages"


def test_every_network_of_these_files_is_compared() -> None:
    files = {figure.file for figure in ALL.values()}
    assert files == {"grid", "grid_mobilenets", "outside", "vision_transformers", "language", "encoders"}
    assert len(ALL) == 472
