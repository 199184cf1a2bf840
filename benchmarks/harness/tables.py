"""The generated blocks of the project's pages, by the names that pages give them."""

from __future__ import annotations

from types import MappingProxyType

from .originals import RESULTS_NAME as ORIGINALS
from .originals import originals_text
from .outside import RESULTS_NAME as OUTSIDE
from .outside import outside_text
from .page import Blocks, Text
from .tables_accelerator import ACCELERATOR, FAULTS, campaigns_text, demo_text
from .tables_exploration import EXPLORATION
from .tables_gpu import GPU, INT8, int8_text
from .tables_headlines import HEADLINES
from .tables_lengths import LENGTHS, lengths_text
from .tables_processor import FUSION, PROCESSOR
from .tables_transformers import NODE_TESTS, TRANSFORMERS, node_tests_text, transformers_text
from .tables_tuning import TUNING
from .tables_whole import (
    ACCURACY,
    ENCODERS,
    EXPORTED,
    EXPORTED_WHOLE,
    LANGUAGE,
    NETWORKS,
    VISION_TRANSFORMERS,
    accuracy_text,
    encoders_text,
    exported_text,
    exported_whole_text,
    language_text,
    networks_text,
    vision_transformers_text,
)

PAGES = ("README.md", "docs/results.md", "docs/tutorials/read_a_report.md", "hw/synthesis.md")
"""Paths, from the root of the repository, of the pages that have generated blocks."""

BLOCKS: Blocks = MappingProxyType(
    {
        "headlines": HEADLINES,
        "demo": Text("demo", demo_text),
        "accelerator": ACCELERATOR,
        "exploration": EXPLORATION,
        "networks": Text(NETWORKS, networks_text),
        "exported": Text(EXPORTED, exported_text),
        "exported_whole": Text(EXPORTED_WHOLE, exported_whole_text),
        "encoders": Text(ENCODERS, encoders_text),
        "vision_transformers": Text(VISION_TRANSFORMERS, vision_transformers_text),
        "language": Text(LANGUAGE, language_text),
        "accuracy": Text(ACCURACY, accuracy_text),
        "processor": PROCESSOR,
        "originals": Text(ORIGINALS, originals_text),
        "outside": Text(OUTSIDE, outside_text),
        "transformers": Text(TRANSFORMERS, transformers_text),
        "lengths": Text(LENGTHS, lengths_text),
        "node_tests": Text(NODE_TESTS, node_tests_text),
        "fusion": FUSION,
        "tuning": TUNING,
        "gpu": GPU,
        "gpu_int8": Text(INT8, int8_text),
        "mutations": Text("mutations", campaigns_text),
        "faults": FAULTS,
    }
)
