"""Runs ONNX models and single matrix products in torch (with cuDNN and cuBLAS), so that benchmarks can compare our GPU
kernels with a library. Works without torch installed: `find_torch` then returns None.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from vdla.util.errors import UserError

from .gpu_run import in_columns

Forward = Callable[[], Any]
WARM_UP = 3
"""Number of runs before capture in a CUDA graph: in the first runs cuDNN times its algorithms, and libraries allocate
their workspaces.
"""


class PeerError(UserError):
    """Raised if torch is no use as a comparison: it finds no device, lacks an operator, or gives other outputs."""


def find_torch() -> ModuleType | None:
    """The module torch; None if it is not installed. Raises PeerError if torch finds no GPU."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    if not torch.cuda.is_available():
        raise PeerError("torch is installed but sees no GPU; install one built for CUDA, or uninstall it")
    return torch


def set_precision(torch: ModuleType, *, tensor_float: bool) -> None:
    """Switches TF32 on or off in all of torch, and lets cuDNN time its algorithms to choose the fastest."""
    torch.backends.cuda.matmul.allow_tf32 = tensor_float
    torch.backends.cudnn.allow_tf32 = tensor_float
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high" if tensor_float else "highest")


def set_convolutions(torch: ModuleType, *, library: bool) -> None:
    """Restricts torch.compile at max-autotune to cuDNN's convolutions (`library`), or also allows Triton's."""
    config: Any = importlib.import_module("torch._inductor.config")
    config.max_autotune_conv_backends = "ATEN" if library else "ATEN,TRITON"


def outputs_of(torch: ModuleType, forward: Forward) -> tuple[np.ndarray, ...]:
    """The outputs of a call of `forward`, in order, as arrays on the host; floats of any width as float32."""
    with torch.inference_mode():
        given = forward()
    arrays = given if isinstance(given, tuple | list) else (given,)
    return tuple((array.float() if array.is_floating_point() else array).cpu().numpy() for array in arrays)


class TorchTimer:
    """Measures the milliseconds of `forward` by device events around `repetitions` calls in sequence, which are one
    CUDA graph if `graphed`.
    """

    def __init__(self, torch: ModuleType, forward: Forward, *, repetitions: int, graphed: bool) -> None:
        self._torch, self._forward, self._repetitions = torch, forward, repetitions
        self._graph: Any = None
        with torch.inference_mode():
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    forward()
            torch.cuda.current_stream().wait_stream(stream)
            if graphed:
                self._graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self._graph):
                    for _ in range(repetitions):
                        forward()
        torch.cuda.synchronize()

    def milliseconds(self) -> float:
        """Milliseconds of one call of `forward`, by device events."""
        begin, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        with self._torch.inference_mode():
            begin.record()
            if self._graph is not None:
                self._graph.replay()
            else:
                for _ in range(self._repetitions):
                    self._forward()
            end.record()
        end.synchronize()
        return begin.elapsed_time(end) / self._repetitions


def model_forward(
    torch: ModuleType,
    model: onnx.ModelProto,
    inputs: Mapping[str, np.ndarray],
    *,
    device: str = "cuda",
    compiled: bool = False,
) -> Forward:
    """A function that runs `model` on `inputs`, which are copied to the device once, and returns the outputs in order;
    `compiled`: the model is compiled by torch.compile at max-autotune.

    torch.compile's own CUDA graphs are off, so that the compiled module can be captured in a graph like other modules.
    Raises PeerError for operators that the translation to torch lacks.
    """
    module = _module(torch, model).eval().to(device)
    arrays = [torch.from_numpy(np.ascontiguousarray(inputs[v.name])).to(device) for v in model.graph.input]
    if compiled:
        # All models here share one `forward`, and after eight compilations of one function torch runs it uncompiled.
        torch.compiler.reset()
        module = torch.compile(module, mode="max-autotune-no-cudagraphs")
    return lambda: module(*arrays)


def product_forward(
    torch: ModuleType, precision: str, inputs: Mapping[str, np.ndarray], *, device: str = "cuda"
) -> Forward:
    """A function that multiplies the matrices `X` and `W` of `inputs` in torch, by cuBLAS, in `precision` ("float32",
    "tf32", "float16", "bfloat16" or "int8"). `W` keeps its layout in memory, which may be column after column
    (`gpu_run.in_columns`).
    """
    if precision == "int8":
        x, w = (torch.from_numpy(inputs[name]).to(device) for name in ("X", "W"))
        w = w.t() if in_columns(precision) else w
        return lambda: torch._int_mm(x, w)
    kinds = {"float16": torch.float16, "bfloat16": torch.bfloat16}
    x, w = (
        torch.from_numpy(inputs[name].astype(np.float32)).to(device, kinds.get(precision, torch.float32))
        for name in ("X", "W")
    )
    return lambda: x @ w


def _module(torch: ModuleType, model: onnx.ModelProto) -> Any:
    """The ONNX model as a torch module, whose forward runs node after node."""
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            constants[node.output[0]] = np.asarray(numpy_helper.to_array(node.attribute[0].t))
    names = [value.name for value in model.graph.input]
    wanted = [value.name for value in model.graph.output]
    steps = [
        (_step(torch, node, constants), [n for n in node.input if n not in constants], node.output[0])
        for node in model.graph.node
        if node.op_type != "Constant"
    ]

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps = torch.nn.ModuleList([step for step, _, _ in steps])

        def forward(self, *arrays: Any) -> list[Any]:
            values = dict(zip(names, arrays, strict=True))
            for step, (_, read, written) in zip(self.steps, steps, strict=True):
                values[written] = step(*[values[name] for name in read])
            return [values[name] for name in wanted]

    return Network()


def _step(torch: ModuleType, node: onnx.NodeProto, constants: Mapping[str, np.ndarray]) -> Any:
    """One ONNX node as a torch module whose arguments are the node's inputs that are not in `constants` (arrays by
    name).
    """
    functional = torch.nn.functional
    held = [constants.get(name) for name in node.input]
    at = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type == "LSTM":
        return _recurrent(torch, held, at)

    class Step(torch.nn.Module):
        def __init__(self, function: Callable[..., Any], values: Sequence[np.ndarray | None]) -> None:
            super().__init__()
            self.function = function
            self.places = [value is not None for value in values]
            for i, value in enumerate(values):
                if value is not None:
                    self.register_buffer(f"c{i}", torch.from_numpy(np.array(value)))

        def forward(self, *arrays: Any) -> Any:
            given = iter(arrays)
            operands = [
                getattr(self, f"c{i}") if constant else next(given) for i, constant in enumerate(self.places)
            ]
            return self.function(*operands)

    def made(function: Callable[..., Any], count: int | None = None) -> Any:
        return Step(function, held[:count])

    match node.op_type:
        case "Conv" | "ConvTranspose":
            return made(_convolution(functional, at, transposed=node.op_type != "Conv"))
        case "MaxPool" | "AveragePool":
            return made(_pool(functional, at, largest=node.op_type == "MaxPool"))
        case "GlobalAveragePool":
            return made(lambda x: x.mean(dim=tuple(range(2, x.dim())), keepdim=True))
        case "BatchNormalization":
            epsilon = at.get("epsilon", 1e-5)
            return made(
                lambda x, scale, shift, mean, variance: functional.batch_norm(
                    x, mean, variance, scale, shift, eps=epsilon
                )
            )
        case "Gemm":
            return made(_gemm(functional, at))
        case "MatMul":
            return made(torch.matmul)
        case "Add":
            return made(torch.add)
        case "Mul":
            return made(torch.mul)
        case "Div":
            return made(torch.div)
        case "Erf":
            return made(torch.erf)
        case "Identity":
            return made(lambda x: x)
        case "LayerNormalization" if at.get("axis", -1) == -1:
            epsilon = at.get("epsilon", 1e-5)
            return made(
                lambda x, scale, shift=None: functional.layer_norm(x, x.shape[-1:], scale, shift, epsilon)
            )
        case "Relu":
            return made(functional.relu)
        case "Tanh":
            return made(torch.tanh)
        case "Sigmoid":
            return made(torch.sigmoid)
        case "Flatten":
            return made(lambda x: x.flatten(at.get("axis", 1)))
        case "Softmax":
            return made(lambda x: functional.softmax(x, dim=at.get("axis", -1)))
        case "Transpose":
            return made(lambda x: x.permute(*at["perm"]))
        case "Reshape" if held[1] is not None:
            shape = [int(n) for n in held[1]]
            return made(lambda x: x.reshape(shape), 1)
        case "Squeeze" if len(held) > 1 and held[1] is not None:
            axes = tuple(int(n) for n in held[1])
            return made(lambda x: x.squeeze(axes), 1)
    raise PeerError(f"the translation to PyTorch does not support the operator {node.op_type}")


def _convolution(functional: Any, at: Mapping[str, Any], *, transposed: bool) -> Callable[..., Any]:
    rank = len(at["kernel_shape"])
    pads = at.get("pads", [0] * 2 * rank)
    options = {
        "stride": tuple(at.get("strides", [1] * rank)),
        "dilation": tuple(at.get("dilations", [1] * rank)),
        "groups": at.get("group", 1),
    }
    begin, end = pads[:rank], pads[rank:]
    if transposed:
        if begin != end:
            raise PeerError("the peer's translation has no transposed convolution of unequal pads")
        more = tuple(at.get("output_padding", [0] * rank))
        return lambda x, w, b=None: functional.conv_transpose2d(
            x, w, b, padding=tuple(begin), output_padding=more, **options
        )
    if begin == end:
        return lambda x, w, b=None: functional.conv2d(x, w, b, padding=tuple(begin), **options)
    around = _around(pads)
    return lambda x, w, b=None: functional.conv2d(functional.pad(x, around), w, b, **options)


def _pool(functional: Any, at: Mapping[str, Any], *, largest: bool) -> Callable[..., Any]:
    kernel, strides = tuple(at["kernel_shape"]), tuple(at.get("strides", [1] * len(at["kernel_shape"])))
    pads = at.get("pads", [0] * 4)
    if largest:
        around = _around(pads)
        return lambda x: functional.max_pool2d(
            functional.pad(x, around, value=float("-inf")) if any(pads) else x, kernel, strides
        )
    if any(pads):
        raise PeerError("the peer's translation has no average pool with pads")
    return lambda x: functional.avg_pool2d(x, kernel, strides)


def _around(pads: Sequence[int]) -> list[int]:
    """Converts pads from ONNX's order (the pads before each dimension, then the pads after each dimension) to torch's
    order: the pads before and after the last dimension, then those of the dimension in front of it, and so on.
    """
    rank = len(pads) // 2
    return [pad for d in reversed(range(rank)) for pad in (pads[d], pads[d + rank])]


def _gemm(functional: Any, at: Mapping[str, Any]) -> Callable[..., Any]:
    if at.get("alpha", 1.0) != 1.0 or at.get("beta", 1.0) != 1.0 or at.get("transA", 0):
        raise PeerError("the peer's translation has only plain Gemm")
    transposed = at.get("transB", 0)
    return lambda x, w, b=None: functional.linear(x, w if transposed else w.t(), b)


def _recurrent(torch: ModuleType, held: Sequence[np.ndarray | None], at: Mapping[str, Any]) -> Any:
    """An LSTM with constant weights as a module on cuDNN's LSTM. The gates are in cuDNN's order (input, forget, cell,
    output). `held`: the values of the ONNX node's inputs, None for inputs that are not constant; `at`: the node's
    attributes. Raises PeerError if the weights are not constant or the initial state is given.
    """
    weights, recurrence = held[1], held[2]
    if weights is None or recurrence is None or any(value is not None for value in held[4:]):
        raise PeerError("the peer's translation has only LSTMs of constant weights that begin at zero")
    directions, rows, width = weights.shape
    units = rows // 4
    bias = held[3] if len(held) > 3 and held[3] is not None else np.zeros((directions, 8 * units), np.float32)

    class Recurrent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(width, units, bidirectional=directions == 2)
            for d, suffix in enumerate(("", "_reverse")[:directions]):
                for name, value in (
                    ("weight_ih", weights[d]),
                    ("weight_hh", recurrence[d]),
                    ("bias_ih", bias[d, : 4 * units]),
                    ("bias_hh", bias[d, 4 * units :]),
                ):
                    # ONNX's order is input, output, forget, cell.
                    gates = np.array(np.split(value, 4))[[0, 2, 3, 1]].reshape(value.shape)
                    parameter = torch.nn.Parameter(torch.from_numpy(gates), requires_grad=False)
                    setattr(self.lstm, f"{name}_l0{suffix}", parameter)
            self.lstm.flatten_parameters()

        def forward(self, x: Any, *_: Any) -> Any:
            states, _ = self.lstm(x)
            steps, batch, _ = states.shape
            return states.reshape(steps, batch, directions, units).permute(0, 2, 1, 3)

    return Recurrent()
