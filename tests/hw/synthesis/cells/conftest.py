"""A small design mapped to cells, once for all tests of the folder."""

from pathlib import Path

import pytest

from vdla.hw.synthesis.cells.design import map_verilog
from vdla.hw.synthesis.cells.libraries import find_library

HERE = Path(__file__).parent


@pytest.fixture(scope="package")
def cache_home(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


# For one test at a time: what outlives the folder's tests would hide the user's caches from all later ones.
@pytest.fixture(autouse=True)
def own_cache(cache_home, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_home))


@pytest.fixture(scope="package")
def design(cache_home):
    """The mapped design: four adders, instances of two equivalent modules, and a memory, in a library of six cells."""
    sample = (HERE / "sample.v").read_text()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache_home))
        return map_verilog(sample, find_library(HERE / "small.lib"), top="sample", report=lambda text: None)
