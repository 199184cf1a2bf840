"""One executable accepts inputs of any length in a range. It has programs for only some of the lengths, pads inputs to
the next of these, and crops the outputs. The tests cover the choice of lengths, exact results, refused models, and
saved files.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import vdla
from vdla.benchmarks.harness.language_models import Feeds, LanguageModel, from_embeddings, left_float
from vdla.benchmarks.harness.quantized import quantize_qdq
from vdla.codesign.models.transformers import BertSizes, Gpt2Sizes, bert, gpt2, mobilebert, token_inputs
from vdla.codesign.models.transformers.bert import MobileBertSizes, bert_encoder
from vdla.codesign.models.transformers.writer import LEAST
from vdla.compiler.backends.divided import DividedExecutable
from vdla.compiler.backends.length_rungs import FIXED, roundest, rungs_by_cost, rungs_by_ratio
from vdla.compiler.frontends.onnx.model.sizes import with_dimensions
from vdla.compiler.runtime.accelerator import AcceleratorExecutable
from vdla.compiler.runtime.archive import ArchiveError
from vdla.compiler.runtime.cpu_network import CpuNetwork
from vdla.compiler.runtime.executable import Arrays, AxisRange, Executable, Port
from vdla.compiler.runtime.lengths import Lengths, LengthsExecutable, Rung
from vdla.compiler.runtime.lengths_archive import save_lengths
from vdla.isa.config import load_config
from vdla.util.errors import UserError

TINY = load_config("tiny")
MACHINE = replace(
    TINY, extensions=(*TINY.extensions, "table", "broadcast", "zero_points", "rows"), row_entries=8
)
WORDS, MOST = 24, 7
BERT = BertSizes(layers=1, width=16, heads=2, inner=32, vocabulary=WORDS)
RANGE = {"sequence": (1, MOST)}


def blocks(length: int) -> int:
    """Cost of a length on a made-up machine that works in blocks of 16; a last block that is not full costs extra."""
    return 1000 + 160 * -(-length // 16) + 100 * (length % 16 != 0)


@pytest.mark.parametrize("cost", [lambda n: n, lambda n: 300 + 7 * n, lambda n: 50 + n * n, blocks])
@pytest.mark.parametrize("tolerance", [0.03, 0.1, 1.0])
def test_no_length_pays_more_than_the_tolerance(cost: Callable[[int], int], tolerance: float) -> None:
    asked: list[int] = []

    def counted(length: int) -> int:
        asked.append(length)
        return cost(length)

    rungs = rungs_by_cost(1, 512, counted, tolerance)
    assert rungs[-1] == 512 and rungs == sorted(set(rungs))
    assert len(asked) == len(set(asked))
    for length in range(1, 513):
        rung = min(r for r in rungs if r >= length)
        assert cost(rung) <= (1 + tolerance) * cost(length)


def test_equal_costs_need_one_rung_and_round_lengths_are_preferred() -> None:
    assert rungs_by_cost(1, 512, lambda n: 7, 0.0) == [512]
    assert all(length % 16 == 0 for length in rungs_by_cost(65, 512, blocks, 0.05))
    assert rungs_by_cost(5, 5, lambda n: n, 0.05) == [5]


def test_without_costs_the_ladder_keeps_the_tolerance() -> None:
    for tolerance in (0.05, 0.3):
        rungs = rungs_by_ratio(1, 512, tolerance)
        assert rungs[-1] == 512 and rungs == sorted(set(rungs))
        for length in range(1, 513):
            rung = min(r for r in rungs if r >= length)
            assert rung + FIXED <= (1 + tolerance) * (length + FIXED) + 1e-9
        assert {64, 128, 256} <= set(rungs)
    assert rungs_by_ratio(3, 3, 0.05) == [3]


def test_the_roundest_number_of_a_range() -> None:
    assert [roundest(*ends) for ends in ((1, 512), (33, 63), (481, 511), (7, 7), (9, 8))] == [
        512,
        48,
        496,
        7,
        8,
    ]


@dataclass(frozen=True)
class Doubles:
    """A fake executable for one length: outputs twice its input and the sum over each row, which padding with 0 does
    not change.
    """

    size: int
    name: str = "doubles"

    @property
    def inputs(self) -> tuple[Port, ...]:
        return (Port(name="x", dtype=np.dtype(np.float32), shape=(2, self.size)),)

    @property
    def outputs(self) -> tuple[Port, ...]:
        return (
            Port(name="y", dtype=np.dtype(np.float32), shape=(self.size + 3, 2)),
            Port(name="s", dtype=np.dtype(np.float32), shape=(2,)),
        )

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        x = inputs["x"]
        assert x.shape == (2, self.size)
        kept = np.full((3, 2), -1, np.float32)
        return {"y": np.concatenate([kept, 2 * x.T]), "s": x.sum(axis=1)}

    def close(self) -> None:
        pass

    def __enter__(self) -> Doubles:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def doubles(**pads: float) -> LengthsExecutable:
    return LengthsExecutable(
        target="none",
        lengths=Lengths(symbol="n", least=2, most=8),
        rungs=[Rung(length=size, executable=Doubles(size)) for size in (3, 8)],
        axes={"x": (1,), "y": (0,), "s": ()},
        pads=pads,
    )


@pytest.mark.parametrize("length", [2, 3, 4, 8])
def test_inputs_are_padded_and_outputs_cropped(length: int) -> None:
    x = np.arange(2 * length, dtype=np.float32).reshape(2, length)
    found = doubles().run({"x": x})
    np.testing.assert_array_equal(found["y"], Doubles(length).run({"x": x})["y"])
    np.testing.assert_array_equal(found["s"], x.sum(axis=1))
    padded = doubles(x=5.0).run({"x": x})
    pads = (3 if length <= 3 else 8) - length
    np.testing.assert_array_equal(padded["s"], x.sum(axis=1) + 5 * pads)


def test_a_range_may_be_one_length() -> None:
    network = LengthsExecutable(
        target="none",
        lengths=Lengths(symbol="n", least=3, most=3),
        rungs=[Rung(length=3, executable=Doubles(3))],
        axes={"x": (), "y": (), "s": ()},
        pads={},
    )
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(network.run({"x": x})["y"], Doubles(3).run({"x": x})["y"])
    with pytest.raises(UserError, match="axis 1 has 2 elements, but must have 3"):
        network.run({"x": x[:, :2]})


def test_ports_say_the_range() -> None:
    network = doubles()
    assert network.inputs[0].shape == (2, 8)
    assert network.inputs[0].ranges == (AxisRange(axis=1, least=2, most=8),)
    assert network.outputs[0].ranges == (AxisRange(axis=0, least=5, most=11),)
    assert network.outputs[1].ranges == ()


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            {"x": np.zeros((2, 9), np.float32)},
            "input 'x': axis 1 (n) has 9 elements, but was compiled for 2 to 8",
        ),
        (
            {"x": np.zeros((2, 1), np.float32)},
            "input 'x': axis 1 (n) has 1 elements, but was compiled for 2 to 8",
        ),
        ({"x": np.zeros((3, 4), np.float32)}, "input 'x': axis 0 has 3 elements, but must have 2"),
        ({"x": np.zeros(4, np.float32)}, "input 'x' has 1 dimensions; it needs 2: [2, n]"),
        ({"x": np.zeros((2, 4))}, "input 'x' must be float32, not float64"),
        ({"x": [[1.0], [2.0]]}, "input 'x' must be a numpy array, not list"),
        ({}, "input 'x' is missing"),
        ({"z": np.zeros((2, 4), np.float32)}, "has no input 'z'; it has x"),
    ],
)
def test_wrong_inputs_are_named(inputs: dict[str, np.ndarray], message: str) -> None:
    network = doubles()
    for _ in range(2):
        with pytest.raises(UserError) as caught:
            network.run(inputs)
        assert message in str(caught.value) and "\n" not in str(caught.value)
        # What lengths before were like excuses nothing.
        for length in (2, 4):
            network.run({"x": np.zeros((2, length), np.float32)})


def alone(model: onnx.ModelProto, length: int, target: str) -> Executable:
    data = with_dimensions(model.SerializeToString(), {"sequence": length})
    return vdla.compile(data, target, MACHINE if "vdla" in target else None)


def check_lengths(
    network: Executable,
    model: onnx.ModelProto,
    target: str,
    feeds: Feeds,
    *,
    exact: bool = True,
    lengths: tuple[int, ...] = (1, 5, MOST),
    look: Callable[[int, Executable], None] = lambda length, static: None,
) -> None:
    """Asserts that `network`, which accepts inputs of any length, computes the right outputs for each of `lengths`. The
    right outputs come from a second executable of `model`, compiled for one length. `exact`: whether floats must be
    equal bit for bit. `look` is called with each length and its second executable.
    """
    for length in lengths:
        arrays = feeds(5, length)
        with alone(model, length, target) as static:
            expected, found = static.run(arrays), network.run(arrays)
            look(length, static)
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            if exact:
                np.testing.assert_array_equal(found[name], array)
            else:
                np.testing.assert_allclose(found[name], array, atol=1e-5 * np.abs(array).max(), rtol=0)


def ids_of(model: onnx.ModelProto) -> Feeds:
    def feeds(seed: int, tokens: int = MOST) -> dict[str, np.ndarray]:
        return token_inputs(model, seed, tokens=tokens)

    return feeds


@pytest.fixture(scope="module")
def float_bert() -> onnx.ModelProto:
    return bert(0, 1, None, BERT)


@pytest.fixture(scope="module")
def on_processor(float_bert: onnx.ModelProto) -> LengthsExecutable:
    found = vdla.compile(float_bert, "llvm", lengths=RANGE, tolerance=0.2)
    assert isinstance(found, LengthsExecutable)
    return found


def test_bert_on_a_processor(on_processor: LengthsExecutable, float_bert: onnx.ModelProto) -> None:
    assert 1 < len(on_processor.rungs) < 5
    assert on_processor.axes["last_hidden_state"] == (1,)
    assert on_processor.axes["pooler_output"] == ()
    check_lengths(on_processor, float_bert, "llvm", ids_of(float_bert), exact=False)


def test_processors_hold_constants_once(on_processor: LengthsExecutable) -> None:
    networks = [rung.executable for rung in on_processor.rungs]
    held: dict[int, int] = {}
    total = 0
    for network in networks:
        assert isinstance(network, CpuNetwork) and not network.graph.nodes
        for launch in network.launches:
            for array in launch.constants.values():
                held[id(array)] = array.nbytes
                total += array.nbytes
    assert sum(held.values()) < 0.75 * total


def test_causal_models_need_no_mask() -> None:
    model = gpt2(0, 1, None, Gpt2Sizes(layers=1, width=16, heads=2, vocabulary=WORDS))
    network = vdla.compile(model, "llvm", lengths=RANGE, tolerance=0.5)
    check_lengths(network, model, "llvm", ids_of(model), exact=False)
    assert network.run(ids_of(model)(1, 4))["present.0.key"].shape == (1, 2, 4, 8)


@pytest.mark.parametrize(
    "model",
    [
        bert_encoder(0, 1, None, BERT),
        mobilebert(
            0,
            1,
            None,
            MobileBertSizes(
                layers=1, width=16, embedding=8, bottleneck=8, heads=2, stack=1, vocabulary=WORDS
            ),
        ),
    ],
    ids=["no mask", "neighbours"],
)
def test_models_whose_tokens_see_pads_are_refused(model: onnx.ModelProto) -> None:
    with pytest.raises(UserError, match="results of real tokens depend on padded tokens") as caught:
        vdla.compile(model, "llvm", lengths={"sequence": (1, 4)}, tolerance=1.0)
    assert "--dim sequence=" in str(caught.value) and "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def quantized(
    tmp_path_factory: pytest.TempPathFactory, float_bert: onnx.ModelProto
) -> tuple[onnx.ModelProto, Feeds]:
    folder = tmp_path_factory.mktemp("lengths")
    of = LanguageModel(lambda: float_bert, ("embeddings", "mask"), {"pooler_output": "pooler"})
    part, feeds = from_embeddings(float_bert, of)
    plain, path = folder / "plain.onnx", folder / "quantized.onnx"
    onnx.save(part, plain)
    quantize_qdq(plain, path, [feeds(seed, MOST) for seed in range(3)], exclude=left_float(part))
    return onnx.load(path), feeds


@pytest.fixture(scope="module")
def on_accelerator(quantized: tuple[onnx.ModelProto, Feeds]) -> LengthsExecutable:
    model, _ = quantized
    found = vdla.compile(model, "vdla", MACHINE, lengths=RANGE, pads={"mask": LEAST}, tolerance=0.2)
    assert isinstance(found, LengthsExecutable)
    return found


def test_bert_on_the_accelerator(
    on_accelerator: LengthsExecutable, quantized: tuple[onnx.ModelProto, Feeds]
) -> None:
    model, feeds = quantized

    def compare(length: int, static: Executable) -> None:
        assert isinstance(static, AcceleratorExecutable)
        cycles = on_accelerator.rung(length).cycles
        assert cycles is not None and cycles <= 1.2 * static.launch()[0].cycles

    check_lengths(on_accelerator, model, "vdla", feeds, look=compare)


def test_the_accelerator_holds_constants_once(on_accelerator: LengthsExecutable) -> None:
    arrays: dict[int, int] = {}
    total = 0
    for rung in on_accelerator.rungs:
        assert isinstance(rung.executable, AcceleratorExecutable)
        compiled = rung.executable.compiled
        assert compiled.apart and not compiled.graph.nodes
        for segment in compiled.program.segments:
            held = compiled.program.image[segment.address : segment.address + segment.size]
            assert segment.kind == "uop" or not held.any()
        arrays |= {id(array): array.nbytes for _, array in compiled.apart}
        total += sum(array.nbytes for _, array in compiled.apart)
    assert sum(arrays.values()) < 2 * total / len(on_accelerator.rungs)


def test_an_added_mask_of_zeros_hides_nothing(quantized: tuple[onnx.ModelProto, Feeds]) -> None:
    with pytest.raises(UserError, match="pad NAME=VALUE, NAME one of embeddings, mask"):
        vdla.compile(quantized[0], "vdla", MACHINE, lengths=RANGE, tolerance=0.5)


def test_accelerator_and_processor_together(tmp_path: Path, float_bert: onnx.ModelProto) -> None:
    plain, path = tmp_path / "plain.onnx", tmp_path / "quantized.onnx"
    onnx.save(float_bert, plain)
    feeds = ids_of(float_bert)
    quantize_qdq(plain, path, [feeds(seed, MOST) for seed in range(3)], exclude=left_float(float_bert))
    model = onnx.load(path)
    network = vdla.compile(path, "vdla,llvm", MACHINE, lengths=RANGE, tolerance=0.5)
    assert isinstance(network, LengthsExecutable)
    assert isinstance(network.rungs[0].executable, DividedExecutable)
    assert all(rung.cycles for rung in network.rungs)
    check_lengths(network, model, "vdla,llvm", feeds, exact=False, lengths=(5,))
    with pytest.raises(UserError, match="cannot be saved to a file"):
        save_lengths(tmp_path / "network.tar", network)
    assert not (tmp_path / "network.tar").exists()


@pytest.mark.parametrize("target", ["llvm", "vdla"])
def test_files_round_trip(target: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    network: LengthsExecutable = request.getfixturevalue(
        "on_processor" if target == "llvm" else "on_accelerator"
    )
    _, feeds = request.getfixturevalue("quantized")
    if target == "llvm":
        feeds = ids_of(request.getfixturevalue("float_bert"))
    path, again = tmp_path / "network.tar", tmp_path / "again.tar"
    save_lengths(path, network)
    save_lengths(again, network)
    assert path.read_bytes() == again.read_bytes()
    with vdla.load(path) as loaded:
        assert (loaded.name, loaded.inputs, loaded.outputs) == (
            network.name,
            network.inputs,
            network.outputs,
        )
        for length in (1, 3, MOST):
            expected, found = network.run(feeds(2, length)), loaded.run(feeds(2, length))
            for name, array in expected.items():
                np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("target", ["llvm", "vdla"])
def test_damaged_files_are_refused(target: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    network: LengthsExecutable = request.getfixturevalue(
        "on_processor" if target == "llvm" else "on_accelerator"
    )
    path = tmp_path / "network.tar"
    save_lengths(path, network)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArchiveError, match="was changed after it was written"):
        vdla.load(path)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ArchiveError):
        vdla.load(path)


def test_files_are_read_field_by_field(on_accelerator: LengthsExecutable, tmp_path: Path) -> None:
    from vdla.compiler.runtime.archive import write_archive

    path = tmp_path / "network.tar"
    save_lengths(path, on_accelerator)
    with tarfile.open(path) as archive:
        members = {name: archive.extractfile(name) for name in ("description.json", "lengths.bin")}
        texts = {name: member.read() for name, member in members.items() if member is not None}

    def refused(change: Callable[[dict], object]) -> str:
        document = json.loads(texts["description.json"])
        change(document)
        write_archive(path, document, {"lengths.bin": texts["lengths.bin"]})
        with pytest.raises(ArchiveError) as caught:
            vdla.load(path)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def rung(document: dict) -> dict:
        return document["rungs"][0]

    assert "cuda" in refused(lambda d: d.update(target_text="cuda"))
    assert "which must be in ascending order, the first at least 1, the last 12" in refused(
        lambda d: d.update(most=12)
    )
    assert "image_bytes" in refused(lambda d: rung(d).update(image_bytes=2**62))
    assert "address" in refused(lambda d: rung(d).update(image_bytes=64))
    assert "not an array of the network" in refused(lambda d: rung(d).update(words="nothing"))
    assert "not a list of" in refused(lambda d: rung(d).update(words=rung(d)["parts"][0]["data"]))
    assert "not a list of" in refused(lambda d: rung(d).update(instructions=rung(d)["instructions"] - 1))
    assert "other inputs or outputs" in refused(lambda d: rung(d)["inputs"].pop() and None)
    assert "is not a permutation" in refused(lambda d: rung(d)["inputs"][0].update(permutation=[0, 0, 1]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lengths": {"sequence": (4, 2)}}, "4 to 2 is not a range"),
        ({"lengths": {"sequence": (0, 2)}}, "0 to 2 is not a range"),
        ({"lengths": {"tokens": (1, 2)}}, "has no symbolic dimension 'tokens'"),
        ({"lengths": {"a": (1, 2), "b": (1, 2)}}, "give one symbol and its range, not 2"),
        ({"lengths": {"sequence": (1, 2)}, "tolerance": -1.0}, "tolerance -1"),
        ({"lengths": {"sequence": (1, 2)}, "pads": {"mask": 1}}, "the model has no such input"),
        ({"lengths": {"sequence": (1, 2)}, "pads": {"input_ids": 0.5}}, "0.5 is not a value of int64"),
        ({"lengths": {"sequence": (1, 2)}, "target": "cuda"}, "supports fixed lengths only"),
        ({"pads": {"mask": 1}}, "are for a range of lengths"),
    ],
)
def test_wrong_ranges_are_refused(arguments: dict, message: str, float_bert: onnx.ModelProto) -> None:
    with pytest.raises(UserError) as caught:
        vdla.compile(float_bert, **({"target": "llvm"} | arguments))
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_outputs_that_are_not_one_for_each_token_are_refused() -> None:
    shape = [2, "sequence"]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Flatten", ["x"], ["y"], axis=0)],
        "flat",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, None])],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
    with pytest.raises(
        UserError, match="output 'y': axis 1 has 2 elements for sequence 1 and 10 elements for sequence 5"
    ):
        vdla.compile(model, "llvm", lengths={"sequence": (1, 5)})
