"""Inputs for a model, and its reference outputs: ONNX Runtime's, or those of our own interpreter where ONNX Runtime is
not installed or may be wrong.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
from numpy.typing import DTypeLike, NDArray

from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.frontends.onnx.model.read import is_quantized, read_model
from vdla.compiler.graph.abilities import EVERYTHING, Abilities
from vdla.compiler.graph.graph import Graph, Tensor
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.int8_convolution import Quantization
from vdla.compiler.graph.interpret import evaluate, interpret
from vdla.isa.scales import quantize
from vdla.util.errors import UserError
from vdla.util.git_lfs import is_pointer, pointer_problem
from vdla.util.npz import NpzError, open_npz
from vdla.util.user_files import read_whole

from . import models
from .statistic_roundings import leave_out_roundings
from .verdict import Compared

Arrays = dict[str, NDArray[np.generic]]

ONNXRUNTIME = "onnxruntime"
INTERPRETER = "interpreter"
MOST_LAUNCHES = 2**20
"""Largest number of launches (runs of the program) in one `vdla run`; more would be due to an error in a shape, or
would take days.
"""
ROUNDED_BY_THREAD = "DynamicQuantizeLSTM"
"""Name of an operator whose rows ONNX Runtime divides among threads. Each thread chooses its own quantization scale, so
that only a run on one thread computes what the model specifies.
"""
_BARE_ARRAY = b"\x93NUMPY"


class CheckError(UserError):
    """Raised if a comparison cannot be made on this computer, or if input arrays do not match the model."""


class RefusedModelError(CheckError):
    """Raised for a model that ONNX Runtime refuses; `reason` is the first line of ONNX Runtime's message."""

    def __init__(self, reason: str, way_out: str) -> None:
        super().__init__(f"ONNX Runtime cannot run the model: {reason}; {way_out}")
        self.reason = reason


class Input(Protocol):
    """An input of a graph, a network or a program: name, type and shape."""

    @property
    def name(self) -> str:
        """The input's name in the model."""
        ...

    @property
    def dtype(self) -> DTypeLike:
        """The type of the input's arrays."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the input's arrays."""
        ...


class TakesInputs(Protocol):
    """A graph or a network that has inputs, and the name of its model."""

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    @property
    def inputs(self) -> Sequence[Input]:
        """The model's inputs."""
        ...


def sample_arrays(graph: Graph, count: int, seed: int = 0) -> list[Arrays]:
    """Seeded inputs for `count` launches of `graph`: for each launch a dict of arrays by input name.

    A shipped model gets its own sample images; any other model gets values uniform over its inputs' quantized range.
    """
    launches = shipped_samples(graph, count, seed)
    if launches is not None:
        return launches
    generators = [np.random.default_rng([seed, launch]) for launch in range(count)]
    return [
        {item.name: sample_values(generator, item, graph.tensors[item.tensor].grid) for item in graph.inputs}
        for generator in generators
    ]


def shipped_samples(model: TakesInputs, count: int, seed: int = 0) -> list[Arrays] | None:
    """The sample images of a shipped model, one dict of arrays for each of `count` launches. None for any other model.
    A model counts as shipped if its name is the name of a shipped model, or begins with that name and "_", and if its
    only input is a float32 image of the shipped model's size.
    """
    name = next((n for n in models.NAMES if model.name == n or model.name.startswith(f"{n}_")), None)
    if name is None or len(model.inputs) != 1:
        return None
    item = model.inputs[0]
    images = models.sample_inputs(name, count * item.shape[0], seed)
    if images.shape[1:] != item.shape[1:] or np.dtype(item.dtype) != np.float32:
        return None
    return [{item.name: part} for part in np.split(images, count)]


def sample_values(
    generator: np.random.Generator, item: Input, quantization: Quantization
) -> NDArray[np.generic]:
    """An array for the input `item`: uniform over all 256 quantized values, as real numbers if the input is float32."""
    integers = generator.integers(-128, 128, item.shape)
    if np.dtype(item.dtype) == np.float32:
        distance = integers - quantization.stored_zero_point
        return (distance * quantization.scale).astype(np.float32)
    return (integers + quantization.offset).astype(item.dtype)


def load_arrays(path: Path, fits: Callable[[Arrays], object]) -> Arrays:
    """The arrays of an npz file by name. Raises CheckError if the file is no npz file, or contains Python objects.

    `fits` is called with the headers (shapes and types) before any data are read. It checks the headers and raises its
    own errors.
    """
    data = read_whole(path, "inputs")
    if data.startswith(_BARE_ARRAY):
        raise CheckError(
            f"{path}: contains a single array without an input name; save it with numpy.savez(file, INPUT_NAME=array)"
        )
    if is_pointer(data):
        raise CheckError(f"{path}: {pointer_problem('the file')}")
    try:
        with open_npz(data) as stored:
            fits(stored.headers)
            return {name: stored.read(name) for name in stored.headers}
    except NpzError as error:
        raise CheckError(f"{path}: {error}; write one with numpy.savez(file, INPUT_NAME=array)") from None


def load_launches(inputs: Sequence[Input], path: Path) -> list[Arrays]:
    """The arrays of an npz file, as one dict for each launch (`split_launches`); shapes are checked before data are
    read.
    """
    arrays = load_arrays(path, lambda headers: _count_launches(inputs, headers, str(path)))
    return split_launches(inputs, arrays, str(path))


def split_launches(
    inputs: Sequence[Input], arrays: Mapping[str, NDArray[np.generic]], where: str
) -> list[Arrays]:
    """Splits `arrays` into one dict for each launch: arrays whose first axis is k times the model's batch give k
    launches.

    Raises CheckError for a missing or unknown name, a wrong shape or type, more than MOST_LAUNCHES launches, or inputs
    for different numbers of launches. The message of the error begins with `where`, the source of the arrays.
    """
    count = _count_launches(inputs, arrays, where)
    if count == 1:
        return [dict(arrays)]
    parts = {name: np.split(array, count) for name, array in arrays.items()}
    return [{name: part[i] for name, part in parts.items()} for i in range(count)]


def _count_launches(inputs: Sequence[Input], arrays: Mapping[str, NDArray[np.generic]], where: str) -> int:
    """Number of launches (runs of the model) for which `arrays` contain inputs; only their shapes and types are used.
    Raises CheckError as `split_launches` does.
    """
    expected = {item.name: item for item in inputs}
    needs = ", ".join(f"{item.name} {item.dtype} {list(item.shape)}" for item in inputs)
    for name in arrays:
        if name not in expected:
            raise CheckError(f"{where}: the model has no input {name!r}; it expects {needs}")
    counts = set()
    for name, item in expected.items():
        if name not in arrays:
            raise CheckError(f"{where}: input {name!r} is missing; the model expects {needs}")
        array = arrays[name]
        batch, length = (shape[0] if shape else 1 for shape in (item.shape, array.shape))
        # A model whose batch has no elements gets one launch with empty arrays.
        launches = length // batch if batch else int(not length)
        fits = array.ndim == len(item.shape) and array.shape[1:] == item.shape[1:]
        if not fits or not launches or launches * batch != length:
            raise CheckError(
                f"{where}: input {name!r} has shape {list(array.shape)}; the model expects {list(item.shape)}, "
                f"or a multiple of {batch} on the first axis for several launches"
            )
        if array.dtype != np.dtype(item.dtype):
            raise CheckError(f"{where}: input {name!r} is {array.dtype}; convert it to {item.dtype}")
        if launches > MOST_LAUNCHES:
            raise CheckError(
                f"{where}: input {name!r} is for {launches:,} launches; give {MOST_LAUNCHES:,} at most"
            )
        counts.add(launches)
    if len(counts) > 1:
        raise CheckError(
            f"{where}: the inputs have different numbers of images; give every input the same number"
        )
    return counts.pop() if counts else 1


def join_launches(launches: Sequence[Mapping[str, NDArray[np.generic]]]) -> Arrays:
    """The arrays of several launches (runs of the program), concatenated on the first axis; the arrays of a single
    launch are returned unchanged.
    """
    if len(launches) == 1:
        return dict(launches[0])
    return {name: np.concatenate([launch[name] for launch in launches]) for name in launches[0]}


def interpreter_outputs(graph: Graph, arrays: Arrays) -> Arrays:
    """The outputs of one launch of a graph, computed by our own integer interpreter."""
    return load_outputs(graph, interpret(graph, store_inputs(graph, arrays)))


def reference_to_use(wanted: str, model: Path) -> tuple[str, str | None]:
    """Chooses the reference with which the outputs of `model` are compared. `wanted` is "auto", "onnxruntime" or
    "interpreter".

    Returns (name of the reference, reason). If `wanted` is "auto", but the interpreter has to replace ONNX Runtime,
    `reason` is a text that says why; otherwise it is None. Raises CheckError if `wanted` is "onnxruntime" and ONNX
    Runtime is not installed.
    """
    if wanted == INTERPRETER:
        return INTERPRETER, None
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        if wanted == ONNXRUNTIME:
            raise CheckError('ONNX Runtime is not installed; pip install "vdla[check]"') from None
        return INTERPRETER, 'ONNX Runtime is not installed (pip install "vdla[check]")'
    if wanted != ONNXRUNTIME and kernels_saturate() and (kind := _integer_operator(model)) is not None:
        return INTERPRETER, f"this processor has no VNNI, so ONNX Runtime's {kind} may saturate"
    return ONNXRUNTIME, None


def _integer_operator(model: Path) -> str | None:
    """The name of the first operator of a model that computes with integers directly (such as QLinearConv or
    DynamicQuantizeLinear); None for float models and for models in QDQ form.
    """
    return next(
        (
            node.op_type
            for node in read_model(model).bare.graph.node
            if node.op_type.startswith(
                ("QLinear", "QGemm", "ConvInteger", "MatMulInteger", "DynamicQuantize")
            )
        ),
        None,
    )


def kernels_saturate() -> bool:
    """Whether ONNX Runtime's int8 kernels may give wrong sums on this processor.

    On x86 processors without VNNI, the kernels add products of u8 and s8 in 16 bits, and these sums may saturate.
    docs/measures.md describes how outputs are compared on such processors. False on systems without /proc/cpuinfo.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return "vnni" not in flags


def symmetric(graph: Graph) -> bool:
    """Whether a graph has int8 activations. Such a graph is compared layer by layer, without ONNX Runtime's
    optimization.
    """
    return any(tensor.grid.dtype == "int8" for tensor in graph.tensors.values())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerDifferences:
    """Differences between our integers and ONNX Runtime's, when each step of the model gets ONNX Runtime's own integers
    as inputs.

    `largest` is the largest difference of any compared tensor, in quantization steps, over all launches; `compared`
    counts the tensors of one launch. `top1_equal` says whether the largest values of the outputs have the same indices.
    `outputs` are ONNX Runtime's outputs, a dict by name for each launch.
    """

    largest: int
    top1_equal: bool
    compared: Compared
    outputs: tuple[Arrays, ...]


def compare_layers(
    model: Path | bytes, launches: Sequence[Arrays], *, abilities: Abilities = EVERYTHING
) -> LayerDifferences:
    """Compares our integers with ONNX Runtime's, step by step: the quantization of the inputs, every layer, and the
    dequantization of the outputs. Each step gets ONNX Runtime's own results of the previous steps as its inputs.

    A comparison of the outputs alone would be too strict. In symmetric int8 models, ONNX Runtime computes each layer in
    float32, between a DequantizeLinear and a QuantizeLinear, so a result may differ in its last bit; over many layers
    these differences add up (docs/measures.md). The same happens with all models on processors whose integer kernels
    saturate. Some models round the statistics of a normalization's rows; the accelerator does not. ONNX Runtime
    computes these models without the roundings (`statistic_roundings`).

    `abilities`: the operators that the target supports; they decide how the model is divided into layers. Raises
    CheckError.
    """
    content = read_model(model).whole()
    graph = import_model(model, abilities=abilities)
    leave_out_roundings(content, graph)
    produced = {name for node in content.graph.node for name in node.output}
    made = [name for name in graph.tensors if name in produced]
    known = {output.name for output in content.graph.output}
    content.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made if name not in known)
    names = list(dict.fromkeys((*made, *(output.name for output in graph.outputs))))
    largest, agree, compared = 0, True, Compared()
    outputs_found: list[Arrays] = []
    outputs = {output.tensor for output in graph.outputs}
    computed = {node.output for node in graph.nodes}
    for arrays, results in zip(
        launches, _session_runs(content.SerializeToString(), graph, names, launches), strict=True
    ):
        found = dict(zip(names, results, strict=True))
        theirs_by_name = {name: found[name] for name in made}
        stored = {**graph.constants, **store_inputs(graph, arrays)}
        inputs = layers = 0
        for name in theirs_by_name.keys() - computed:
            view = graph.views.get(name)
            theirs = _stored(graph.tensors[name], theirs_by_name[name], view, stored.get(name))
            if name in stored:
                largest = max(largest, _steps(stored[name], theirs))
                inputs += name not in graph.constants
            stored[name] = theirs
        for node in graph.nodes:
            name, tensor = node.output, graph.tensors[node.output]
            ours = evaluate(node, [stored[source] for source in node.inputs]).reshape(tensor.shape)
            theirs = ours
            if name in theirs_by_name:
                theirs = _stored(tensor, theirs_by_name[name], graph.views.get(name), ours)
                layers += 1
            stored[name] = theirs
            largest = max(largest, _steps(ours, theirs))
            if name in outputs:
                flat = [values.reshape(tensor.shape[0], -1).argmax(axis=1) for values in (ours, theirs)]
                agree = agree and np.array_equal(*flat)
        given = {output.name: found[output.name] for output in graph.outputs}
        largest = max(largest, largest_difference(graph, load_outputs(graph, stored), given))
        outputs_found.append(given)
        compared = Compared(inputs=inputs, layers=layers, outputs=len(given))
    return LayerDifferences(
        largest=largest, top1_equal=agree, compared=compared, outputs=tuple(outputs_found)
    )


def _steps(ours: NDArray[Any], theirs: NDArray[Any]) -> int:
    """The largest absolute difference between the elements of two int8 arrays."""
    return int(np.abs(ours.astype(np.int16) - theirs.astype(np.int16)).max(initial=0))


def _stored(
    tensor: Tensor, values: NDArray[Any], view: NDArray[Any] | None, others: NDArray[np.int8] | None
) -> NDArray[np.int8]:
    """Converts ONNX Runtime's values of a tensor to the form in which the accelerator stores it: int8; float values are
    quantized first.

    The stored tensor may have more elements than the model's tensor. `view`: for each element of the model's tensor,
    its index in the stored tensor (`Graph.views`), below 0 if it is not stored. `others`: values of the remaining
    elements (None: zeros).
    """
    if values.dtype.kind == "f":
        grid = tensor.grid
        integers = quantize(values.astype(np.float32), grid.scale, grid.stored_zero_point)
    else:
        integers = (values.astype(np.int16) - (128 if values.dtype == np.uint8 else 0)).astype(np.int8)
    if view is not None:
        there = np.zeros(tensor.size, np.int8) if others is None else others.reshape(-1).copy()
        places = view.reshape(-1)
        there[places[places >= 0]] = integers.reshape(-1)[places >= 0]
        integers = there
    return integers.reshape(tensor.shape)


def onnxruntime_outputs(
    model: Path, graph: Graph, launches: Sequence[Arrays], *, optimized: bool = True
) -> list[Arrays]:
    """The outputs of every launch of `model`, computed by ONNX Runtime; `graph` is our own import of the same model.
    Raises CheckError if ONNX Runtime refuses the model.

    For models with uint8 activations, ONNX Runtime's default optimization is on, so that its integer kernels are used;
    `optimized` False turns it off. For symmetric int8 models it is always off, so that ONNX Runtime does both roundings
    of a pair of DequantizeLinear and QuantizeLinear (docs/measures.md).
    """
    names = [output.name for output in graph.outputs]
    results = session_runs(str(model), names, launches, optimized=optimized and not symmetric(graph))
    return [
        {name: np.asarray(value) for name, value in zip(names, values, strict=True)} for values in results
    ]


def _session_runs(
    model: str | bytes, graph: Graph, names: list[str], launches: Sequence[Arrays]
) -> list[list[NDArray[Any]]]:
    return session_runs(model, names, launches, optimized=not symmetric(graph))


def session_runs(
    model: str | bytes,
    names: list[str],
    launches: Sequence[Arrays],
    *,
    optimized: bool,
    way_out: str = "use --check interpreter",
) -> list[list[NDArray[Any]]]:
    """The outputs of a model (a path, or the bytes of a file), computed by ONNX Runtime: for each launch a list in the
    order of `names`. A launch is a dict of inputs by name.

    `optimized`: whether ONNX Runtime optimizes the model. Quantized models are never optimized on processors where ONNX
    Runtime's integer kernels saturate; their layers are then computed in float. Raises RefusedModelError, whose message
    ends with `way_out`.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Idle threads of ONNX Runtime would spin on cores that others need.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not optimized or (kernels_saturate() and is_quantized(model)):
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    read = read_model(model)
    if any(node.op_type == ROUNDED_BY_THREAD for node in read.bare.graph.node):
        options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(
            read.converted or model, options, providers=["CPUExecutionProvider"]
        )
        return [[np.asarray(value) for value in session.run(names, dict(arrays))] for arrays in launches]
    except Exception as error:
        # onnxruntime's errors have no common base class.
        raise RefusedModelError(str(error).splitlines()[0], way_out) from None


def largest_difference(graph: Graph, ours: Arrays, theirs: Arrays) -> int:
    """The largest difference between two sets of outputs, in quantization steps of the output; `_MOST_STEPS` if they
    cannot be compared.
    """
    largest = 0
    for output in graph.outputs:
        step = output.quantization.scale if output.quantization and output.dtype == "float32" else 1
        mine, other = (np.asarray(arrays[output.name], np.float64) for arrays in (ours, theirs))
        if mine.shape != other.shape:
            return int(_MOST_STEPS)
        if mine.size:
            steps = np.nan_to_num(np.abs(mine - other).max() / np.float64(step), nan=np.inf)
            largest = max(largest, int(np.rint(min(steps, _MOST_STEPS))))
    return largest


_MOST_STEPS = 2.0**31
"""Difference, in quantization steps, that is reported for outputs which cannot be compared because their shapes differ
or an element is not finite.
"""


def top1_agrees(graph: Graph, ours: Arrays, theirs: Arrays) -> bool:
    """Whether, for each image, the largest value has the same index in both sets of outputs. If several values are
    largest, the first one counts, as in every top-1 measure.
    """
    for output in graph.outputs:
        mine, other = (np.asarray(a[output.name]).reshape(output.shape[0], -1) for a in (ours, theirs))
        if not np.array_equal(mine.argmax(axis=1), other.argmax(axis=1)):
            return False
    return True
