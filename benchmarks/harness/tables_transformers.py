"""Tables for the project's pages about transformers on processors, and about ONNX's own test cases."""

from __future__ import annotations

from .page import Document, source

TRANSFORMERS = "transformers"
NODE_TESTS = "node_tests"
"""Name of the file in benchmarks/results with the verdicts on ONNX's node tests."""
NAMES = {
    "bert": "BERT-base, a sequence of 128",
    "gpt2_prompt": "GPT-2 small, a prompt of 128 tokens",
    "gpt2_decode": "GPT-2 small, one token behind 127",
    "llama_decode": "a Llama (12 layers of SmolLM2-135M), one token behind 127",
}


def transformers_text(document: Document) -> str:
    """A table with a row for each transformer that runs on the processor."""
    lines = [
        "| network | ours | ONNX Runtime | our time over the peer's | largest error | compiled in |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {NAMES[row['name']]} | {row['ours_ms']:.1f} ms | {row['peer_ms']:.1f} ms | {row['ratio']:.2f} | "
        f"{row['error']:.1e} | {row['compile_s']:.1f} s |"
        for row in document["rows"]
    ]
    return "\n".join([*lines, "", source(TRANSFORMERS, document)])


def node_tests_text(document: Document) -> str:
    """A table of the numbers of ONNX's node tests that are right (unchanged, and with parameters as constants), wrong,
    or not run.
    """
    fixed = document["right"] + document["right_fixed"]
    apart = ", ".join(f"{count} of {kind}" for kind, count in document["apart"].items())
    lines = [
        "| ONNX's backend node tests on this processor | cases |",
        "|---|---|",
        f"| right as they are | {document['right']:,} of {document['cases']:,} ({document['share']:.1%}) |",
        f"| of these compiled when the values of axes, shapes and the like arrived | {document['right_at_run']:,} |",
        f"| right, or right with axes, shapes and the like as constants | {fixed:,} ({document['share_fixed']:.1%}) |",
        f"| wrong, crashed | {document['wrong']}, {document['crashed']} |",
        f"| set apart | {apart} |",
    ]
    return "\n".join([*lines, "", source(NODE_TESTS, document)])
