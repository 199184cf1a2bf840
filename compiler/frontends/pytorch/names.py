"""Names of nodes after the PyTorch modules that compute them."""

from __future__ import annotations

import ast
from collections.abc import Collection

import onnx

SCOPES = "pkg.torch.onnx.name_scopes"
"""Metadata key under which PyTorch's exporter writes the module paths of a node. The value is the text of a Python
list: paths from the outermost to the innermost module, and last the node's own name in the exported graph.
"""
WEIGHT = ".weight"
"""End of the names of initializers with the weights of a module. (The exporter names an initializer by the path of its
parameter.)
"""


def name_nodes(model: onnx.ModelProto) -> None:
    """Names the nodes of an exported model by module paths.

    A node that reads the weights of a module has the path of this module: "layer1.0.conv2", also if the exporter has
    fused a batch normalization into the convolution. All other nodes have the path of the innermost module around them.
    The first node of a module without submodules has the path as its name. The name of any other node is the path and
    the operator, with a number if several nodes have the same name: "layer1.0/Add", "layer1.0/Add_2". Nodes outside of
    all modules are named by their operator.
    """
    weights = {entry.name for entry in model.graph.initializer if entry.name.endswith(WEIGHT)}
    paths = [path_of(node, weights) for node in model.graph.node]
    parents = {path.rpartition(".")[0] for path in paths}
    taken: set[str] = set()
    for node, path in zip(model.graph.node, paths, strict=True):
        stem = f"{path}/{node.op_type}" if path else node.op_type
        if path and path not in parents and path not in taken:
            stem = path
        name, number = stem, 2
        while name in taken:
            name, number = f"{stem}_{number}", number + 1
        taken.add(name)
        node.name = name


def path_of(node: onnx.NodeProto, weights: Collection[str]) -> str:
    """Path of the module that computes a node. If the node reads weights of a module (initializers in `weights`), it is
    this module, else the innermost module around the node. "" if there is none.
    """
    read = next((name for name in node.input if name in weights), None)
    return innermost_module(node) if read is None else read.removesuffix(WEIGHT)


def innermost_module(node: onnx.NodeProto) -> str:
    """Path of the innermost module around a node by the exporter's metadata; "" if the metadata names none."""
    text = next((entry.value for entry in node.metadata_props if entry.key == SCOPES), "[]")
    try:
        scopes = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return ""
    return str(scopes[-2]) if isinstance(scopes, list) and len(scopes) > 1 else ""
