"""The page of supported operators is that of the importers' tables."""

from __future__ import annotations

from operator_page import PAGE, page


def test_the_page_is_up_to_date() -> None:
    """`python tests/helpers/operator_page.py` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()
