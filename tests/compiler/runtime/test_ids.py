"""Inputs that are ids of rows: a run with an id of no row is refused before any kernel runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import vdla
from vdla.compiler.backends.llvm import LlvmCompiler
from vdla.compiler.codegen.cpu.errors import KernelArgumentError
from vdla.util.errors import UserError

TABLE = np.arange(20, dtype=np.float32).reshape(10, 2)


def embedding(dtype: type, *, reshaped: bool = False, rows: int = 10) -> bytes:
    """The bytes of a model that looks up ids [2, 3] of type `dtype` in a table of `rows` rows; with `reshaped`, the ids
    are first reshaped to [6].
    """
    nodes = [helper.make_node("Reshape", ["ids", "flat"], ["more"])] if reshaped else []
    nodes.append(helper.make_node("Gather", ["table", "more" if reshaped else "ids"], ["y"], "embedding"))
    graph = helper.make_graph(
        nodes,
        "words",
        [helper.make_tensor_value_info("ids", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [6, 2] if reshaped else [2, 3, 2])],
        [numpy_helper.from_array(TABLE[:rows], "table"), numpy_helper.from_array(np.array([6]), "flat")],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("reshaped", [False, True])
def test_ids_of_no_row_are_refused(dtype: type, reshaped: bool) -> None:
    network = vdla.compile(embedding(dtype, reshaped=reshaped), "llvm")
    ids = np.array([[0, 9, -1], [-10, 4, 3]], dtype)
    assert np.array_equal(network.run({"ids": ids})["y"].reshape(2, 3, 2), TABLE[ids])
    for wrong, place in ((10, (1, 2)), (-11, (0, 1))):
        bad = ids.copy()
        bad[place] = wrong
        found = rf"input 'ids' has the id {wrong} at \[{place[0]}, {place[1]}\]"
        message = rf"{found}, .*looks up a table of 10 rows; give ids from 0 to 9"
        with pytest.raises(KernelArgumentError, match=message):
            network.run({"ids": bad})


def test_a_loaded_network_checks_ids_too(tmp_path: Path) -> None:
    LlvmCompiler("llvm").save(tmp_path / "words.tar", embedding(np.int64), batch=1, knobs=None)
    with (
        vdla.load(tmp_path / "words.tar") as network,
        pytest.raises(UserError, match="looks up a table of 10 rows"),
    ):
        network.run({"ids": np.full((2, 3), 10)})


def test_the_smallest_table_decides() -> None:
    model = onnx.load_from_string(embedding(np.int64))
    model.graph.initializer.append(numpy_helper.from_array(TABLE[:4], "few"))
    model.graph.node.append(helper.make_node("Gather", ["few", "ids"], ["z"], "types"))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 3, 2]))
    network = vdla.compile(model.SerializeToString(), "llvm")
    network.run({"ids": np.full((2, 3), 3)})
    with pytest.raises(UserError, match=r"has the id 4 at .* looks up a table of 4 rows"):
        network.run({"ids": np.full((2, 3), 4)})


def test_a_divided_network_checks_ids() -> None:
    model = onnx.load_from_string(embedding(np.int64))
    network = vdla.compile(model.SerializeToString(), "vdla,llvm")
    with pytest.raises(UserError, match="looks up a table of 10 rows"):
        network.run({"ids": np.full((2, 3), 10)})
