"""Each pass of the loop IR makes its golden text, and does not change the results of the loop-IR interpreter."""

import numpy as np
import pytest
import stages

from vdla.compiler.ir.expr import Buffer, Const, Var, minimum
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Alloc, Copy, For, Program, region, seq
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.passes.interleave_virtual_threads import interleave_virtual_threads
from vdla.compiler.passes.pipeline import Pass, dump_to, run_pipeline
from vdla.compiler.passes.split_copies import split_copies
from vdla.compiler.schedule import LegalityError
from vdla.compiler.te.functions import FUNCTIONS

TEXTS = stages.stages()


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_golden(name: str):
    """The text of each stage of the accelerator's back end equals its golden text.

    After an intended change, rewrite the golden texts with `python tests/helpers/stages.py`.
    """
    assert TEXTS[name] == (stages.GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def test_every_golden_is_still_made():
    assert {path.stem for path in stages.GOLDEN.glob("*.txt")} == set(TEXTS)


def test_passes_keep_the_meaning():
    programs = stages.ir_programs()
    rng = np.random.default_rng(3)
    arrays = {}
    for buffer in programs["expression"].parameters:
        if buffer.name == "P":
            parameters = np.zeros(buffer.shape, np.int32)
            parameters[:, 0] = rng.integers(-1000, 1000, parameters[:, 0].shape)
            parameters[:, 1] = (
                rng.uniform(0.001, 0.01, parameters[:, 1].shape).astype(np.float32).view(np.int32)
            )
            arrays[buffer.name] = parameters
        else:
            arrays[buffer.name] = rng.integers(-128, 128, buffer.shape).astype(np.int8)
    wanted = None
    for name, program in programs.items():
        result = interpret(program, arrays, functions=FUNCTIONS, poison=True)["Y"]
        wanted = result if wanted is None else wanted
        assert np.array_equal(result, wanted), name
    assert wanted is not None
    assert len(np.unique(wanted)) > 10


def copy_program(extent: int, full: int, rows: int = 4) -> Program:
    source = Buffer(name="X", shape=(3, rows, 5, full, 1, 4), dtype=DType.INT8)
    local = Buffer(name="L", shape=(3, 4, 5, extent, 1, 4), dtype=DType.INT8, scope="inp")
    out = Buffer(name="Y", shape=local.shape, dtype=DType.INT8)
    box = [(0, 3), (0, 4), (0, 5), (0, extent), (0, 1), (0, 4)]
    body = seq(
        Copy(name="in", destination=region(local, *box), source=region(source, *box)),
        Copy(name="out", destination=region(out, *box), source=region(local, *box)),
    )
    return Program(name="copies", parameters=(source, out), body=Alloc(buffer=local, body=body))


def loops_of(program: Program) -> list[str]:
    from vdla.compiler.ir.visit import loops

    return [loop.name for loop in loops(program)]


def test_split_copies_leaves_dense_boxes_whole():
    program = copy_program(6, 6)
    assert split_copies(program) is program


def test_split_copies_loops_over_all_but_two_dimensions():
    program = copy_program(5, 6, rows=7)
    split = split_copies(program)
    # Dimensions 1 and 2 are contiguous to each other, 0 and 3 are cut off from them; `out` is dense altogether.
    assert loops_of(split) == ["in.0"]
    x = np.arange(3 * 7 * 5 * 6 * 4).reshape(3, 7, 5, 6, 1, 4).astype(np.int8)
    y = np.zeros((3, 4, 5, 5, 1, 4), np.int8)
    before = interpret(program, {"X": x, "Y": y})["Y"]
    assert np.array_equal(interpret(split, {"X": x, "Y": y})["Y"], before)


def threaded_program(extent: int) -> Program:
    source = Buffer(name="X", shape=(extent, 1, 4), dtype=DType.INT8)
    local = Buffer(name="L", shape=(1, 1, 4), dtype=DType.INT8, scope="inp")
    out = Buffer(name="Y", shape=source.shape, dtype=DType.INT8)
    i = Var("i")
    lanes = [(0, 1), (0, 4)]
    body = seq(
        Copy(name="in", destination=region(local, (0, 1), *lanes), source=region(source, (i, 1), *lanes)),
        Copy(name="out", destination=region(out, (i, 1), *lanes), source=region(local, (0, 1), *lanes)),
    )
    loop = For(var=i, extent=Const(extent), body=Alloc(buffer=local, body=body), kind="virtual_thread")
    return Program(name="threads", parameters=(source, out), body=loop)


@pytest.mark.parametrize(
    ("threads", "capacity", "extent", "copies"),
    [(2, 8, 5, 2), (1, 8, 5, 1), (3, 8, 2, 2), (4, 3, 9, 3), (2, 8, 1, 1)],
)
def test_as_many_copies_as_threads_iterations_and_memory_allow(threads, capacity, extent, copies):
    program = interleave_virtual_threads(
        threaded_program(extent), threads=threads, capacity={"inp": capacity}
    )
    assert isinstance(program.body, Alloc)
    assert program.body.buffer.shape[0] == copies
    x = np.arange(4 * extent).reshape(extent, 1, 4).astype(np.int8)
    result = interpret(program, {"X": x, "Y": np.zeros_like(x)}, poison=True)["Y"]
    assert np.array_equal(result, x)


def test_a_loop_of_varying_length_counts_as_its_longest():
    """Virtual threads over a loop of varying length get buffers for its greatest length: five rows are processed two at
    a time, so that the last round has only one iteration.
    """
    source = Buffer(name="X", shape=(5, 1, 4), dtype=DType.INT8)
    local = Buffer(name="L", shape=(1, 1, 4), dtype=DType.INT8, scope="inp")
    out = Buffer(name="Y", shape=source.shape, dtype=DType.INT8)
    i, j = Var("i"), Var("j")
    lanes = [(0, 1), (0, 4)]
    inside, outside = region(local, (0, 1), *lanes), (i * 2 + j, 1)
    body = seq(
        Copy(name="in", destination=inside, source=region(source, outside, *lanes)),
        Copy(name="out", destination=region(out, outside, *lanes), source=inside),
    )
    rounds = For(
        var=j, extent=minimum(2, 5 - i * 2), body=Alloc(buffer=local, body=body), kind="virtual_thread"
    )
    whole = Program(name="rounds", parameters=(source, out), body=For(var=i, extent=Const(3), body=rounds))
    program = interleave_virtual_threads(whole, threads=8, capacity={"inp": 8})
    verify(program)
    assert isinstance(program.body, Alloc)
    assert program.body.buffer.shape[0] == 6
    x = np.arange(20).reshape(5, 1, 4).astype(np.int8)
    result = interpret(program, {"X": x, "Y": np.zeros_like(x)}, poison=True)["Y"]
    assert np.array_equal(result, x)


def test_pipeline_verifies_after_each_pass_and_names_what_did_not_change(tmp_path):
    program = threaded_program(3)
    dump = dump_to(tmp_path / "layer")
    run_pipeline(program, (Pass("nothing", lambda p: p), Pass("split-copies", split_copies)), dump=dump)
    names = sorted(path.name for path in (tmp_path / "layer").iterdir())
    assert names == ["00-nothing.txt", "01-split-copies.txt"]
    assert (tmp_path / "layer" / "00-nothing.txt").read_text() == "(unchanged)\n"

    def breaks(p: Program) -> Program:
        i = Var("i")
        buffer = Buffer(name="Z", shape=(1,), dtype=DType.INT8)
        bad = Copy(name="bad", destination=region(buffer, (i, 1)), source=region(buffer, (0, 1)))
        return Program(name="broken", parameters=p.parameters, body=bad)

    with pytest.raises(Exception, match="bad"):
        run_pipeline(program, (Pass("breaks", breaks),))


def test_a_failed_primitive_shows_the_loop():
    from vdla.compiler.schedule import Schedule

    with pytest.raises(LegalityError) as caught:
        Schedule(threaded_program(3)).split("i", 0)
    assert "i" in str(caught.value)
