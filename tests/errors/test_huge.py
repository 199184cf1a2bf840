"""Models that need more than a computer has: refused with node, tensor and bytes, before anything is allocated."""

import gc
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import archives
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.codesign import network_run
from vdla.compiler.frontends.onnx.float_importer import import_float_model
from vdla.compiler.frontends.onnx.float_operators import control
from vdla.compiler.frontends.onnx.model.inference import check_ranges
from vdla.compiler.graph import budgets
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.ir.limits import MOST_RUNS, MOST_TENSOR_BYTES
from vdla.compiler.runtime.archive import CONSTANTS, HEADER, LIBRARY, write_archive
from vdla.compiler.te.ops.movement import Run, pad_runs
from vdla.util import machine_memory

MOST_SECONDS = 0.1
"""Processor time in seconds that a refusal may take. The slowest takes 0.006 s; computing on tensors of these sizes
would never end.
"""
FLOAT = TensorProto.FLOAT
OP = helper.make_node
RUN = ("run", "--device", "cpu")
SIZES = (2**31, 2**32, 2**40, 2**62)


def model(nodes: Sequence[onnx.NodeProto], shape: Sequence[int], rank: int, **constants: object) -> bytes:
    """The bytes of a model of `nodes` from the input x of `shape` to the output y, which has `rank` symbolic
    dimensions; `constants`: initializers by name.
    """
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info("y", FLOAT, [f"y{axis}" for axis in range(rank)])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def beside(*nodes: onnx.NodeProto, **constants: object) -> bytes:
    """The bytes of a model in which `nodes` compute c from constants, and the mean of c is added to an input of four
    numbers.
    """
    ends = [OP("ReduceMean", ["c"], ["mean"], keepdims=0), OP("Add", ["x", "mean"], ["y"])]
    return model([*nodes, *ends], [1, 4], 2, **constants)


WEIGHT = np.ones((1, 1, 3, 3), np.float32)
FOUR = np.ones((1, 4), np.float32)


def models(size: int) -> Mapping[str, tuple[bytes, str]]:
    """By name: a model with a tensor, pad or other quantity of `size`, and the text that the refusal must contain."""
    conv, pool = ("Conv", ["x", "w"], ["y"], "big"), ("MaxPool", ["x"], ["y"], "big")
    image = [1, 1, 4, 4]
    return {
        "dimension": (model([OP("Relu", ["x"], ["y"], "big")], [1, size], 2), "input 'x'"),
        "batch": (model([OP(*conv)], [size, 1, 4, 4], 4, w=WEIGHT), "input 'x'"),
        "pads": (model([OP(*conv, pads=[0, 0, size, size])], image, 4, w=WEIGHT), "'big' (Conv)"),
        "pads under strides": (
            model([OP(*conv, pads=[0, 0, size, size], strides=[size, size])], image, 4, w=WEIGHT),
            "'big' (Conv)",
        ),
        "pads under dilations": (
            model([OP(*conv, pads=[0, size, 0, size], dilations=[1, size])], image, 4, w=WEIGHT[:, :, :1]),
            "big",
        ),
        "pool": (
            model([OP(*pool, kernel_shape=[size, size], pads=[0, 0, size - 1, size - 1])], image, 4),
            "'big' (MaxPool)",
        ),
        "transposed": (
            model([OP("ConvTranspose", ["x", "w"], ["y"], "big", strides=[1, size])], image, 4, w=WEIGHT),
            "big",
        ),
        "pad": (model([OP("Pad", ["x", "p"], ["y"], "big")], [1, 4], 2, p=[0, 0, 0, size]), "'big' (Pad)"),
        "pad, cut again": (
            model(
                [OP("Pad", ["x", "p"], ["h"], "big"), OP("Slice", ["h", "s", "e"], ["y"])],
                [1, 4],
                2,
                p=[0, 0, 0, size],
                s=[0, 0],
                e=[1, 2],
            ),
            "'big' (Pad)",
        ),
        "tile": (model([OP("Tile", ["x", "p"], ["y"], "big")], [1, 4], 2, p=[1, size]), "big"),
        "expand": (model([OP("Expand", ["x", "p"], ["y"], "big")], [1, 1], 2, p=[size, 4]), "'big' (Expand)"),
        "resize": (
            model([OP("Resize", ["x", "", "", "s"], ["y"], "big")], image, 4, s=[1, 1, 4, size]),
            "'big' (Resize)",
        ),
        "resize by scales": (
            model(
                [OP("Resize", ["x", "", "s"], ["y"], "big")],
                image,
                4,
                s=np.array([1, 1, 1, size], np.float32),
            ),
            "'big' (Resize)",
        ),
        "one-hot": (
            beside(OP("OneHot", ["i", "d", "v"], ["c"], "big"), i=[0, 1], d=[size], v=FOUR[0, :2]),
            "'big' (OneHot)",
        ),
        "constant of shape": (beside(OP("ConstantOfShape", ["s"], ["c"], "big"), s=[size, 4]), "'c'"),
        "constant of a computed shape": (
            beside(
                OP("Shape", ["x"], ["shape"]),
                OP("Mul", ["shape", "m"], ["s"]),
                OP("ConstantOfShape", ["s"], ["c"], "big"),
                m=[size, 1],
            ),
            "'big' (ConstantOfShape)",
        ),
        "constant expand": (beside(OP("Expand", ["k", "s"], ["c"], "big"), k=FOUR, s=[size, 4]), "'big'"),
        "constant tile": (beside(OP("Tile", ["k", "s"], ["c"], "big"), k=FOUR, s=[size, 1]), "big"),
        "constant pad": (beside(OP("Pad", ["k", "s"], ["c"], "big"), k=FOUR, s=[0, 0, size, 0]), "'big'"),
        "random": (beside(OP("RandomNormal", [], ["c"], "big", shape=[size, 4])), "'big' (RandomNormal)"),
        "range": (
            beside(
                OP("Range", ["a", "b", "d"], ["r"], "big"),
                OP("Cast", ["r"], ["c"], to=FLOAT),
                a=np.int64(0),
                b=np.int64(size),
                d=np.int64(1),
            ),
            "'big' (Range)",
        ),
        "range of a computed size": (
            beside(
                OP("Shape", ["x"], ["shape"]),
                OP("Gather", ["shape", "a"], ["one"]),
                OP("Mul", ["one", "m"], ["b"]),
                OP("Range", ["a", "b", "d"], ["r"], "big"),
                OP("Cast", ["r"], ["c"], to=FLOAT),
                m=np.int64(size),
                a=np.int64(0),
                d=np.int64(1),
            ),
            "big",
        ),
    }


def refusal(vdla: Any, *arguments: str | Path) -> str:
    """The error line of a refused command. Runs the command twice and asserts that the second run, with all modules
    imported, takes less than MOST_SECONDS.
    """
    vdla(*arguments).message()
    gc.disable()  # what other tests left is not this one's time
    try:
        started = time.process_time()
        message = vdla(*arguments).message()
        assert time.process_time() - started < MOST_SECONDS
    finally:
        gc.enable()
    return message


@pytest.mark.parametrize("name", models(2))
def test_a_refusal_comes_at_once(vdla, tmp_path: Path, name: str) -> None:
    path = tmp_path / "net.onnx"
    for size in SIZES:
        data, named = models(size)[name]
        path.write_bytes(data)
        message = refusal(vdla, "run", path, "--device", "cpu", "--no-cache")
        assert str(path) in message and named in message, message
        told = (
            "bytes, more than",
            "the limit is",
            "elements, more than",
            "numbers, more than",
            "overflow",
            "does not fit 64 bits",
        )
        assert any(words in message for words in told), message


COMMANDS = (
    ("run", "--device", "cuda:emulated"),
    ("run", "--target", "vdla,llvm"),
    ("run", "--timing-only"),
    ("compile", "--target", "llvm", "-o", "OUT"),
    ("compile", "--target", "cuda -arch=sm_90", "-o", "OUT"),
    ("compile", "--target", "vdla", "-o", "OUT"),
    ("quantize", "--calibration", "IN", "-o", "OUT"),
    ("tune", "--trials", "1", "--strategy", "random", "-o", "OUT"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("name", ["dimension", "pads", "constant of shape", "range"])
def test_every_command_refuses(
    vdla, tmp_path: Path, command: tuple[str, ...], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once a minute on a fresh installation: the simulator was compiled first.
    monkeypatch.setattr(network_run, "load_simulator", lambda: pytest.fail("waits for the simulator"))
    path = tmp_path / "net.onnx"
    data, named = models(2**40)[name]
    path.write_bytes(data)
    np.savez(tmp_path / "IN", x=np.zeros((1, 4), np.float32))
    places = {"IN": tmp_path / "IN.npz", "OUT": tmp_path / "out"}
    message = refusal(vdla, command[0], path, *(places.get(item, item) for item in command[1:]))
    assert str(path) in message and named in message


def test_forty_thousand_squared(vdla, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(model([OP("Relu", ["x"], ["y"], "big")], [40000, 40000], 2))
    message = vdla(*RUN[:1], path, *RUN[1:]).message()
    assert "input 'x' has the shape [40000, 40000] and 6,400,000,000 bytes, more than" in message


def test_dim_and_batch_are_checked(vdla, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    data = onnx.load_model_from_string(model([OP("Relu", ["x"], ["y"])], [1, 4], 2))
    data.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    path.write_bytes(data.SerializeToString())
    for option in (("--dim", "n=99999999999"), ("--batch", "99999999999")):
        assert "1,599,999,999,984 bytes, more than" in vdla(*RUN[:1], path, *RUN[1:], *option).message()


def test_many_activations_at_a_time(vdla, tmp_path: Path) -> None:
    # Each may be, all of them together may not: ten of 2 GiB, of which the last node reads all.
    count = 10
    nodes = [OP("Mul", ["x", f"k{i}"], [f"h{i}"], f"n{i}") for i in range(count)]
    nodes.append(OP("Concat", [f"h{i}" for i in range(count)], ["all"], axis=0))
    nodes.append(OP("ReduceMax", ["all"], ["y"], axes=[0, 1], keepdims=1))
    constants = {f"k{i}": np.float32(i) for i in range(count)}
    path = tmp_path / "net.onnx"
    path.write_bytes(model(nodes, [1, MOST_TENSOR_BYTES // 4], 2, **constants))
    message = refusal(vdla, *RUN[:1], path, *RUN[1:])
    assert str(path) in message and "bytes, more than" in message


def test_activations_against_their_budget(monkeypatch) -> None:
    monkeypatch.setattr(budgets, "MOST_ARENA_BYTES", 1000)
    budgets.check_arena("net", 1000, {}, {})
    with pytest.raises(
        ModelError, match=r"net: its activations take 1,001 bytes .* 'b' of node 'n', has 700;"
    ):
        budgets.check_arena("net", 1001, {"a": 300, "b": 700}, {"b": "n"})


def test_an_accelerators_memory_against_its_addresses(vdla, tmp_path: Path, monkeypatch) -> None:
    from vdla.codesign.models import build

    path = tmp_path / "net.onnx"
    onnx.save(build("mlp"), path)
    monkeypatch.setattr(budgets, "MOST_IMAGE_BYTES", 1000)
    message = vdla("run", path, "--timing-only").message()
    assert (
        str(path) in message
        and "of the accelerator's memory, more than the 1,000 that it can address" in message
    )


def test_an_archive_with_an_arena_that_no_machine_has(vdla, tmp_path: Path) -> None:
    source, path = tmp_path / "net.onnx", tmp_path / "net.tar"
    source.write_bytes(model([OP("Relu", ["x"], ["y"])], [1, 4], 2))
    assert vdla("compile", source, "-o", path, "--target", "llvm").code == 0
    files = archives.members(path)
    description = json.loads(files["description.json"])
    description["arena_bytes"] = 387 * 10**12
    write_archive(path, description, {name: files[name] for name in (LIBRARY, HEADER, CONSTANTS)})
    message = vdla("run", path).message()
    assert str(path) in message and "387,000,000,000,000 bytes of memory to run, more than the" in message


def test_the_memory_of_this_machine(tmp_path: Path) -> None:
    whole = machine_memory.machine_memory(tmp_path / "none")
    assert whole is not None and whole > 2**28
    (tmp_path / "max").write_text("1000\n")
    assert machine_memory.machine_memory(tmp_path / "max") == 1000
    (tmp_path / "max").write_text("max\n")
    assert machine_memory.machine_memory(tmp_path / "max") == whole
    assert machine_memory.memory_problem(whole // 2) is None or "needs" in str(
        machine_memory.memory_problem(whole // 2)
    )
    assert "of this machine" in str(machine_memory.memory_problem(2**60))


def test_bodies_of_loops_are_not_run_at_import() -> None:
    body = helper.make_graph(
        [OP("Identity", ["go"], ["on"]), OP("Identity", ["v"], ["w"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", FLOAT, [1, 4]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", FLOAT, [1, 4]),
        ],
    )
    loop = OP("Loop", ["trips", "first", "k"], ["c"], "endless", body=body)
    data = beside(loop, trips=np.int64(2**62), first=np.bool_(True), k=FOUR)
    with pytest.raises(ModelError, match=r"'endless'.*iterations of 2 nodes are more than 4,096"):
        import_float_model(data)


def test_bodies_within_bodies_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MOST_NODES", 100)

    def body(*nodes: onnx.NodeProto) -> onnx.GraphProto:
        ends = [
            helper.make_tensor_value_info(name, kind, shape)
            for name, kind, shape in (
                ("i", TensorProto.INT64, []),
                ("go", TensorProto.BOOL, []),
                ("v", FLOAT, [1, 4]),
            )
        ]
        return helper.make_graph(
            list(nodes), "body", ends, [*ends[1:2], helper.make_tensor_value_info("w", FLOAT, [1, 4])]
        )

    inner = body(OP("Identity", ["v"], ["w"]))
    outer = body(OP("Loop", ["trips", "first", "v"], ["w"], "inner", body=inner))
    loop = OP("Loop", ["trips", "first", "k"], ["c"], "outer", body=outer)
    data = beside(loop, trips=np.int64(90), first=np.bool_(True), k=FOUR)
    with pytest.raises(ModelError, match="loops around it, it has more than 100 nodes"):
        import_float_model(data)


def test_what_python_would_compute_element_by_element() -> None:
    conv = OP("Conv", ["k", "w"], ["c"], "slow")
    with pytest.raises(ModelError, match=r"'slow'.*has 88,804 elements, more than the 65,536"):
        import_float_model(beside(conv, k=np.ones((1, 1, 300, 300), np.float32), w=WEIGHT))
    assert import_float_model(beside(conv, k=np.ones((1, 1, 9, 9), np.float32), w=WEIGHT)).nodes


@pytest.mark.parametrize(
    ("mode", "pads", "problem"),
    [
        ("reflect", [0, 0, 0, 2**26], "more than the 1,048,576 that mode reflect allows"),
        ("wrap", [0, 0, 0, 4 * MOST_RUNS], "into 4,097 regions .* more than 4,096"),
    ],
)
def test_pads_that_repeat_the_tensor(mode: str, pads: list[int], problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        import_float_model(model([OP("Pad", ["x", "p"], ["y"], "big", mode=mode)], [1, 4], 2, p=pads))


def test_strides_and_scales() -> None:
    node = OP("ConvTranspose", ["x", "w"], ["y"], "big", strides=[100, 100])
    with pytest.raises(ModelError, match=r"'big'.*10,000 convolutions, more than 4,096"):
        import_float_model(model([node], [1, 1, 4, 4], 4, w=WEIGHT))
    for scale in (np.inf, np.nan, -1.0):
        node = OP("Resize", ["x", "", "s"], ["y"], "big")
        with pytest.raises(ModelError):
            import_float_model(model([node], [1, 1, 4, 4], 4, s=np.array([1, 1, 1, scale], np.float32)))
    with pytest.raises(ModelError, match=r"sizes \[1, 1, 4, 4194304\] .*; give sizes from 1 to 1,048,576"):
        import_float_model(
            model([OP("Resize", ["x", "", "", "s"], ["y"])], [1, 1, 4, 4], 4, s=[1, 1, 4, 2**22])
        )


def test_constant_pads_are_three_pieces_at_most() -> None:
    fill = Run(count=2**40, first=None)
    assert pad_runs(5, 0, 2**40) == (Run(count=5, first=0), fill)
    assert pad_runs(5, -2, 2**40) == (Run(count=3, first=2), fill)
    assert pad_runs(5, -6, 8) == (Run(count=7, first=None),)
    assert pad_runs(5, -6, -6) == ()
    for size in range(1, 5):
        for before in range(-6, 4):
            for after in range(-6, 4):
                positions = [p if 0 <= p < size else -1 for p in range(-before, size + after)]
                found = [
                    -1 if run.first is None else run.first + i * run.step
                    for run in pad_runs(size, before, after)
                    for i in range(run.count)
                ]
                assert found == positions


def test_small_ranges_are_followed() -> None:
    nodes = [
        OP("Shape", ["x"], ["s"]),
        OP("Gather", ["s", "axis"], ["b"]),
        OP("Range", ["a", "b", "d"], ["r"]),
        OP("Cast", ["r"], ["c"], to=FLOAT),
        OP("Add", ["x", "c"], ["y"]),
    ]
    data = model(nodes, [3, 5], 2, axis=np.int64(1), a=np.int64(0), d=np.int64(1))
    assert check_ranges("net", onnx.load_model_from_string(data))
    graph = import_float_model(data)
    assert graph.tensors[graph.outputs[0].tensor].shape == (3, 5)
