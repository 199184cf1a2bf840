"""Table on benchmarks/lengths.py for the project's pages: networks compiled once for sequences of any length."""

from __future__ import annotations

from .page import Document, source

LENGTHS = "lengths"
"""Name of the file in benchmarks/results with the measurements of networks for any length."""
NAMES = {
    "accelerator": "BERT (two layers of MiniLM's width), int8, `vta` with `rows`: cycles",
    "bert": "the same from ids, float32, processor: thread CPU time",
    "gpt2": "GPT-2 small (two layers), a prompt, float32, processor: thread CPU time",
}


def lengths_text(document: Document) -> str:
    """A table with a row for each model that was compiled for sequences of any length."""
    lines = [
        "| one artefact for 1 to 512 tokens | worst of the lengths measured | geomean | rungs | file, over that of 512 "
        "tokens alone | compiled in (CPU time) |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {NAMES[row['name']]} | {row['worst']:.3f} | {row['geomean']:.3f} | {len(row['rungs'])} | "
        f"{row['bytes'] / row['static_bytes']:.2f} | {row['compile_cpu_s']:.0f} s |"
        for row in document["models"]
    ]
    return "\n".join([*lines, "", source(LENGTHS, document)])
