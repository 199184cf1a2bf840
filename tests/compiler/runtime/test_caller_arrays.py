"""Inputs and outputs of networks in arrays of the caller: arrays that are used in place, arrays that are copied, and
release of the memory.
"""

from __future__ import annotations

import numpy as np
from float_networks import FloatNetwork, runtime

from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.graph.graph import Graph, Tensor, plain_input, plain_output
from vdla.compiler.graph.storage_plan import StoragePlan
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.runtime.network_inputs import (
    Access,
    OutputArrays,
    address_of,
    direct_inputs,
    direct_outputs,
)

FLOAT = np.dtype(np.float32)


def planned(offsets: dict[str, int], inputs: tuple[str, ...], outputs: tuple[str, ...]):
    """A graph without nodes and its storage plan. `offsets`: the byte offset of each tensor, which has 16 float32
    elements. `inputs`, `outputs`: names of the tensors that are inputs and outputs of the graph.
    """
    tensors = {name: Tensor(name=name, shape=(16,)) for name in {*offsets, *outputs}}
    graph = Graph(
        name="net",
        inputs=tuple([plain_input(tensors[name]) for name in inputs]),
        outputs=tuple([plain_output(f"out{i}", tensors[name]) for i, name in enumerate(outputs)]),
        nodes=(),
        tensors={name: tensors[name] for name in offsets},
        constants={},
    )
    return graph, StoragePlan(offsets=offsets, bytes=1024, bytes_without_reuse=1024)


def access(reads: str, writes: str) -> Access:
    return Access(reads=frozenset(reads.split()), writes=frozenset(writes.split()))


def test_ends_that_are_accessed_by_name_are_direct() -> None:
    # c takes the place of x, when x is not needed any more.
    graph, plan = planned({"x": 0, "a": 64, "c": 0}, ("x",), ("c",))
    steps = [access("x", "a"), access("a", "c")]
    assert direct_inputs(graph, plan, steps) == {"x"}
    assert direct_outputs(graph, plan, steps) == {"c"}


def test_views_of_ends_are_copied() -> None:
    graph, plan = planned({"x": 0, "view": 0, "y": 64}, ("x",), ("y",))
    assert direct_inputs(graph, plan, [access("view", "y")]) == frozenset()
    graph, plan = planned({"x": 0, "y": 64, "view": 64, "z": 128}, ("x",), ("y", "z"))
    assert direct_outputs(graph, plan, [access("x", "y"), access("view", "z")]) == {"z"}
    # The output is the view, of what a kernel writes.
    graph, plan = planned({"x": 0, "y": 64, "view": 64}, ("x",), ("view",))
    assert direct_outputs(graph, plan, [access("x", "y")]) == frozenset()


def test_inputs_that_are_outputs_and_outputs_that_are_two_are_copied() -> None:
    graph, plan = planned({"x": 0, "y": 64}, ("x",), ("x", "y", "y"))
    assert direct_inputs(graph, plan, [access("x", "y")]) == frozenset()
    assert direct_outputs(graph, plan, [access("x", "y")]) == frozenset()
    # A view of an input, as an output.
    graph, plan = planned({"x": 0, "view": 0}, ("x",), ("view",))
    assert direct_inputs(graph, plan, []) == frozenset()


def test_memory_comes_back_when_nobody_holds_it() -> None:
    outputs = OutputArrays({"y": ((3, 5), FLOAT)})

    def taken() -> np.ndarray:
        ((name, array, address),) = outputs.take()
        assert name == "y" and address == address_of(array)
        return array

    first = taken()
    place = address_of(first)
    assert place % 64 == 0 and first.shape == (3, 5) and first.dtype == FLOAT and first.flags.writeable
    part = first[1:, ::2].T
    del first
    second = taken()
    assert not np.shares_memory(second, part)
    part[:] = 1
    place = address_of(second)
    del second
    again = taken()
    assert address_of(again) == place
    assert not np.shares_memory(taken(), again)


def test_views_at_both_ends_of_a_network() -> None:
    net = FloatNetwork(2, 3, 4)
    net.add("Relu")
    net.add("Flatten", axis=1)
    net.shape = (2, 12)
    model = net.model()
    x = np.random.default_rng(0).standard_normal((2, 3, 4), dtype=np.float32)
    with compile_kernels(model, cpu_now()) as network:
        for _ in range(3):
            (name, got), *_ = network.run({"x": x}).items()
            np.testing.assert_array_equal(got, runtime(model, {"x": x})[name])
            # What a caller does to an input or output concerns no other run.
            x += 1
            got[:] = np.nan
