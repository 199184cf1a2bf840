"""Tables about GPUs for the project's pages: layers, products and networks on an H100 against torch, and quantized
networks, emulated.
"""

from __future__ import annotations

from collections.abc import Sequence

from .gpu_suite import COMPILED_LIBRARY, GRAPHED
from .page import At, Document, Row, Table, Where, at, source
from .table_parts import geomean

CARD = "gpu-nvidia-h100-80gb-hbm3"
INT8 = "gpu_int8"
CORRECTED = "be9c478"
"""The commit since which our outputs are compared with torch's, and since which torch.compile's module is captured in a
CUDA graph as well.
"""
UNGRAPHED = "torch.compile, max-autotune, convolutions by cuDNN"
"""Name of the results of torch.compile without a CUDA graph. Older rows have these results instead of those with a CUDA
graph.
"""


def gpu(group: str, precision: str) -> At:
    """A figure (`At`) from the results file of the H100: the ratio of torch's time in a CUDA graph to our time, as the
    geometric mean over the rows of `group` in this precision.
    """

    def mean(rows: Sequence[Document]) -> float:
        return geomean(
            row["ratios"][GRAPHED] for row in rows if (row["group"], row["precision"]) == (group, precision)
        )

    return at(CARD, "rows", then=mean)


def on_card(name: str, *path: str) -> At:
    """The figure at `path` in the row `name` of the H100's file of results."""
    return at(CARD, "rows", Where("name", name), *path)


def network(name: str, title: str, *, graphed: bool) -> Row:
    """The table row, with the text `title`, of the network `name`. `graphed`: torch.compile's module ran in a CUDA
    graph.
    """
    how = "in a CUDA graph" if graphed else "not in a graph"
    peer = COMPILED_LIBRARY if graphed else UNGRAPHED
    return Row(
        f"{title}, ours in milliseconds; against a CUDA graph of torch; against torch.compile, max-autotune with "
        f"cuDNN's convolutions, {how}",
        "{0:.3f}; {1:.1f}; {2:.1f}",
        (on_card(name, "ours_ms"), on_card(name, "ratios", GRAPHED), on_card(name, "ratios", peer)),
    )


GPU = Table(
    headings=("measure", "the peer's time over ours"),
    note=(
        "One NVIDIA H100 (SXM, 80 GB), batch 1, templates' defaults, not tuned, against torch (cuDNN, cuBLAS), "
        "interleaved, outputs compared. **The last four rows were measured before the correction of the benchmark** "
        f"in commit {CORRECTED}: outputs were not compared, and torch.compile's module was called from Python "
        "instead of a CUDA graph. Prepared ahead of the timed calls: our weights are packed, those of Winograd "
        "convolutions are transformed. Repetitions of our graph overlap (programmatic dependent launch)."
    ),
    rows=(
        Row(
            "convolutions C1 to C12, float32; tf32",
            "{0:.2f}; {1:.2f}",
            (gpu("convolutions", "float32"), gpu("convolutions", "tf32")),
        ),
        Row(
            "depthwise convolutions D1 to D9",
            "{0:.2f}",
            (gpu("depthwise convolutions", "float32"),),
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
        network("bert_encoder", "BERT-base's encoder, 128 tokens, float32", graphed=True),
        network("bert_encoder_tf32", "BERT-base's encoder, 128 tokens, tf32", graphed=True),
        network("dqn", "DQN", graphed=True),
        network("resnet18", "ResNet-18", graphed=False),
        network("mobilenet", "MobileNet", graphed=False),
        network("language_model", "language model", graphed=False),
        network("dcgan", "DCGAN", graphed=False),
    ),
)


def int8_text(document: Document) -> str:
    """A table of quantized networks on GPUs: differences of outputs in quantization steps, and sizes of archives."""
    lines = [
        "| quantized network | steps from the processor's result | from ONNX Runtime's | archive over model, bytes | "
        "kernels on tensor cores |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| `{row['name']}` | {row['steps']:g} | {row['runtime_steps']:g} | {row['archive_ratio']:.2f} | "
        f"{row['tensor_cores']} of {row['launches']} |"
        for row in document["rows"]
    ]
    return "\n".join([*lines, "", source(INT8, document)])
