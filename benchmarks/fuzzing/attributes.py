"""Kind "attributes": a valid random graph, one node of which gets a wrong attribute.

The operator does not have the attribute, or the attribute's text is not allowed. Every command must reject the graph
and name node, operator and attribute; none may ignore the attribute.
"""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import defs, helper

import vdla
from vdla.compiler.graph.errors import ContradictionError
from vdla.util.errors import UserError

from .drawing import Draw
from .float_graphs import outputs_of, random_float_graph
from .graphs.builder import Builder
from .graphs.compared import operator_text, refused, traced
from .graphs.tables import OPERATORS, Operator, rows_of
from .outcome import Outcome
from .qdq_graphs import random_qdq_graph

RANDOM = ("foo", "axis_", "Alpha", "kernel", "mode2", "channels_last_", "x", "padding")
"""Attribute names that no operator has."""
TEXTS = ("foo", "", "NEAREST", "cubic ", "vAlid", "tanh2")
"""Texts that no attribute accepts."""


def attribute_case(seed: int, index: int, folder: Path) -> Outcome:
    """Compiles one graph with a wrong attribute, for the processor or for the accelerator, and returns the verdict:
    "right" if the graph is rejected and the message names the attribute. `seed`, `index`: the seed of the campaign and
    the number of the case. `folder` is not used.
    """
    draw = Draw("attributes", seed, index)
    quantized = draw.chance(0.3)
    builder = random_qdq_graph(draw, index) if quantized else random_float_graph(draw, index)
    if builder is None:
        return Outcome("unchecked", "nothing was drawn")
    model = builder.model(outputs_of(builder))
    plain = model.SerializeToString()
    node = draw.of(model.graph.node)
    wanted = _change(draw, builder, node)
    operators = (operator_text(node),)
    options = {"target": "vdla", "config": "tiny"} if quantized and draw.chance(0.5) else {"target": "llvm"}
    try:
        network = vdla.compile(model.SerializeToString(), cache=False, **options)  # pyright: ignore
        # Nodes whose shapes depend on an input's value are imported only when that value is known.
        network.run(builder.feeds())
    except UserError as error:
        outcome = refused(error, operators)
        if outcome.verdict != "refused":
            return outcome
        text = str(error)
        named = node.name in text and node.op_type in text
        # ONNX's own inference reads an unknown text as the default one. Then shapes that the model states, of this node
        # or of a later one, contradict the inferred shapes.
        contradicts = bool(wanted[1:]) and isinstance(error, ContradictionError)
        if contradicts or (named and any(word in text for word in wanted)):
            # The attribute is refused by its name, or by the shapes that it contradicts.
            return Outcome("right", text, operators)
        try:
            vdla.compile(plain, cache=False, **options).run(builder.feeds())  # pyright: ignore
        except UserError:
            return outcome
        return Outcome(
            "wrong", f"its refusal does not name {' or '.join(wanted)} of {node.name}: {text}", operators
        )
    except Exception:
        return Outcome("traceback", traced(), operators)
    return Outcome("wrong", f"{wanted[0]} of node '{node.name}' ({node.op_type}) is ignored", operators)


def _change(draw: Draw, builder: Builder, node: onnx.NodeProto) -> tuple[str, ...]:
    """Adds a wrong attribute to `node`, a node of the graph `builder`, or gives one of its attributes a wrong text.
    Returns texts of which a command's message must contain one: first the attribute's name, then the wrong text.
    """
    texts = [
        entry
        for entry in node.attribute
        if entry.type == onnx.AttributeProto.STRING and entry.name in ENUMERATED
    ]
    if texts and draw.chance(0.4):
        entry = draw.of(texts)
        entry.s = draw.of(TEXTS).encode()
        return entry.name, repr(entry.s.decode()), entry.s.decode() or entry.name
    known = _known(Operator(node.domain, node.op_type), builder.opset)
    there = {entry.name for entry in node.attribute}
    others = sorted(name for name in _all_names() if name not in known and name not in there)
    name = draw.of(others) if draw.chance(0.7) else draw.of(RANDOM)
    value = draw.of((1, 2, -1, 0.5, "NOTSET", [1, 2], [0.5]))
    node.attribute.append(helper.make_attribute(name, value))
    return (name,)


ENUMERATED = frozenset(
    (
        *("auto_pad", "mode", "padding_mode", "coordinate_transformation_mode", "nearest_mode", "direction"),
        *("approximate", "reduction", "keep_aspect_ratio_policy"),
    )
)
"""Names of attributes whose value must be one of a few texts."""


def _known(operator: Operator, opset: int) -> set[str]:
    """Names of the attributes that ONNX's schema gives an operator in an opset, and of the attributes that the importer
    reads or may ignore for it.
    """
    names: set[str] = set()
    for row in rows_of(operator):
        names |= (row.reads or set()) | row.idle
    if not operator.domain:
        names |= set(defs.get_schema(operator.name, opset, "").attributes)
    return names


def _all_names() -> set[str]:
    """The names of all attributes that the importers read for any operator."""
    return {name for operator in OPERATORS.values() for row in rows_of(operator) for name in row.reads or ()}
