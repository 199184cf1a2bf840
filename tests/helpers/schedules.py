"""An assertion for tests of refused uses of schedule primitives."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vdla.compiler.ir.printer import format_node
from vdla.compiler.ir.stmt import Program
from vdla.compiler.schedule import LegalityError, Schedule, replay


def assert_refused(make: Callable[[], Program], build: Callable[[Schedule], object], message: str) -> None:
    """Asserts that `build` on a schedule of `make()` raises LegalityError with `message` and the program in its text,
    and leaves the schedule unchanged.
    """
    s = Schedule(make())
    with pytest.raises(LegalityError) as caught:
        build(s)
    assert message in str(caught.value)
    assert replay(make(), s.trace).program == s.program
    assert format_node(s.program).splitlines()[0] in str(caught.value)
