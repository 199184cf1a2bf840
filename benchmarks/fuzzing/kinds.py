"""The kinds of fuzzing cases by name: for each kind, a function that makes one case from a seed and an index, runs it
in an empty folder, and returns the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from .archives import archive_case
from .attributes import attribute_case
from .configurations import configuration_case
from .float_graphs import float_graph_case
from .inputs import input_case
from .interrupts import interrupt_case
from .kills import kill_case
from .models import model_case
from .outcome import Outcome
from .programs import program_case
from .qdq_graphs import qdq_graph_case
from .records import record_case
from .streams import stream_case
from .tflite_files import tflite_case
from .tflite_graphs import tflite_graph_case

KINDS: Mapping[str, Callable[[int, int, Path], Outcome]] = MappingProxyType(
    {
        "models": model_case,
        "float_graphs": float_graph_case,
        "qdq_graphs": qdq_graph_case,
        "attributes": attribute_case,
        "configurations": configuration_case,
        "programs": program_case,
        "archives": archive_case,
        "records": record_case,
        "inputs": input_case,
        "kills": kill_case,
        "streams": stream_case,
        "tflite": tflite_case,
        "tflite_graphs": tflite_graph_case,
        "interrupts": interrupt_case,
    }
)
