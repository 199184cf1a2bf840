"""The page of supported operators agrees with the importers' tables."""

from __future__ import annotations

from operator_page import PAGE, page


def test_the_page_is_up_to_date() -> None:
    """The page of supported operators equals the text generated from the importers' tables.

    `python tests/helpers/operator_page.py` rewrites it.
    """
    assert PAGE.read_text(encoding="utf-8") == page()
