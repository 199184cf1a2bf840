"""Tables for the project's pages about networks on the accelerator: published networks, exported ones, transformers and
language models.
"""

from __future__ import annotations

from .page import Document, source

NETWORKS = "outside"
VISION_TRANSFORMERS = "vision_transformers"
ENCODERS = "encoders"
ACCURACY = "accuracy"
LANGUAGE = "language"
EXPORTED = "exported_networks"
"""Name of the file in benchmarks/results with the networks exported from PyTorch."""
EXPORTED_WHOLE = "exported_whole"


def networks_text(document: Document) -> str:
    """A table with a row for each published network; networks that run entirely on the accelerator come first."""
    lines = [
        f"{document['whole']} of {document['networks']} whole; geomean of their utilization "
        f"{document['utilization']:.3f}. Steps are the largest difference of a single layer to ONNX Runtime.",
        "",
        "| network | image | cycles | utilization | bit-equal to the interpreter | steps |",
        "|---|---|---|---|---|---|",
    ]
    for row in sorted(document["rows"], key=lambda row: (not row["whole"], row["name"])):
        name, size = f"`{row['name']}`", f"{row['size']}x{row['size']}"
        if row["whole"]:
            equal = "yes" if row["interpreter_steps"] == 0 else "no"
            lines.append(
                f"| {name} | {size} | {row['cycles']:,} | {row['utilization']:.2f} | {equal} | {row['layer_steps']} |"
            )
        else:
            kinds = ", ".join(f"{count} {kind}" for kind, count in row.get("refused", {}).items())
            lines.append(f"| {name} | {size} | not whole: {kinds or 'does not fit'} | | | |")
    return "\n".join([*lines, "", source(NETWORKS, document)])


def exported_text(document: Document) -> str:
    """A table of the networks exported from PyTorch and divided into regions for accelerator and processor. It shows
    the largest difference of any region's outputs from ONNX Runtime's on the same inputs.
    """
    lines = [
        f"{document['right']} of {len(document['rows'])} right. A part is a stretch of the network on one side.",
        "",
        "| network | parts | accelerator, steps | processor, of the largest value | outputs against ONNX Runtime |",
        "|---|---|---|---|---|",
    ]
    for row in sorted(document["rows"], key=lambda row: row["name"]):
        if not row["right"]:
            lines.append(f"| `{row['name']}` | {row['ended']} | | | |")
            continue
        check = row["check"]
        processor = "" if check["cpu_max_relative"] is None else f"{check['cpu_max_relative']:.1g}"
        lines.append(
            f"| `{row['name']}` | {len(check['regions'])} | {check['accelerator_max_lsb']} | {processor} | "
            f"{check['output_max_relative']:.2g} |"
        )
    return "\n".join([*lines, "", source(EXPORTED, document)])


def exported_whole_text(document: Document) -> str:
    """A table of the networks exported from PyTorch, with the extensions that the accelerator needs for each."""
    lines = [
        f"{document['whole']} of {len(document['rows'])} whole on `{document['config']}` with the extensions that each "
        "row names. The processor looks up rows by ids.",
        "",
        "| network | whole with | processor |",
        "|---|---|---|",
    ]
    for row in sorted(document["rows"], key=lambda row: (not row["whole"], row["name"])):
        refused = ", ".join(sorted(row["refused"]))
        needed = ", ".join(f"`{name}`" for name in row["extensions"]) or "no other extension"
        verdict = needed if row["whole"] else f"not whole: {refused}"
        lines.append(f"| `{row['name']}` | {verdict} | {', '.join(row['on_processor'])} |")
    return "\n".join([*lines, "", source(EXPORTED_WHOLE, document)])


def vision_transformers_text(document: Document) -> str:
    """A table of vision transformers at their original sizes on machines with a chain memory (on-chip memory between
    layers), which stores the attention scores.
    """
    lines = [
        "| vision transformer | image | chain memory, bytes | cycles | utilization | bit-equal to the interpreter |",
        "|---|---|---|---|---|---|",
    ]
    for row in document["rows"]:
        equal = "yes" if row["interpreter_steps"] == 0 else "no"
        lines.append(
            f"| `{row['name']}` | {row['size']}x{row['size']} | {row['chain_buffer_bytes']:,} | {row['cycles']:,} | "
            f"{row['utilization']:.3f} | {equal} |"
        )
    return "\n".join([*lines, "", source(VISION_TRANSFORMERS, document)])


def encoders_text(document: Document) -> str:
    """A table of the cycles and the utilization of a BERT encoder."""
    return "\n".join(
        [
            "| BERT encoder on the accelerator | value |",
            "|---|---|",
            f"| layers, width, heads, sequence | {document['layers']}, {document['width']}, {document['heads']}, "
            f"{document['sequence']} |",
            f"| cycles | {document['cycles']:,} |",
            f"| utilization | {document['utilization']:.3f} |",
            f"| cycles of all that is no product | {document['no_product']:.1%} |",
            f"| utilization of attention alone, scores in a chain memory of {document['chain_buffer_bytes']:,} bytes | "
            f"{document['attention']:.3f} |",
            f"| without a chain memory: cycles, utilization of attention alone | {document['cycles_unchained']:,}, "
            f"{document['attention_unchained']:.3f} |",
            f"| largest difference to the interpreter, to ONNX Runtime | {document['interpreter_steps']}, "
            f"{document['onnxruntime_steps']} steps |",
            "",
            source(ENCODERS, document),
        ]
    )


def accuracy_text(document: Document) -> str:
    """A table of the share of held-out images that are classified correctly."""
    lines = [
        "| trained network | held-out images | float | int8, ONNX Runtime | int8, accelerator | the same answer | "
        "largest difference |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['network']} | {row['images']} | {row['float']:.1%} | {row['onnxruntime']:.1%} | "
        f"{row['accelerator']:.1%} | {row['same']:.1%} | {row['steps']} steps |"
        for row in document["rows"]
    ]
    return "\n".join([*lines, "", source(ACCURACY, document)])


def language_text(document: Document) -> str:
    """A table with a row for each language model on the accelerator; the models start at embeddings."""
    lines = [
        "| language model | cycles | utilization | bound by the bus | no product | bit-equal to the interpreter | "
        "steps | from ids, elsewhere |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in document["rows"]:
        elsewhere = ", ".join(f"{count} {kind}" for kind, count in row["elsewhere"].items())
        if not row["whole"]:
            lines.append(f"| `{row['name']}` | not whole | | | | | | {elsewhere} |")
            continue
        equal = "yes" if row["interpreter_steps"] == 0 else "no"
        lines.append(
            f"| `{row['name']}` | {row['cycles']:,} | {row['utilization']:.2f} | {row['memory_bound']:.0%} | "
            f"{row['no_product']:.1%} | {equal} | {row['layer_steps']} | {elsewhere} |"
        )
    base = document["bert_base_compile"]
    compiled = (
        f"The encoder of BERT-base compiles in {base['wall_s']:.1f} s ({base['cpu_s']:.1f} s of CPU time)."
    )
    return "\n".join([*lines, "", compiled, "", source(LANGUAGE, document)])
