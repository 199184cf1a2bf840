"""Finding unused names, among few names and among very many."""

from __future__ import annotations

import pytest

from vdla.compiler.graph.graph import unused


class Counted(set):
    """A set of names that counts its membership tests."""

    asked = 0

    def __contains__(self, name: object) -> bool:
        self.asked += 1
        return super().__contains__(name)


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 31, 32, 33, 100, 1000])
def test_an_unused_name_gets_the_next_number(count):
    taken = {"a", *(f"a#{number}" for number in range(2, count + 1))}
    assert unused("a", taken) == f"a#{count + 1}"
    assert unused("b", taken) == "b"


def test_an_unused_name_gets_a_free_number_among_the_first():
    assert unused("a", {"a", "a#2", "a#4"}, {"a#3", "a#6"}) == "a#5"


def test_a_name_among_very_many_is_found_soon():
    taken = Counted()
    for _ in range(5000):
        taken.add(unused("constant", taken))
    assert len(taken) == 5000
    taken.asked = 0
    unused("constant", taken)
    assert taken.asked <= 50
