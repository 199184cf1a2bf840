"""Functions of one tensor on accelerators with look-up tables: a copy whose store applies a table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from float_networks import runtime

from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.abilities import ACCELERATOR
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.host import store_inputs
from vdla.compiler.graph.int8_operators import Table
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.pipeline import compile_program
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.runtime.accelerator import run
from vdla.isa.check import check
from vdla.isa.config import Config, Memory, load_config
from vdla.isa.decoding import decode_one, format_names
from vdla.isa.fields import unpack_fields
from vdla.isa.registers import register
from vdla.util.errors import UserError

from ..random_networks import builder
from ..right_programs import assert_right
from ..test_cpu_partly_quantized import gated

VTA, TINY = load_config("vta"), load_config("tiny")
MACHINES = {
    "tiny, one table": replace(TINY, extensions=(*TINY.extensions, "table"), tables=1),
    "batch 2, bus of 512 bits": replace(VTA, batch=2, memory=Memory(bus_bytes=64), post_lanes=8),
    "8x32, chained": replace(
        VTA,
        block_in=8,
        block_out=32,
        inp_buffer_bytes=8192,
        extensions=("post", "patch", "table"),
        chain_buffer_bytes=8192,
    ),
    "16x4": replace(VTA, block_out=4, acc_buffer_bytes=16384, extensions=("post", "table")),
}


def network() -> Graph:
    """A graph with look-up tables after convolutions of every kind and after a pool, and with an output that another
    node reads as well.
    """
    b = builder(3)
    first, second = (b.random.integers(-128, 128, 256).astype(np.int8) for _ in range(2))

    def looked_up(data: str, table: np.ndarray) -> str:
        return b._append("table", Table(table=table), (data,), b.tensors[data].shape, 0)

    x = looked_up(b.convolution(b.input(2, 3, 9, 8), 20, (3, 3)), first)
    x = looked_up(b.convolution(x, 20, (3, 3), groups=20), second)
    x = b.convolution(looked_up(b.max_pool(x, (2, 2), (2, 2)), first), 9, (1, 1))
    return b.graph(looked_up(x, second), x)


@pytest.mark.parametrize("config", MACHINES.values(), ids=MACHINES)
def test_every_table_is_looked_up(config: Config):
    result = compile_program(fuse(network()), config, virtual_threads=2, verify=True)
    # Those that alone read a convolution are in its store.
    assert [node.kind for node in result.graph.nodes].count("Table") == 2
    names = format_names(result.program.instructions)
    # One a layer: where a grouped convolution is several kernels, those behind the first find it loaded.
    assert names.count("LOAD.TABLE") == 4
    assert_right(result)


GATES = {
    name: replace(config, extensions=tuple(dict.fromkeys((*config.extensions, "broadcast"))))
    for name, config in MACHINES.items()
    if name != "16x4"
}


@pytest.mark.parametrize("config", GATES.values(), ids=GATES)
def test_a_gate_of_one_value_a_channel(config: Config):
    """x * sigmoid(x) becomes one look-up table; squeeze-and-excitation becomes a pool, a look-up table, and a store
    that multiplies all positions of a channel by one operand.
    """
    net = gated()
    result = compile_program(net.model(), config, verify=True)
    kinds = [node.kind for node in result.graph.nodes]
    assert kinds == ["Convolution", "AveragePool", "Table", "Elementwise"]
    program = result.program
    assert check(config, program.instructions, program.image) == []
    x = net.rng.standard_normal(net.input_shape, dtype=np.float32)
    found, (output,) = run(result, {"x": x}), result.graph.outputs
    expected = interpret(result.graph, store_inputs(result.graph, {"x": x}))[output.tensor]
    np.testing.assert_array_equal(found.integer_outputs[output.name], expected)
    reference = runtime(net.model(), {"x": x})[net.last]
    assert np.abs(found.outputs[output.name] - reference).max() < 1.01 * 0.02
    words = result.program.instructions
    operand = [
        unpack_fields(register("OPERAND").fields, values["value"])
        for name, values in (decode_one(config, *row) for row in words.tolist())
        if name == "CONFIG" and (values["unit"], values["register"]) == (2, register("OPERAND").index)
    ]
    assert any(fields["repeat"] for fields in operand)


@pytest.mark.parametrize("missing", ["table", "broadcast"])
def test_machines_without_the_extensions_refuse_a_gate(missing: str):
    extensions = tuple(name for name in GATES["tiny, one table"].extensions if name != missing)
    config = replace(TINY, extensions=extensions)
    with pytest.raises(ModelError, match=f"needs the extension '{missing}'.*add it to `extensions`"):
        compile_program(gated().model(), config)
    # A study reads a network once for all its machines.
    with pytest.raises(UserError, match=f"needs the extension '{missing}'"):
        compile_program(fuse(import_model(gated().model(), abilities=ACCELERATOR)), config)
