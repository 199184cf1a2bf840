"""Python's garbage collector is switched off only inside the `with` block of a compilation, whatever happens there."""

from __future__ import annotations

import gc

import pytest

from vdla.util.long_compilation import collector_paused


def test_it_is_off_inside_and_on_again_behind() -> None:
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_errors_turn_it_on_again() -> None:
    with pytest.raises(ValueError, match="inside"), collector_paused():
        raise ValueError("inside")
    assert gc.isenabled()


def test_who_turned_it_off_finds_it_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
