"""Common parts of all pictures: colours, figures, plain axes, and the bytes of a PNG."""

from __future__ import annotations

import functools
import io

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from PIL import Image

from vdla.util.printable import printable

INK, MUTED, GRID = "#1f2430", "#6b7280", "#e3e6ea"
PALETTE = 128
"""Number of colours of a small PNG: enough for lines, text and antialiasing."""


def new_figure(width: float, height: float, dpi: int = 150) -> Figure:
    """A figure of `width` x `height` inches."""
    # A Figure with its own canvas: pyplot would keep every figure alive in a global.
    figure = Figure(figsize=(width, height), dpi=dpi, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def png(figure: Figure) -> bytes:
    """The bytes of a PNG file of the figure."""
    buffer = io.BytesIO()
    # Without the version stamp the same run gives the same bytes.
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def style(axes: Axes) -> None:
    """Styles axes: no box, black for text, grey for lines."""
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, labelsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED)


def short(value: float, _: object = None) -> str:
    """A number as text on an axis, such as 120k or 1.5M; the second parameter, the tick's position, is ignored."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.4g}{letter}"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def plain_ticks(axis: Axis) -> None:
    """Formats ticks without powers of ten; call it after the scale is set. A logarithmic axis has ticks at 1, 2 and 5
    of each decade.
    """
    if axis.get_scale() == "log":
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=20))
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(short))


def words(text: str, most: int) -> str:
    """A user's text for a picture: its last `most` characters, with each "$" escaped, so that it does not begin
    mathematical markup; characters that the font lacks become "?".
    """
    shown = "".join(letter if _drawable(letter) else "?" for letter in printable(text)[-most:])
    return shown.replace("$", r"\$")


@functools.cache
def _drawable(letter: str) -> bool:
    # Matplotlib would draw a box for missing characters and warn on standard error.
    families = ("DejaVu Sans:bold", "DejaVu Sans Mono")
    return all(get_font(findfont(family)).get_char_index(ord(letter)) for family in families)


def small_png(figure: Figure) -> bytes:
    """The bytes of a PNG file with PALETTE colours, for pictures that are stored in the repository. The file has about
    a third of the size of the file that `png` makes.
    """
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(png(figure))) as picture:
        few = picture.convert("RGB").quantize(PALETTE, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.save(buffer, format="png", optimize=True)
    return buffer.getvalue()
