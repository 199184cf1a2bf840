"""Colours for parts of a picture: the palette of Okabe and Ito (2008), distinguishable for colour-blind readers."""

from __future__ import annotations

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
SKY, VERMILLION, YELLOW, BLACK = "#56B4E9", "#D55E00", "#F0E442", "#000000"
PARTS = (BLUE, ORANGE, PURPLE, GREEN, SKY, VERMILLION, YELLOW, BLACK)
"""Colours of a bar's parts or a plot's series, in this order. For readers who lack red or green cones, any two colours
have a distance of at least 17 (colour difference CIE 1976).
"""
