"""Compares output quoted in a page or notebook with present output: integers exactly, decimals to their last digit."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"(?P<any>\.\.\.)|(?P<blank>\s+)|(?P<rule>─+)|(?P<decimal>\d[\d,]*\.\d+)|(?P<other>\d[\d,]*|.)"
)
_PATTERNS = {"any": ".*?", "blank": r"\s+", "rule": "─+", "decimal": r"(\d[\d,]*\.\d+)"}
"""Regular expressions for the parts of a quoted text that may match different text."""


def fits(shown: str, printed: str) -> bool:
    """Whether the quoted text `shown` matches the output `printed`.

    Integers and words are compared exactly. A number with a decimal point may differ by one in its last digit, since
    processors round differently. `...` stands for a time and matches anything; runs of blanks match each other whatever
    their length, and so do runs of `─`.
    """
    tokens = list(_TOKEN.finditer(shown.strip()))
    pattern = "".join(_PATTERNS.get(token.lastgroup or "", re.escape(token[0])) for token in tokens)
    found = re.fullmatch(pattern, printed.strip(), re.DOTALL)
    decimals = [token[0] for token in tokens if token.lastgroup == "decimal"]
    return found is not None and all(map(_close, decimals, found.groups()))


def _close(shown: str, printed: str) -> bool:
    """Whether two decimal numbers have the same number of digits after the point and differ by at most one in the last
    digit.
    """
    digits, others = (len(text.partition(".")[2]) for text in (shown, printed))
    values = [int(re.sub("[.,]", "", text)) for text in (shown, printed)]
    return digits == others and abs(values[0] - values[1]) <= 1
