"""Text from outside (names in models, files, fields of records) as a line of a terminal can hold it."""

from __future__ import annotations

MOST_CHARACTERS = 2000
"""Longest printed line; some names are megabytes long."""
_LAST = 500
"""Characters shown of a longer line's end, where messages give the way out."""


def printable(text: object, most: int | None = MOST_CHARACTERS) -> str:
    r"""`str(text)` in one line: line breaks, escape sequences and lone surrogates as Python writes them (`\n`, `\x1b`).

    Of more than `most` characters (at least 3, None: any number), some in the middle make room for an ellipsis.
    """
    words = str(text)
    if most is not None and len(words) > most:
        last = min(_LAST, most // 3)
        words = f"{words[: most - last - 1]}…{words[len(words) - last :]}"
    if words.isprintable():
        return words
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in words)
