"""Makes foreign text (names in models, files, fields of records) printable in one line of a terminal."""

from __future__ import annotations

MOST_CHARACTERS = 2000
"""Largest number of characters that are printed; some models have names of megabytes."""
_LAST = 500
"""Number of characters printed from the end of a longer text, because error messages end with advice."""


def printable(text: object, most: int | None = MOST_CHARACTERS) -> str:
    r"""`str(text)` in one line: line breaks, escape sequences and lone surrogates as Python writes them (`\n`, `\x1b`).

    An ellipsis replaces the middle of a text of more than `most` characters; `most` is at least 3, None for no limit.
    """
    words = str(text)
    if most is not None and len(words) > most:
        last = min(_LAST, most // 3)
        words = f"{words[: most - last - 1]}…{words[len(words) - last :]}"
    if words.isprintable():
        return words
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in words)
