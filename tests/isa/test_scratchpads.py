import numpy as np
import pytest

from vdla.isa.config import load_config
from vdla.isa.decoding import decode_uops
from vdla.isa.errors import ProgramError
from vdla.isa.scratchpads import scratchpad_sizes, typed_scratchpads
from vdla.verify.random_programs import random_config
from vdla.verify.random_scratchpads import random_scratchpads

TINY = load_config("tiny")


@pytest.mark.parametrize("seed", range(12))
def test_random_contents_are_usable(seed: int):
    config = random_config(seed)
    contents = random_scratchpads(config, seed)
    assert {kind: len(data) for kind, data in contents.items()} == scratchpad_sizes(config)
    arrays = typed_scratchpads(config, contents)
    assert np.isfinite(arrays["par"][:, 1].view(np.float32)).all()
    dst, src, wgt = decode_uops(config, arrays["uop"])
    assert dst.max() < config.acc_depth
    assert src.max() < min(config.inp_depth, config.acc_depth)
    assert wgt.max() < config.wgt_depth
    for kind, data in contents.items():
        assert np.array_equal(np.ascontiguousarray(arrays[kind]).view(np.uint8).reshape(-1), data)
        assert len(np.unique(data)) > 4


def test_scratchpads_without_given_contents_are_zero():
    assert not any(array.any() for array in typed_scratchpads(TINY).values())


def test_wrong_contents_are_refused():
    with pytest.raises(ProgramError, match="no 'par'"):
        config = random_config(0)
        without = type(config)(extensions=())
        typed_scratchpads(without, {"par": np.zeros(4, np.uint8)})
    with pytest.raises(ProgramError, match="expected uint8 of"):
        typed_scratchpads(TINY, {"inp": np.zeros(4, np.uint8)})
