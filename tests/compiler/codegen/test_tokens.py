"""Insertion of dependence tokens: the tokens order all conflicting instructions, none is superfluous, and token queues
do not overflow.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.codegen.vdla.machine import Batch, Span
from vdla.compiler.codegen.vdla.tokens import flags, order, touches
from vdla.isa.layout import FLAG_BITS, TOKEN_QUEUES, TokenQueue, Unit, unit_of

SIZES = {"inp": 8, "wgt": 4, "acc": 8, "par": 2, "dram": 8}


@dataclass(frozen=True)
class Operation:
    """One instruction, with the ranges (memory space, low, high) that it reads and writes."""

    name: str
    reads: tuple[tuple[str, int, int], ...]
    writes: tuple[tuple[str, int, int], ...]

    @property
    def unit(self) -> Unit:
        return unit_of(self.name, {})


@dataclass(frozen=True)
class Edge:
    queue: TokenQueue
    source: int
    target: int


def load(low, high, reads=()):
    return Operation("LOAD.INP", tuple(reads), (("inp", low, high),))


def gemm(inp, acc):
    return Operation("GEMM", (("inp", *inp),), (("acc", *acc),))


def store(acc, dram):
    return Operation("STORE.POST", (("acc", *acc),), (("dram", *dram),))


def batches(operations: list[Operation]) -> list[Batch]:
    """One batch for each operation, in reversed order, since the order of batches must not matter."""
    return [
        Batch(
            name=operation.name,
            numbers=np.array([number]),
            fields={},
            reads=tuple(Span(*span) for span in operation.reads),
            writes=tuple(Span(*span) for span in operation.writes),
        )
        for number, operation in reversed(list(enumerate(operations)))
    ]


def ordered(operations: list[Operation], token_queue_depth: int = 8) -> list[Edge]:
    touched = touches(batches(operations), len(operations), SIZES)
    edges = order(touched, token_queue_depth=token_queue_depth)
    rows = zip(edges.queue.tolist(), edges.source.tolist(), edges.target.tolist(), strict=True)
    return [Edge(TOKEN_QUEUES[queue], source, target) for queue, source, target in rows]


def pairs(edges: list[Edge]) -> list[tuple[str, int, int]]:
    return [(edge.queue.name, edge.source, edge.target) for edge in edges]


def test_load_compute_store_chain():
    edges = ordered([load(0, 2), gemm((0, 2), (0, 1)), store((0, 1), (0, 1))])
    assert pairs(edges) == [("load->compute", 0, 1), ("compute->store", 1, 2)]


def test_double_buffering_waits_only_for_the_reused_copy():
    operations = []
    for i in range(4):
        half = 4 * (i % 2)
        operations += [load(half, half + 4), gemm((half, half + 4), (i, i + 1))]
    edges = pairs(ordered(operations))
    assert ("compute->load", 1, 4) in edges
    assert ("compute->load", 3, 6) in edges
    assert ("compute->load", 1, 2) not in edges


def test_a_layer_waits_for_the_store_of_the_layer_before():
    operations = [
        load(0, 1),
        gemm((0, 1), (0, 1)),
        store((0, 1), (3, 4)),
        load(4, 5, reads=[("dram", 0, 2)]),
        load(5, 6, reads=[("dram", 3, 4)]),
    ]
    assert ("store->load", 2, 4) in pairs(ordered(operations))
    assert not any(target == 3 for _, _, target in pairs(ordered(operations)))


def test_an_order_that_follows_from_others_takes_no_token():
    operations = [load(0, 1), gemm((0, 1), (0, 1)), store((0, 1), (0, 1)), load(0, 1, reads=[("dram", 0, 1)])]
    edges = pairs(ordered(operations))
    # The load's write-after-read on the input follows from the store it waits for.
    assert edges == [("load->compute", 0, 1), ("compute->store", 1, 2), ("store->load", 2, 3)]


spans = st.tuples(st.sampled_from(["inp", "acc", "dram"]), st.integers(0, 7), st.integers(1, 3)).map(
    lambda item: (item[0], item[1], min(8, item[1] + item[2]))
)
operations_strategy = st.lists(
    st.builds(
        lambda name, reads, writes: Operation(name, tuple(reads), tuple(writes)),
        st.sampled_from(["LOAD.INP", "GEMM", "STORE.POST"]),
        st.lists(spans, max_size=2),
        st.lists(spans, max_size=2),
    ),
    max_size=14,
)


def happens_before(operations, edges) -> np.ndarray:
    count = len(operations)
    before = np.zeros((count, count), dtype=bool)
    for edge in edges:
        before[edge.source, edge.target] = True
    for unit in Unit:
        mine = [i for i, operation in enumerate(operations) if operation.unit == unit]
        for a, b in pairwise(mine):
            before[a, b] = True
    for middle in range(count):
        before |= np.outer(before[:, middle], before[middle])
    return before


def conflicting(a: Operation, b: Operation) -> bool:
    def meet(first, second):
        return any(x[0] == y[0] and x[1] < y[2] and y[1] < x[2] for x in first for y in second)

    return meet(a.writes, b.reads) or meet(a.reads, b.writes) or meet(a.writes, b.writes)


@settings(max_examples=examples(200), deadline=None)
@given(operations_strategy, st.sampled_from([1, 2, 64]))
def test_every_conflict_is_ordered_and_queues_hold(operations, depth):
    edges = ordered(operations, depth)
    before = happens_before(operations, edges)
    for j, later in enumerate(operations):
        for i in range(j):
            if operations[i].unit != later.unit and conflicting(operations[i], later):
                assert before[i, j], (i, j)
    for name in {edge.queue.name for edge in edges}:
        mine = [edge for edge in edges if edge.queue.name == name]
        assert [edge.source for edge in mine] == sorted({edge.source for edge in mine})
        assert [edge.target for edge in mine] == sorted({edge.target for edge in mine})
        for edge in mine:
            held = sum(other.source <= edge.source < other.target for other in mine)
            assert held <= depth
    touched = touches(batches(operations), len(operations), SIZES)
    bits = flags(order(touched, token_queue_depth=depth), len(operations)).tolist()
    expected = [0] * len(operations)
    for edge in edges:
        expected[edge.source] |= 1 << FLAG_BITS[edge.queue.push_flag]
        expected[edge.target] |= 1 << FLAG_BITS[edge.queue.pop_flag]
    assert bits == expected
    assert sum(bit.bit_count() for bit in bits) == 2 * len(edges)


@settings(max_examples=examples(100), deadline=None)
@given(operations_strategy)
def test_no_edge_is_superfluous(operations):
    edges = ordered(operations, 64)
    for dropped in edges:
        rest = [edge for edge in edges if edge is not dropped]
        assert not happens_before(operations, rest)[dropped.source, dropped.target]
