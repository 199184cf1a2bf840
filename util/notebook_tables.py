"""HTML tables; a notebook shows them as the value of a cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table with the caption `title` and the heads `columns`; a row has a value for each column. Numbers,
    except bools, are right-aligned; all text is escaped.
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    lines = ["".join(map(_cell, row)) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f'<td style="text-align:left">{escape(str(value))}</td>'
    text = (
        f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    )
    return f'<td style="text-align:right">{text}</td>'


def html_text(text: str) -> str:
    """HTML that shows `text` unchanged in a monospaced font."""
    return f"<pre>{escape(text)}</pre>"
