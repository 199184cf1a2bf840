"""The arena planner: live buffers never overlap, and equal input gives equal output."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.memory_plan import Buffer, lifetimes, plan_memory


@st.composite
def buffers(draw):
    result = []
    for index in range(draw(st.integers(0, 25))):
        first = draw(st.integers(-1, 12))
        last = first + draw(st.integers(0, 6))
        result.append(Buffer(name=f"b{index}", size=draw(st.integers(0, 300)), first=first, last=last))
    return result


@given(buffers(), st.sampled_from([1, 8, 16, 64]), st.integers(0, 99))
def test_live_buffers_never_overlap(given_buffers, alignment, seed):
    plan = plan_memory(given_buffers, alignment=alignment)
    assert plan.offsets.keys() == {buffer.name for buffer in given_buffers}
    for buffer in given_buffers:
        offset = plan.offsets[buffer.name]
        assert offset >= 0 and offset % alignment == 0 and offset + buffer.size <= plan.size
        for other in given_buffers:
            alive = buffer.first <= other.last and other.first <= buffer.last
            if other is not buffer and alive and buffer.size and other.size:
                start = plan.offsets[other.name]
                assert offset + buffer.size <= start or start + other.size <= offset
    shuffled = list(given_buffers)
    random.Random(seed).shuffle(shuffled)
    assert plan_memory(shuffled, alignment=alignment) == plan


@given(buffers())
def test_arena_holds_the_busiest_step_and_no_more_than_all(given_buffers):
    plan = plan_memory(given_buffers)
    busiest = max(
        (sum(b.size for b in given_buffers if b.first <= step <= b.last) for step in range(-1, 19)), default=0
    )
    assert busiest <= plan.size <= sum(buffer.size for buffer in given_buffers)


def test_chain_reuses_two_places():
    chain = [Buffer(name=f"t{step}", size=100, first=step, last=step + 1) for step in range(10)]
    assert plan_memory(chain).size == 200


def test_best_fit_takes_the_smaller_gap():
    plan = plan_memory(
        [
            Buffer(name="a", size=100, first=0, last=1),
            Buffer(name="b", size=90, first=0, last=9),
            Buffer(name="c", size=50, first=0, last=1),
            Buffer(name="d", size=40, first=0, last=9),
            Buffer(name="e", size=30, first=2, last=9),
        ]
    )
    assert plan.offsets["e"] == plan.offsets["c"]


@pytest.mark.parametrize(
    ("given_buffers", "alignment"),
    [
        ([Buffer(name="a", size=1, first=0, last=0)] * 2, 1),
        ([Buffer(name="a", size=-1, first=0, last=0)], 1),
        ([Buffer(name="a", size=1, first=1, last=0)], 1),
        ([], 0),
    ],
)
def test_impossible_requests_are_refused(given_buffers, alignment):
    with pytest.raises(ValueError):
        plan_memory(given_buffers, alignment=alignment)


def test_lifetimes_of_a_residual_network(builder, quantized):
    b = builder(1, 4, 6, 6)
    b.conv("x", "c1", 4, 4, 3, 3, pads=[1, 1, 1, 1])
    b.conv("c1", "c2", 4, 4, 3, 3, pads=[1, 1, 1, 1])
    b.node("Add", ["c2", "c1"], "y")
    graph = import_model(quantized(b.model("y"), "qdq-u8-channel"))
    lives = lifetimes(graph)
    x, y = graph.inputs[0].tensor, graph.outputs[0].tensor
    c1, c2, _ = (node.output for node in graph.nodes)
    assert (lives[x], lives[c1], lives[c2], lives[y]) == ((-1, 0), (0, 2), (1, 2), (2, 3))
