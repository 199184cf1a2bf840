"""The pages' table of GPUs: layers, products and networks on an H100 against torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vdla.codesign.named_layers import CONVOLUTIONS, DEPTHWISE

from .page import At, Document, Row, Table, Where, at
from .table_parts import geomean

CARD = "gpu-nvidia-h100-80gb-hbm3"
CORRECTED = "be9c478"
"""The commit that gave both sides equal pads, compared the outputs, and put torch.compile's module into a graph."""
GRAPHED, COMPILED = "torch, CUDA graph", "torch.compile, max-autotune, convolutions by cuDNN"
UNEVEN = frozenset({"C1", "C4", "C7", "C10", "D2", "D4", "D6", "D8"})
"""Layers of stride 2 with SAME padding: unequal pads, for which the peer once ran an extra kernel."""


def gpu(group: str, precision: str, names: Iterable[str] | None = None, peer: str = GRAPHED) -> At:
    """The geometric mean of the peer's time over ours over a group's rows."""
    wanted = None if names is None else set(names)

    def mean(rows: Sequence[Document]) -> float:
        return geomean(
            row["ratios"][peer]
            for row in rows
            if (row["group"], row["precision"]) == (group, precision)
            and (wanted is None or row["name"].removesuffix(f"_{precision}") in wanted)
        )

    return at(CARD, "rows", then=mean)


def on_card(name: str, *path: str) -> At:
    """A figure of one row of the card's file."""
    return at(CARD, "rows", Where("name", name), *path)


EVEN_C = tuple(name for name in CONVOLUTIONS if name not in UNEVEN)
EVEN_D = tuple(name for name in DEPTHWISE if name not in UNEVEN)
GPU = Table(
    headings=("measure", "the peer's time over ours"),
    note=(
        "One NVIDIA H100 (SXM, 80 GB), batch 1, templates' defaults, not tuned, against torch (cuDNN, cuBLAS), "
        "interleaved. **All rows were measured before the correction of the benchmark** in commit "
        f"{CORRECTED}. Until then the peer padded layers of stride 2 by a kernel of its own, so those (C1, C4, C7, "
        "C10; D2, D4, D6, D8) are left out here; torch.compile's module was called from Python instead of a CUDA "
        "graph; the peer's outputs were not compared. Prepared ahead of the timed calls: our weights are packed, those "
        "of Winograd convolutions are transformed. Repetitions of our graph overlap (programmatic dependent launch)."
    ),
    rows=(
        Row(
            "convolutions with equal pads (C2, C3, C5, C6, C8, C9, C11, C12), float32; tf32",
            "{0:.2f}; {1:.2f}",
            (gpu("convolutions", "float32", EVEN_C), gpu("convolutions", "tf32", EVEN_C)),
        ),
        Row(
            "depthwise convolutions of stride 1 (D1, D3, D5, D7, D9)",
            "{0:.2f}",
            (gpu("depthwise convolutions", "float32", EVEN_D),),
        ),
        Row(
            "products from 512 to 8192 in float32; tf32; float16; bfloat16; int8 (W in columns)",
            "{0:.2f}; {1:.2f}; {2:.2f}; {3:.2f}; {4:.2f}",
            tuple(gpu("products", p) for p in ("float32", "tf32", "float16", "bfloat16", "int8")),
        ),
        Row(
            "float16 product of 4096",
            "{0:.2f} ({1:.0f} TFLOP/s)",
            (
                on_card("gemm4096_float16", "ratios", GRAPHED),
                at(CARD, "rows", Where("name", "gemm4096_float16"), "gflops", then=lambda g: g / 1e3),
            ),
        ),
        *(
            Row(
                f"{title}, ours in milliseconds; against a CUDA graph of torch; against torch.compile, max-autotune "
                "with cuDNN's convolutions, not in a graph",
                "{0:.3f}; {1:.1f}; {2:.1f}",
                (
                    on_card(name, "ours_ms"),
                    on_card(name, "ratios", GRAPHED),
                    on_card(name, "ratios", COMPILED),
                ),
            )
            for name, title in (
                ("resnet18", "ResNet-18"),
                ("mobilenet", "MobileNet"),
                ("language_model", "language model"),
                ("dqn", "DQN"),
                ("dcgan", "DCGAN"),
            )
        ),
    ),
)
