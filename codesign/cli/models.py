"""`vdla models`: the shipped networks as ONNX files."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from vdla.util.files import write_whole
from vdla.util.user_files import check_destination

from .options import JsonOption
from .output import note, print_json, steps


class Form(StrEnum):
    """Values of --form: uint8 QDQ (`u8`), symmetric int8 QDQ (`s8`), QOperator (`qop`) and float32 (`float`)."""

    u8 = "u8"
    s8 = "s8"
    qop = "qop"
    float = "float"


def models(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="resnet18, resnet50, mobilenet, dqn, dcgan, language_model, small_cnn or mlp; with --form float also "
            "bert, mobilebert, gpt2, gpt2_decode, llama, llama_decode and networks of torchvision and timm; the "
            "error message for an unknown name lists them.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE.onnx", help="The file to write.")],
    form: Annotated[
        Form, typer.Option(help="uint8 QDQ, symmetric int8 QDQ, QOperator or float32.")
    ] = Form.u8,
    batch: Annotated[int, typer.Option(min=1, help="Images per launch.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the weights.")] = 0,
    size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="For networks of torchvision and timm: rows and columns of an image; for transformers: tokens (128).",
        ),
    ] = None,
    layers: Annotated[
        int | None,
        typer.Option(min=1, help="For transformers: layers (2); bert and gpt2 were published with 12."),
    ] = None,
    symbolic: Annotated[
        bool,
        typer.Option(
            "--symbolic",
            help="For transformers: any number of tokens; the inputs get the symbolic dimension 'sequence'.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Writes a shipped network with seeded weights as an ONNX file, quantized except with --form float."""
    check_destination(output)
    from ..models import build

    with steps() as progress:
        progress.begin(f"building {name}")
        proto = build(name, form.value, batch, seed, size, layers, symbolic=symbolic)
    data = proto.SerializeToString(deterministic=True)
    write_whole(output, data)
    if json:
        print_json(
            {
                "model": name,
                "form": form.value,
                "batch": batch,
                "seed": seed,
                "file": str(output),
                "bytes": len(data),
            }
        )
    else:
        note(f"wrote {output}: {name}, {form.value}, {len(data):,} bytes")
