"""The ONNX backend's node tests on this processor: each case is compiled by `vdla.compile`, and its outputs are
compared with the expected ones.

The installed `onnx` package generates the cases. The rules are those of `onnx`'s own runner: shapes and types, and
values within the tolerances of the case.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import onnx
from onnx import TensorProto, TypeProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases

import vdla
from vdla.compiler.runtime.specialized_network import SpecializedNetwork
from vdla.util.errors import UserError

Verdict = Literal["right", "wrong", "refused", "crashed"]
VERDICTS: tuple[Verdict, ...] = ("right", "wrong", "refused", "crashed")
EXCLUDED_KINDS = ("training", "strings", "sequences", "optional")
"""Kinds of ONNX's node tests that are not run, only counted."""
BFLOAT16_TOLERANCE = 2.0**-6
"""Relative tolerance of bfloat16 outputs: two units in the last place, as in ONNX's runner."""
PARAMETERS = {
    "axes",
    "shape",
    "starts",
    "ends",
    "steps",
    "split",
    "pads",
    "constant_value",
    "repeats",
    "sizes",
    "scales",
    "roi",
    "k",
    "K",
    "axis",
    "depth",
    "start",
    "limit",
    "delta",
    "dft_length",
    "frame_length",
    "frame_step",
    "size",
    "output_shape",
    "max_output_boxes_per_class",
    "M",
    "cond",
}
"""Names of inputs, as in ONNX's operator schemas, that are parameters of an operator (axes, shapes ...); most exporters
write them as constants.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCase:
    """A node test of ONNX: a model of one operator, with inputs and expected outputs.

    `operator`: the operator of the tested node or, if the test has a function in expanded form, the function.
    `data`: sets of (inputs, expected outputs), both in the model's order. `rtol`, `atol`: the case's tolerances, as for
    `numpy.allclose`. `parameters`: the model's inputs that parametrize the computation (PARAMETERS).
    """

    name: str
    operator: str
    model: onnx.ModelProto
    data: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float
    atol: float
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The verdict on a node test, with a message if the verdict is not "right".

    `fixed`: the test was judged with its parameters (axes, shapes ...) as constants. `at_run`: it was compiled after
    the values of its parameters arrived.
    """

    name: str
    operator: str
    verdict: Verdict
    message: str = ""
    fixed: bool = False
    at_run: bool = False


def node_cases(operator: str | None = None) -> Iterator[NodeCase]:
    """All node tests of the installed `onnx` package, or only those of one operator; their data are made in memory."""
    with warnings.catch_warnings():
        # Some cases divide by zero intentionally.
        warnings.simplefilter("ignore")
        found = collect_testcases(operator)
    about = {case.name: case.model.graph.node[0].op_type for case in found if case.model is not None}
    given = {case.name: parameters(case.model) for case in found if case.model is not None}
    for case in found:
        assert case.model is not None and case.data_sets is not None
        of = re.sub("_expanded(_ver[0-9]+)?$", "", case.name)
        yield NodeCase(
            name=case.name,
            operator=about.get(of, about[case.name]),
            model=case.model,
            data=case.data_sets,
            rtol=case.rtol,
            atol=case.atol,
            parameters=tuple(
                dict.fromkeys((*given[case.name], *_listed_inputs(case.model, given.get(of, ()))))
            ),
        )


def apart(case: NodeCase) -> str | None:
    """The kind of `EXCLUDED_KINDS` (not run, only counted) that a node test belongs to; None if it is to be run."""
    if "training" in case.name or any("training" in node.domain for node in case.model.graph.node):
        return "training"
    ends = [info.type for info in (*case.model.graph.input, *case.model.graph.output)]
    if any(end.HasField("sequence_type") for end in ends):
        return "sequences"
    if any(end.HasField("optional_type") for end in ends):
        return "optional"
    return "strings" if any(_holds_strings(end) for end in ends) else None


def judge(case: NodeCase) -> Judged:
    """Compiles and runs a node test unchanged; returns the verdict."""
    verdict, message, at_run = _verdict(case, case.model, {})
    return Judged(name=case.name, operator=case.operator, verdict=verdict, message=message, at_run=at_run)


def judge_fixed(case: NodeCase) -> Judged | None:
    """Compiles and runs a node test with the operator's parameters (axes, shapes ...) as constants; returns the
    verdict: "refused" if the test has several sets of data. None if no input is a parameter.
    """
    fixed = case.parameters
    if not fixed:
        return None
    names = [info.name for info in case.model.graph.input]
    verdict, message = "refused", "it has several sets of data"
    if len(case.data) == 1:
        values = dict(zip(names, case.data[0][0], strict=True))
        constants = {name: np.asarray(array(values[name])) for name in fixed}
        verdict, message, _ = _verdict(case, case.model, constants)
    return Judged(name=case.name, operator=case.operator, verdict=verdict, message=message, fixed=True)


def parameters(model: onnx.ModelProto) -> tuple[str, ...]:
    """Names of the inputs of a model that are parameters of an operator, such as axes or shapes. An input is a
    parameter if an operator of the model reads it, and if the operator's schema gives that input a name in
    `PARAMETERS`.
    """
    names = {info.name for info in model.graph.input}
    opset = {entry.domain: entry.version for entry in model.opset_import}
    found: dict[str, None] = {}
    for node in model.graph.node:
        try:
            schema = onnx.defs.get_schema(node.op_type, opset.get(node.domain, 1), node.domain)
        except onnx.defs.SchemaError:
            continue
        for given, formal in zip(node.input, schema.inputs, strict=False):
            if formal.name in PARAMETERS and given in names:
                found[given] = None
    return tuple(found)


def _listed_inputs(model: onnx.ModelProto, names: Sequence[str]) -> list[str]:
    """The inputs of a model whose names are in `names`."""
    return [info.name for info in model.graph.input if info.name in names]


def cause_of(message: str) -> str:
    """The cause that the message of a rejection states, without names and without the advice at its end, so that equal
    causes have equal texts; at most 110 characters.
    """
    problem = re.sub(r"^model: (node '[^']*' )?", "", message).partition(";")[0]
    return re.sub(r"'[^']*'", "'…'", problem)[:110]


def array(value: Any) -> np.ndarray:
    """An input or output of a node test, as `onnx` stores it, as an array."""
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def _holds_strings(end: TypeProto) -> bool:
    return end.tensor_type.elem_type == TensorProto.STRING


def _verdict(
    case: NodeCase, model: onnx.ModelProto, fixed: Mapping[str, np.ndarray]
) -> tuple[Verdict, str, bool]:
    """Compiles `model`, the model of the node test `case` or a variant, runs it on the test's data and compares the
    outputs. The inputs in `fixed` are compiled as constants.

    Returns (verdict, message, late). `message` describes the failure and is empty without one. `late`: the model could
    not be compiled before the first run, because shapes depend on the values of inputs.
    """
    at_run = False
    try:
        network = vdla.compile(model, target="llvm", constants=fixed, cache=False)
        at_run = isinstance(network, SpecializedNetwork)
        names = [info.name for info in case.model.graph.input]
        for inputs, outputs in case.data:
            feeds = {n: array(v) for n, v in zip(names, inputs, strict=True) if n not in fixed}
            got = network.run(feeds)
            for info, expected in zip(model.graph.output, outputs, strict=True):
                if problem := difference(got[info.name], array(expected), case.rtol, case.atol):
                    return "wrong", f"output '{info.name}': {problem}", at_run
    except UserError as error:
        return "refused", str(error), at_run
    except Exception as error:
        return "crashed", f"{type(error).__name__}: {error}", at_run
    return "right", "", at_run


def difference(got: np.ndarray, expected: np.ndarray, rtol: float, atol: float) -> str | None:
    """The difference of the output `got` from the expected one, as text; None if they agree in shape, type and values.
    `rtol`, `atol`: relative and absolute tolerance, as in numpy.isclose.
    """
    if got.shape != expected.shape:
        return f"has shape {got.shape}, not {expected.shape}"
    if got.dtype != expected.dtype:
        return f"is {got.dtype}, not {expected.dtype}"
    if expected.dtype.name == "bfloat16":
        rtol = max(rtol, BFLOAT16_TOLERANCE)
        got, expected = got.astype(np.float32), expected.astype(np.float32)
    near = np.isclose(got, expected, rtol=rtol, atol=atol, equal_nan=True)
    if near.all():
        return None
    at = tuple(np.argwhere(~near)[0].tolist()) if near.ndim else ()
    return f"is {got[at]} at {at}, not {expected[at]}"
