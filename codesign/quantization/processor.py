"""Costs of layers that stay float: predicted for the processor beside the accelerator, or measured on this computer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, prod
from typing import Literal

import onnx

from vdla.compiler.frontends.onnx.attributes import read_node
from vdla.util.errors import UserError

FLOAT_BYTES, INT8_BYTES = 4, 1
Shapes = Callable[[str], tuple[int, ...]]
"""Function that returns the shape of a tensor by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """A processor by the rates that layers on it are assumed to reach: `gigaflops` of float32, `gigabytes` a second of
    its memory, `watts` while it works. `source` is a text on the origin of these numbers.

    With `measured`, times are measured on this computer instead, on one thread; the power is still assumed.
    """

    name: str
    gigaflops: float
    gigabytes: float
    watts: float
    source: str
    measured: bool = False

    @property
    def rung(self) -> Literal["measured on this machine", "assumed: stated processor"]:
        """The source of the processor's times: measured on this computer, or computed from assumed rates."""
        return "measured on this machine" if self.measured else "assumed: stated processor"

    def seconds(self, operations: float, moved: float) -> float:
        """Seconds for `operations` float operations and `moved` bytes of memory traffic: the larger of computing time
        and transfer time.
        """
        return max(operations / self.gigaflops, moved / self.gigabytes) / 1e9

    def microjoules(self, seconds: float) -> float:
        """Energy of work that takes `seconds`, in microjoules."""
        return self.watts * seconds * 1e6


CORTEX_A9 = Processor(
    name="cortex-a9",
    gigaflops=1.3,
    gigabytes=1.05,
    watts=0.3,
    source="one Cortex-A9 of a Zynq-7000 at 650 MHz: half of its peaks, two float32 multiply-adds a cycle and "
    "2.1 GB/s of 16-bit DDR3-1050; ARM's announcement of 2009 has a core at 1 GHz below 0.3 W in 40 nm",
)
MEASURED = Processor(
    name="measured",
    gigaflops=CORTEX_A9.gigaflops,
    gigabytes=CORTEX_A9.gigabytes,
    watts=10.0,
    source="median of 5 runs of our own kernels on one thread of this machine; 10 W a core is an assumption",
    measured=True,
)
PROCESSORS = {processor.name: processor for processor in (CORTEX_A9, MEASURED)}


def parse_processor(text: str) -> Processor:
    """A processor by name, or "GFLOPS,GB/S,WATTS" as in "2.6,2.1,0.5". Raises UserError."""
    if text in PROCESSORS:
        return PROCESSORS[text]
    try:
        gigaflops, gigabytes, watts = (float(part) for part in text.split(","))
    except ValueError:
        raise UserError(
            f'no processor is called "{text}"; there are {", ".join(PROCESSORS)}, or write GFLOPS,GB/S,WATTS '
            "as in 2.6,2.1,0.5"
        ) from None
    if not all(0 < value < inf for value in (gigaflops, gigabytes, watts)):
        raise UserError(
            f'processor "{text}": its speed in GFLOPS, its memory bandwidth in GB/s and its power in watts must each '
            "be a finite number above 0"
        )
    return Processor(name=text, gigaflops=gigaflops, gigabytes=gigabytes, watts=watts, source="as given")


def node_seconds(processor: Processor, node: onnx.NodeProto, shape: Shapes) -> float:
    """Seconds that a float node takes on the modelled processor.

    It is the larger of the time for its operations and the time to move its operands and results once; for
    QuantizeLinear and DequantizeLinear it is the time of the conversion (`border_seconds`).
    """
    results = [prod(shape(name)) for name in node.output if name]
    read = [prod(shape(name)) for name in node.input if name]
    if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        return border_seconds(processor, results[0])
    return processor.seconds(operations(node, shape), FLOAT_BYTES * (sum(results) + sum(read)))


def border_seconds(processor: Processor, elements: int) -> float:
    """Seconds to convert `elements` elements between int8 and float32. Each element takes one operation, and the int8
    and the float32 array are each read or written once; the slower of computation and memory traffic counts.
    """
    return processor.seconds(elements, (FLOAT_BYTES + INT8_BYTES) * elements)


def operations(node: onnx.NodeProto, shape: Shapes) -> float:
    """Float operations of a node: two for each multiply-add of a product, one for each element of each window of a
    pool. For any other operator, one for each element of its first operand or first result, whichever is larger.
    """
    written, read = prod(shape(node.output[0])), prod(shape(node.input[0]))
    match node.op_type:
        case "Conv":
            return 2.0 * written * prod(shape(node.input[1])[1:])
        case "ConvTranspose":
            return 2.0 * read * prod(shape(node.input[1])[1:])
        case "Gemm" | "MatMul":
            transposed = node.op_type == "Gemm" and read_node(node, 0).integer("transA", 0)
            return 2.0 * written * shape(node.input[0])[0 if transposed else -1]
        case "AveragePool" | "MaxPool":
            return float(written * prod(read_node(node, 0).integers("kernel_shape", ())))
        case _:
            return float(max(written, read))
