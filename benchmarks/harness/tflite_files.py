"""Writes TFLite files by flatbuffers alone, and runs TFLite files with LiteRT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite

TYPES = {
    np.dtype(np.float32): tflite.TensorType.FLOAT32,
    np.dtype(np.float16): tflite.TensorType.FLOAT16,
    np.dtype(np.int8): tflite.TensorType.INT8,
    np.dtype(np.uint8): tflite.TensorType.UINT8,
    np.dtype(np.int16): tflite.TensorType.INT16,
    np.dtype(np.int32): tflite.TensorType.INT32,
    np.dtype(np.int64): tflite.TensorType.INT64,
    np.dtype(np.bool_): tflite.TensorType.BOOL,
}


WrittenOperator = tuple[str, Sequence[int], Sequence[int], str, Mapping[str, Any]]
"""An operator: (kind such as "CONV_2D", input tensors, output tensors, name of the schema's class for its options
without the ending `Options`, values of the options by name).
"""


@dataclass
class Written:
    """A TFLite model of one subgraph under construction. A tensor is an index into `tensors`; `last` is the tensor that
    was added last. `seed`: seed of the random weights; `custom`: name of the operators of the kind "CUSTOM".
    """

    seed: int = 0
    tensors: list[dict[str, Any]] = field(default_factory=list)
    operators: list[WrittenOperator] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    custom: str = ""

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    @property
    def last(self) -> int:
        return len(self.tensors) - 1

    def shape(self, index: int) -> tuple[int, ...]:
        return self.tensors[index]["shape"]

    def tensor(
        self, shape: Sequence[int], dtype: Any = np.int8, scale: Any = None, zero: Any = 0, data: Any = None,
        axis: int = 0, name: str | None = None,
    ) -> int:  # fmt: skip
        """Adds a tensor of `shape` with elements of type `dtype` and returns it: a constant with the values `data`, or
        an activation if `data` is None. `scale` and `zero`: a number each, or one for each index along `axis`; `scale`
        None: the tensor is not quantized. `name`: None means "t" and the tensor's index.
        """
        self.tensors.append(
            {"name": name or f"t{len(self.tensors)}", "shape": tuple(shape), "dtype": np.dtype(dtype),
             "scale": None if scale is None else np.atleast_1d(np.float32(scale)),
             "zero": np.atleast_1d(np.int64(zero)), "data": data, "axis": axis}
        )  # fmt: skip
        return self.last

    def input(self, shape: Sequence[int], dtype: Any = np.int8, scale: float = 0.02, zero: int = 3) -> int:
        """Adds an input of the model and returns it. Inputs of type int8, uint8 or int16 are quantized with `scale` and
        the zero point `zero` (for int16 always 0); others are not quantized.
        """
        quantized = np.dtype(dtype) in (np.dtype(np.int8), np.dtype(np.uint8), np.dtype(np.int16))
        zero = 0 if dtype == np.int16 else zero
        index = self.tensor(shape, dtype, scale if quantized else None, zero)
        self.inputs.append(index)
        return index

    def constant(self, array: Any, scale: Any = None, zero: Any = 0, axis: int = 0) -> int:
        array = np.asarray(array)
        return self.tensor(array.shape, array.dtype, scale, zero, array, axis)

    def like(
        self, index: int, shape: Sequence[int], scale: Any = None, zero: Any = None, dtype: Any = None
    ) -> int:
        """Adds an activation of `shape` and returns it. By default, the element type `dtype`, the scale and the zero
        point are those of tensor `index`. If tensor `index` is not quantized, the new activation is not quantized
        either, even with a `scale`. If tensor `index` is int16, the zero point is always 0.
        """
        source = self.tensors[index]
        if scale is None or source["scale"] is None:
            scale = source["scale"]
        if source["dtype"] == np.int16:
            zero = 0
        zero = source["zero"] if zero is None else zero
        return self.tensor(shape, dtype or source["dtype"], scale, zero)

    def add(
        self, kind: str, inputs: Sequence[int], outputs: Sequence[int] | int, options: str = "", **fields
    ) -> int:
        """Adds the operator `kind`, such as "CONV_2D", from tensors `inputs` to `outputs` (one or several), and returns
        its first output. `options`: name of the schema's class for its options, without the ending `Options`;
        `fields`: values of the options.
        """
        outputs = [outputs] if isinstance(outputs, int) else outputs
        self.operators.append((kind, inputs, outputs, options, fields))
        return outputs[0]

    def weights(self, shape: tuple[int, ...], axis: int | None, *, dtype: Any = np.int8) -> int:
        """Adds a constant tensor of random weights of `shape`; returns the tensor's index. With a float `dtype`, the
        weights are float and not quantized. With uint8, they are uint8 with a single scale. Otherwise they are int8,
        with a scale for each index along `axis` (None: a single scale).
        """
        if np.dtype(dtype).kind == "f":
            return self.constant(self.rng.normal(0, 0.3, shape).astype(dtype))
        if dtype == np.uint8:
            return self.constant(self.rng.integers(0, 256, shape, dtype=np.uint8), 0.004, 128)
        integers = self.rng.integers(-127, 128, shape).astype(np.int8)
        count = 1 if axis is None else shape[axis]
        scale = (0.002 + 0.006 * self.rng.random(count)).astype(np.float32)
        return self.constant(integers, scale, np.zeros(count), axis or 0)

    def bias(self, data: int, weights: int, count: int) -> int:
        """Adds a constant tensor: a random bias of `count` elements for the product of tensors `data` and `weights`.
        Returns its index. The bias is float if `data` is not quantized, else integers (int64 for int16 data, otherwise
        int32) whose scale is the product of both tensors' scales.
        """
        source = self.tensors[data]
        if source["scale"] is None:
            return self.constant(self.rng.normal(0, 0.1, count).astype(np.float32))
        step = np.float32(source["scale"]) * self.tensors[weights]["scale"]
        kind = np.int64 if source["dtype"] == np.int16 else np.int32
        return self.constant(self.rng.integers(-3000, 3000, count).astype(kind), step, np.zeros(len(step)))

    def content(self) -> bytes:
        """The bytes of the TFLite file."""
        return _Builder(self).file()


class _Builder:
    def __init__(self, model: Written) -> None:
        self.model, self.b = model, flatbuffers.Builder(4096)

    def numbers(self, values: Any, dtype: Any = np.int32) -> int:
        return self.b.CreateNumpyVector(np.ascontiguousarray(np.asarray(values, dtype).reshape(-1)))

    def tables(self, start: Any, offsets: Sequence[int]) -> int:
        start(self.b, len(offsets))
        for offset in reversed(offsets):
            self.b.PrependUOffsetTRelative(offset)
        return self.b.EndVector()

    def table(self, kind: str, **fields: Any) -> int:
        """Writes a flatbuffer table of the schema's class `kind` and returns its offset; a field is named as in the
        schema's functions `KINDAddFIELD`.
        """
        getattr(tflite, f"{kind}Start")(self.b)
        for name, value in fields.items():
            if value is not None:
                getattr(tflite, f"{kind}Add{name}")(self.b, value)
        return getattr(tflite, f"{kind}End")(self.b)

    def file(self) -> bytes:
        b, model = self.b, self.model
        buffers, tensors = [self.table("Buffer")], []
        for tensor in model.tensors:
            number = 0
            if tensor["data"] is not None:
                data = self.b.CreateNumpyVector(np.frombuffer(tensor["data"].tobytes(), np.uint8))
                number = len(buffers)
                buffers.append(self.table("Buffer", Data=data))
            grid = None
            if tensor["scale"] is not None:
                scale, zero = (
                    self.numbers(tensor["scale"], np.float32),
                    self.numbers(tensor["zero"], np.int64),
                )
                grid = self.table(
                    "QuantizationParameters", Scale=scale, ZeroPoint=zero, QuantizedDimension=tensor["axis"]
                )
            name, shape = b.CreateString(tensor["name"]), self.numbers(tensor["shape"])
            kind = TYPES[tensor["dtype"]]
            tensors.append(
                self.table("Tensor", Name=name, Shape=shape, Type=kind, Buffer=number, Quantization=grid)
            )
        codes = list(dict.fromkeys(kind for kind, *_ in model.operators))
        operators = [self.operator(codes, operator) for operator in model.operators]
        tensor_vector = self.tables(tflite.SubGraphStartTensorsVector, tensors)
        operator_vector = self.tables(tflite.SubGraphStartOperatorsVector, operators)
        inputs, outputs = self.numbers(model.inputs), self.numbers(model.outputs)
        graph = self.table(
            "SubGraph", Tensors=tensor_vector, Inputs=inputs, Outputs=outputs, Operators=operator_vector
        )
        code_vector = self.tables(tflite.ModelStartOperatorCodesVector, [self.code(kind) for kind in codes])
        graphs = self.tables(tflite.ModelStartSubgraphsVector, [graph])
        buffer_vector = self.tables(tflite.ModelStartBuffersVector, buffers)
        b.Finish(
            self.table(
                "Model", Version=3, OperatorCodes=code_vector, Subgraphs=graphs, Buffers=buffer_vector
            ),
            file_identifier=b"TFL3",
        )
        return bytes(b.Output())

    def code(self, kind: str) -> int:
        custom = self.b.CreateString(self.model.custom) if kind == "CUSTOM" else None
        number = getattr(tflite.BuiltinOperator, kind)
        return self.table(
            "OperatorCode",
            DeprecatedBuiltinCode=min(number, 127), BuiltinCode=number, Version=VERSIONS.get(kind, 1),
            CustomCode=custom,
        )  # fmt: skip

    def operator(self, codes: Sequence[str], operator: WrittenOperator) -> int:
        kind, inputs, outputs, options, fields = operator
        own, number = None, 0
        if options:
            vectors = {
                name: self.numbers(value) if isinstance(value, list | tuple) else value
                for name, value in fields.items()
            }
            own = self.table(f"{options}Options", **vectors)
            number = getattr(tflite.BuiltinOptions, f"{options}Options")
        ins, outs = self.numbers(inputs), self.numbers(outputs)
        return self.table(
            "Operator",
            OpcodeIndex=codes.index(kind), Inputs=ins, Outputs=outs, BuiltinOptionsType=number, BuiltinOptions=own,
        )  # fmt: skip


VERSIONS = {
    "CONV_2D": 5, "DEPTHWISE_CONV_2D": 6, "FULLY_CONNECTED": 6, "ADD": 2, "MUL": 2, "SUB": 2, "AVERAGE_POOL_2D": 2,
    "MAX_POOL_2D": 2, "CONCATENATION": 2, "SOFTMAX": 2, "LOGISTIC": 2, "TANH": 2, "MEAN": 2, "PAD": 2, "PADV2": 2,
    "QUANTIZE": 2, "DEQUANTIZE": 2, "STRIDED_SLICE": 2, "SLICE": 2, "TRANSPOSE_CONV": 3, "LEAKY_RELU": 2,
    "RESIZE_BILINEAR": 3, "RESIZE_NEAREST_NEIGHBOR": 3, "SPLIT": 2, "TRANSPOSE": 2, "GATHER": 2, "RELU6": 2, "RELU": 2,
    "MAXIMUM": 2, "MINIMUM": 2, "PACK": 2, "UNPACK": 2, "ARG_MAX": 2, "SUM": 2, "REDUCE_MAX": 2, "REDUCE_MIN": 2,
    "LOG_SOFTMAX": 2, "L2_NORMALIZATION": 2, "SPACE_TO_BATCH_ND": 2, "BATCH_TO_SPACE_ND": 2, "DEPTH_TO_SPACE": 2,
    "SPACE_TO_DEPTH": 2, "BATCH_MATMUL": 2, "SQUARED_DIFFERENCE": 2, "MIRROR_PAD": 2, "EQUAL": 2, "GREATER": 2,
    "TILE": 2, "ARG_MIN": 2, "BROADCAST_TO": 2,
}  # fmt: skip
"""Version of each operator in the file: a version that supports int8. Operators not listed have version 1."""


def litert(
    content: bytes, inputs: Sequence[np.ndarray], *, reference: bool = False, delegates: bool = True
) -> list[np.ndarray]:
    """LiteRT's outputs for the TFLite file `content` and its `inputs`, both in the model's order. LiteRT computes with
    one thread, by its default kernels or its `reference` kernels. Without `delegates` the default kernels do not
    include XNNPACK's, which rely on the shapes that the file declares. Raises LiteRT's own error if LiteRT refuses the
    file.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    plain = OpResolverType.AUTO if delegates else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    kind = OpResolverType.BUILTIN_REF if reference else plain
    interpreter = Interpreter(model_content=content, experimental_op_resolver_type=kind, num_threads=1)
    interpreter.allocate_tensors()
    for entry, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(entry["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(entry["index"]).copy() for entry in interpreter.get_output_details()]


def samples(model: Written, seed: int = 1) -> list[np.ndarray]:
    """A random array for each input of `model`, the same for equal seeds: integers of the whole range for quantized
    inputs, normally distributed floats, random booleans, and 0 to 3 for integers without a scale (they may be indices).
    """
    rng, arrays = np.random.default_rng(seed), []
    for index in model.inputs:
        tensor = model.tensors[index]
        dtype, shape = tensor["dtype"], tensor["shape"]
        if dtype.kind == "f":
            arrays.append(rng.normal(0, 1, shape).astype(dtype))
        elif dtype == np.bool_:
            arrays.append(rng.random(shape) < 0.5)
        elif tensor["scale"] is None:
            arrays.append(rng.integers(0, 4, shape).astype(dtype))
        else:
            ends = np.iinfo(dtype)
            arrays.append(rng.integers(ends.min, ends.max + 1, shape).astype(dtype))
    return arrays
