"""Writes the files in tests/compiler/frontends/files: small modules as PyTorch's exporter writes them.

    .venv-torch/bin/python tests/compiler/frontends/exported_files.py

NAME.onnx is the exporter's output before vdla names the nodes, without the nodes' doc strings and without metadata
other than KEPT. NAME.npz has inputs and PyTorch's outputs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "pytorch"))
from torch_networks import Classifier, Quantized, Tokens, image

FOLDER = Path(__file__).parent / "files"
KEPT = ("pkg.torch.onnx.name_scopes",)
"""Keys of the metadata that are kept: others hold paths and times of the machine that exported the model."""


def main() -> None:
    torch.manual_seed(5)
    FOLDER.mkdir(exist_ok=True)
    modules = {
        "classifier": (Classifier(), image()),
        "tokens": (Tokens(), torch.randn(1, 5, 16)),
        "quantized": (Quantized(), torch.randn(1, 4, 6, 6)),
    }
    for name, (module, example) in modules.items():
        model = torch.onnx.export(module.eval(), (example,), dynamo=True, verbose=False).model_proto
        for node in model.graph.node:
            entries = [entry for entry in node.metadata_props if entry.key in KEPT]
            del node.metadata_props[:]
            node.metadata_props.extend(entries)
            node.ClearField("doc_string")
        for info in (
            *model.graph.input,
            *model.graph.output,
            *model.graph.value_info,
            *model.graph.initializer,
        ):
            del info.metadata_props[:]
        del model.graph.metadata_props[:], model.metadata_props[:]
        onnx.save(model, FOLDER / f"{name}.onnx")
        with torch.no_grad():
            output = module(example)
        np.savez(FOLDER / f"{name}.npz", input=example.numpy(), output=output.numpy())


if __name__ == "__main__":
    main()
