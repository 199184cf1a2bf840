"""The README's table: a selection of rows of the other tables, without the lines on provenance."""

from __future__ import annotations

from .page import Table
from .tables_accelerator import ACCELERATOR, FAULTS
from .tables_processor import PROCESSOR

HEADLINES = Table(
    rows=(
        ACCELERATOR.row("utilization, ResNet-18, `vta`"),
        ACCELERATOR.row("ResNet-18 outputs against ONNX Runtime"),
        ACCELERATOR.row("with one virtual thread"),
        FAULTS.row("random programs on simulator and RTL"),
        ACCELERATOR.row("ResNet-18 on the RTL"),
        ACCELERATOR.row("simulation with data"),
        ACCELERATOR.row("compile ResNet-18"),
        PROCESSOR.row("networks, our time over the peer's"),
        PROCESSOR.row("ResNet-18, MobileNet, DQN in int8"),
    ),
    sources=False,
)
