"""Text from outside (names in models, files, fields of records) in a form that fits into a line of a terminal."""

from __future__ import annotations

MOST_CHARACTERS = 2000
"""Length of the longest printed line; some names have megabytes."""
_LAST = 500
"""Number of characters shown of the end of a longer line, since messages end with advice."""


def printable(text: object, most: int | None = MOST_CHARACTERS) -> str:
    r"""`str(text)` in one line: line breaks, escape sequences and lone surrogates as Python writes them (`\n`, `\x1b`).

    If there are more than `most` characters (at least 3, None: any number), an ellipsis replaces some in the middle.
    """
    words = str(text)
    if most is not None and len(words) > most:
        last = min(_LAST, most // 3)
        words = f"{words[: most - last - 1]}…{words[len(words) - last :]}"
    if words.isprintable():
        return words
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in words)
