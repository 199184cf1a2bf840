"""Adjacent colours of plots can be told apart, also by readers without red or green cones."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from vdla.codesign.explore.report import assets
from vdla.codesign.explore.report.pictures import SERIES, A, B
from vdla.codesign.report.palette import PARTS
from vdla.codesign.report.plots import CAUSE_COLORS, COMPUTE, MEMORY
from vdla.codesign.report.study_plots import GAINED, LOST

SEEN = {
    "all cones": np.eye(3),
    # Machado, Oliveira, Fernandes (2009), severity 1, on linear RGB.
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
}
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
LEAST = 15.0
"""Least colour difference (CIE 1976 delta E) of adjacent colours. An earlier palette had pairs at 7 and 8, which
colour-blind readers could not tell apart.
"""


def lab(color: str, seen: np.ndarray) -> np.ndarray:
    values = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    scaled = XYZ @ np.clip(seen @ linear, 0, 1) / (0.95047, 1, 1.08883)
    x, y, z = np.where(scaled > 0.008856, np.cbrt(scaled), 7.787 * scaled + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def least_difference(colors: tuple[str, ...], seen: np.ndarray) -> float:
    pairs = combinations([lab(color, seen) for color in colors], 2)
    return min(float(np.linalg.norm(a - b)) for a, b in pairs)


def themes() -> list[tuple[str, ...]]:
    text = (Path(assets.__file__).parent / "page.css").read_text(encoding="utf-8")
    found = [dict(re.findall(r"--(s\d): (#\w{6});", block)) for block in text.split("}")]
    return [tuple(block[f"s{k}"] for k in range(7)) for block in found if block]


@pytest.mark.parametrize("reader", SEEN)
def test_colours_are_told_apart(reader: str) -> None:
    assert len(themes()) == 2 and themes()[0] == SERIES
    sets = [PARTS, SERIES, (COMPUTE, *CAUSE_COLORS), (COMPUTE, MEMORY), (A, B), (GAINED, LOST), *themes()]
    assert [colors for colors in sets if least_difference(colors, SEEN[reader]) < LEAST] == []


def test_the_measure_finds_colours_that_are_hard_to_tell_apart() -> None:
    before = ("#e08a3c", "#8b6bb1", "#3d9a8b", "#c9a227", "#b8475d", "#7a8a99")
    assert least_difference(before, SEEN["deuteranopia"]) == pytest.approx(7.5, abs=0.1)
    assert least_difference(("#000000", "#ffffff"), SEEN["all cones"]) == pytest.approx(100, abs=0.1)
