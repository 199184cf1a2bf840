"""Features of programs are exact counts: compared with an enumeration of every iteration, the interpreter and the
simulator.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from stages import graph, ir_programs

from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.codegen.vdla.columns import evaluate
from vdla.compiler.ir.expr import Const, Load, Var
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import (
    Alloc,
    Assign,
    Commit,
    Copy,
    For,
    Intrinsic,
    Program,
    Reduce,
    Seq,
    Wait,
)
from vdla.compiler.ir.visit import expressions, walk, walk_expr
from vdla.compiler.pipeline import compile_program
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.runtime.accelerator import run
from vdla.compiler.runtime.artifact import Compiled
from vdla.compiler.schedule import Schedule
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.te.ops.softmax import softmax
from vdla.compiler.templates.cpu.sketch.schedule import sketch_schedule
from vdla.compiler.templates.cpu.sketch.sketch import find_sketches
from vdla.compiler.tune.program_features.leaves import accesses, count
from vdla.compiler.tune.program_features.machine import (
    KINDS,
    MACHINE_FEATURES,
    TRAFFIC,
    count_machine,
    machine_features,
)
from vdla.compiler.tune.program_features.program import FEATURES, program_features
from vdla.isa import decoding, layout
from vdla.isa.config import load_config
from vdla.isa.layout import TOKEN_QUEUES
from vdla.isa.opcodes import Unit

from ..random_networks import network


class Walk:
    """Counts by enumerating every iteration of a program: executions of statements, and the elements that
    they touch.
    """

    def __init__(self, program: Program) -> None:
        self.executions: dict[int, int] = {}
        self.entries: dict[int, int] = {}
        self.moved: dict[int, int] = {}
        self.others: dict[type, int] = {Commit: 0, Wait: 0}
        self.touched: dict[tuple[int, str, tuple, int], set] = {}
        self.around: list[tuple[For, int]] = []
        self.environment: dict[str, int] = {}
        self.visit(program.body)

    def visit(self, node) -> None:
        match node:
            case For(var=var, extent=extent, body=body):
                for value in range(evaluate(extent, self.environment)):
                    self.entries[id(node)] = self.entries.get(id(node), 0) + 1
                    self.environment[var.name] = value
                    self.around.append((node, value))
                    self.visit(body)
                    self.around.pop()
            case Seq(statements=statements):
                for statement in statements:
                    self.visit(statement)
            case Alloc(body=body):
                self.visit(body)
            case Commit() | Wait():
                self.others[type(node)] += 1
            case _:
                self.leaf(node)

    def leaf(self, node) -> None:
        self.executions[id(node)] = self.executions.get(id(node), 0) + 1
        if isinstance(node, Copy):
            size = np.prod([evaluate(e, self.environment) for e in node.destination.extents])
            self.moved[id(node)] = self.moved.get(id(node), 0) + int(size)
        if not isinstance(node, Assign | Reduce):
            return
        places = {(node.buffer.name, node.indices, True)}
        for top in expressions(node):
            places |= {(e.buffer.name, e.indices, False) for e in walk_expr(top) if isinstance(e, Load)}
        for name, indices, write in places:
            element = tuple(evaluate(i, self.environment) for i in indices)
            for k in range(len(self.around) + 1):
                # Each loop's first time, when all loops around it are at 0.
                if all(value == 0 for _, value in self.around[:k]):
                    self.touched.setdefault((id(node), name, (indices, write), k), set()).add(element)


def assert_counted(program: Program, *, touched: bool = True) -> None:
    walked, counted = Walk(program), count(program)
    leaves = [s for s in walk(program) if isinstance(s, Assign | Reduce | Copy | Intrinsic)]
    assert [id(leaf.statement) for leaf in counted.leaves] == [id(s) for s in leaves]
    assert (counted.commits, counted.waits) == (walked.others[Commit], walked.others[Wait])
    for leaf in counted.leaves:
        assert leaf.executions == walked.executions.get(id(leaf.statement), 0)
        assert leaf.copied == walked.moved.get(id(leaf.statement), 0)
        assert [level.iterations for level in leaf.levels] == [
            walked.entries.get(id(level.loop), 0) for level in leaf.levels
        ]
        if not touched or not isinstance(leaf.statement, Assign | Reduce):
            continue
        for use in accesses(leaf):
            keys = [
                key
                for key in walked.touched
                if key[0] == id(leaf.statement) and key[1] == use.buffer.name and key[2][1] == use.write
            ]
            assert len({key[2] for key in keys}) == 1
            sizes = [len(walked.touched[key]) for key in sorted(keys, key=lambda key: key[3])]
            if all(isinstance(level.loop.extent, Const) for level in leaf.levels):
                assert list(use.touched) == sizes
            else:
                # Tails of tails: what loops touch is bounded by their greatest lengths.
                assert all(bound >= size for bound, size in zip(use.touched, sizes, strict=True))
                assert use.touched[0] == sizes[0]


@settings(max_examples=examples(12), deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 6)] * 3),
    cuts=st.lists(st.tuples(st.sampled_from("ijk"), st.integers(1, 5)), max_size=4),
    data=st.data(),
)
def test_iterations_and_touched_elements(sizes, cuts, data):
    rows, depth, columns = sizes
    s = Schedule(product(Matrices(rows=rows, depth=depth, columns=columns)))
    names = {"i": ["dense.i"], "j": ["dense.j"], "k": ["dense.k"]}
    for dimension, factor in cuts:
        loop = data.draw(st.sampled_from(names[dimension]))
        at = names[dimension].index(loop)
        names[dimension][at : at + 1] = s.split(loop, factor)
    s.reorder(*names["k"], *names["i"], *names["j"])
    assert_counted(s.program)


def test_strides_gaps_and_overlaps():
    # sum over Y[2y + k] with k < 2 (dense), and X[y, 3j] (gaps).
    program = product(Matrices(rows=4, depth=2, columns=3))
    (x, w, y) = program.parameters
    i, j, k = Var("i"), Var("j"), Var("k")
    wide = replace(x, shape=(16, 16))
    for index, touched in (
        ((i * 2 + k, j * 3), (24, 6, 3, 1)),
        ((i + k, Const(1)), (5, 2, 1, 1)),
        ((i * 3 + k, j), (24, 6, 3, 1)),
    ):
        body = Assign(name="a", buffer=replace(w, shape=(16, 16)), indices=(i, j), value=Load(wide, index))
        for var, extent in ((j, 3), (k, 2), (i, 4)):
            body = For(var=var, extent=Const(extent), body=body)
        made = Program(name="p", parameters=(wide, replace(w, shape=(16, 16)), y), body=body)
        assert_counted(made)
        (use,) = [u for u in accesses(count(made).leaves[0]) if not u.write]
        assert use.touched == touched


def test_the_accelerators_programs_are_counted_exactly():
    programs = ir_programs()
    for name in ("scheduled", "split-copies", "interleave-virtual-threads"):
        assert_counted(programs[name], touched=False)


def test_calls_are_those_that_the_interpreter_makes():
    program, calls = softmax((3, 10), -1, width=4), []

    def counting(name):
        return lambda *arguments: (calls.append(name), FUNCTIONS[name](*arguments))[1]

    interpret(
        program,
        {"X": np.ones((3, 10), np.float32)},
        functions={name: counting(name) for name in FUNCTIONS},
    )
    assert sum(leaf.executions * leaf.arithmetic.calls for leaf in count(program).leaves) == len(calls) > 0


def test_arithmetic_of_an_intrinsic_is_that_of_its_loops():
    programs = ir_programs()
    sums = [
        sum(leaf.executions * leaf.arithmetic.multiplications for leaf in count(p).leaves)
        for p in (programs["expression"], programs["scheduled"])
    ]
    # 8 filters x 30 positions x 16 channels x 9 positions of the window, and requantizing outside the intrinsic.
    products = [leaf for leaf in count(programs["scheduled"]).leaves if leaf.statement.name == "conv"]
    assert sum(p.executions * p.arithmetic.multiplications for p in products) == 8 * 30 * 16 * 9
    assert sums[0] == sums[1]


def test_vectors_have_the_same_features_for_every_program():
    assert len(set(FEATURES)) == len(FEATURES)
    for program in (
        *ir_programs().values(),
        softmax((3, 10), 0),
        product(Matrices(rows=1, depth=1, columns=1)),
    ):
        values = program_features(program)
        assert values.shape == (len(FEATURES),) and values.dtype == np.float64
        assert np.isfinite(values).all() and (values >= 0).all()


def test_features_tell_schedules_apart():
    program = product(Matrices(rows=16, depth=16, columns=16))
    plain = program_features(program)
    s = Schedule(program)
    s.split("dense.j", 4)
    s.vectorize("dense.j.1")
    changed = {
        name for name, a, b in zip(FEATURES, plain, program_features(s.program), strict=True) if a != b
    }
    assert {"main.vectorize", "all.share in vectors", "main.level 1.reuse"} <= changed
    assert not any(name.startswith(("copies", "commits")) for name in changed)
    with pytest.raises(ValueError, match="no statement"):
        program_features(Program(name="none", parameters=(), body=Seq(statements=())))


def assert_moved(compiled: Compiled) -> None:
    """Asserts that the counted features equal the simulator's traffic and the instructions and token flags of the
    decoded program.
    """
    config, words = compiled.program.config, compiled.program.instructions
    counts, traffic = count_machine(config, words), run(compiled, {}, data=False).simulation.traffic
    assert counts.bytes == {kind: traffic[kind].bytes for kind in TRAFFIC}
    assert counts.beats == {kind: traffic[kind].beats for kind in TRAFFIC}
    names = decoding.format_names(words)
    assert counts.instructions == {kind: names.count(kind) for kind in KINDS}
    assert sum(counts.instructions.values()) == len(words)
    operations, tokens = dict.fromkeys(counts.operations, 0), dict.fromkeys(counts.tokens, 0)
    for name, (low, high) in zip(names, words.tolist(), strict=True):
        fields = decoding.decode_one(config, low, high)[1]
        unit = layout.unit_of(name, fields)
        for queue in TOKEN_QUEUES:
            tokens[queue.name] += fields[queue.push_flag] if unit == queue.producer else 0
        if name in operations:
            micro_ops = max(0, fields["uop_end"] - fields["uop_bgn"])
            operations[name] += fields["iter_out"] * fields["iter_in"] * micro_ops
    assert (counts.operations, counts.tokens) == (operations, tokens)
    values = machine_features(config, words)
    assert values.shape == (len(MACHINE_FEATURES),) and np.isfinite(values).all()


@pytest.mark.parametrize("bus", [8, 32])
def test_the_simulator_moves_what_machine_features_count(bus):
    config = load_config("tiny")
    config = replace(config, memory=replace(config.memory, bus_bytes=bus))
    assert_moved(compile_program(graph(), config))


@pytest.mark.parametrize("seed", range(4))
def test_machine_features_of_random_networks(seed):
    # Patches of the host's image, operands of sums, pools and depthwise convolutions.
    assert_moved(compile_program(fuse(network(3000 + seed)), load_config("tiny")))


@pytest.mark.parametrize("queue", TOKEN_QUEUES, ids=lambda queue: queue.name)
def test_tokens_of_every_instruction_are_those_of_its_unit(queue):
    config = load_config("tiny")
    for name in layout.names_of():
        fields = {queue.push_flag: 1} | ({"unit": int(Unit.LOAD)} if name == "CONFIG" else {})
        words = np.array([layout.encode(config, name, **fields)], dtype=np.uint64)
        tokens = count_machine(config, words).tokens
        assert tokens[queue.name] == (layout.unit_of(name, fields) == queue.producer), name


def test_a_register_tile_is_seen_as_what_it_loads():
    target = parse_target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v2")
    given = find_sketches(
        product(Matrices(rows=12, depth=16, columns=32)), target, constants=frozenset({"W"})
    )
    values = {"tile.0": 3, "tile.1": 8, "block.0": 2, "order": 1, "outer": 1, "pack.1": 1}
    s = sketch_schedule(given, {axis.name: axis.values[0] for axis in given.axes} | values)
    values = dict(zip(FEATURES, np.exp2(program_features(s.program)) - 1, strict=True))
    # Three rows of two vectors of four: an element of each row and both vectors are loaded for six sums.
    assert round(values["main.vectorize"]) == 4 and round(values["main.steps written out"]) == 6
    assert round(values["main.accumulators"]) == 6 and round(values["main.loads of a step"]) == 5
    assert round(values["main.multiplications"]) == 12 * 16 * 32
    # All of X, W and Y; the sums lie in registers.
    beyond = values["main.executions a byte beyond 16777216 bytes"]
    assert round(12 * 16 * 32 / beyond) == 4 * (12 * 16 + 16 * 32)
