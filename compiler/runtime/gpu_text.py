"""The kernels of a GPU network as one text to read: device functions, then each kernel after a describing comment."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from ..codegen.cuda.module import CudaModule, KernelLaunch
from ..codegen.cuda.text import WIDTH
from ..graph.graph import Graph
from .launch import Launch

MOST_NODES = 8
"""Largest number of ONNX node names in the comment of one kernel."""


def network_text(
    kind: str, graph: Graph, modules: Sequence[tuple[str, CudaModule]], launches: Sequence[Launch[str]]
) -> str:
    """The text of all kernels of a network in the language `kind` ("cuda", "opencl" or "wgsl"). `modules`: kernels by
    name; `launches`: the network's launches of these kernels.

    A comment before each kernel gives its operator, the ONNX nodes that it computes, the shapes of its arrays, its
    grids and blocks, and the template and knobs that made it.
    """
    definitions = dict.fromkeys(text for _, module in modules for text in module.definitions)
    parts = (
        [f"// {graph.name}: {len(modules)} kernels, {len(launches)} launches, in {kind}\n"] if modules else []
    )
    parts += [text.rstrip() + "\n" for text in definitions]
    for name, module in modules:
        uses = [launch for launch in launches if launch.kernel == name]
        parts.append("\n".join([*_described(name, module, uses), module.kernels.rstrip(), ""]))
    return "\n".join(parts)


def _described(name: str, module: CudaModule, uses: Sequence[Launch[str]]) -> Iterator[str]:
    """The lines of a comment that describes the module `name`. `uses`: the network's launches of this module."""
    operators = ", ".join(dict.fromkeys(launch.operator for launch in uses))
    times = f", launched for {len(uses)} nodes" if len(uses) > 1 else ""
    yield from _comment(f"{name}: {operators}{times}")
    nodes = list(dict.fromkeys(member for launch in uses for member in launch.members or (launch.name,)))
    rest = f" and {len(nodes) - MOST_NODES} more" if len(nodes) > MOST_NODES else ""
    if nodes:
        yield from _comment(f"  computes: {', '.join(nodes[:MOST_NODES])}{rest}")
    if uses:
        yield from _comment(f"  arrays:   {', '.join(_arrays(module, uses[0]))}")
    shapes = {launch.function: launch for launch in module.launches}
    for function, launch in shapes.items():
        several = f"{function} " if len(shapes) > 1 else ""
        yield from _comment(f"  launch:   {several}{_shape(launch)}")
    if uses and uses[0].method:
        yield from _comment(f"  method:   {uses[0].method}")


def _arrays(module: CudaModule, use: Launch[str]) -> Iterator[str]:
    """Yields a text for each parameter of a module: the parameter's name, type and shape, the tensor that the launch
    `use` of the network passes for the parameter (or "constant"), and "(written)" if the kernel writes the parameter.
    """
    for parameter in module.parameters:
        shape = " x ".join(map(str, parameter.shape))
        tensor = use.tensors.get(parameter.name)
        source = "constant" if tensor is None else tensor
        written = " (written)" if parameter.name in module.outputs else ""
        yield f"{parameter.name} {parameter.dtype} {shape or 1} = {source}{written}"


def _shape(launch: KernelLaunch) -> str:
    grid, block = (" x ".join(map(str, sizes)) for sizes in (launch.grid, launch.block))
    shared = f", {launch.shared_bytes} bytes of dynamic shared memory" if launch.shared_bytes else ""
    return f"grid {grid}, block {block}{shared}"


def _comment(text: str) -> list[str]:
    # A backslash at the end of a line would continue the comment, and names may have any characters.
    safe = re.sub(r"[^\w.,:/#=()+*<>\[\] '-]", "_", text)
    return textwrap.wrap(safe, WIDTH, initial_indent="// ", subsequent_indent="//             ")
