"""Damaged TFLite files: every one is read or refused in one line that names the file."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path

import numpy as np
import pytest

from vdla.benchmarks.harness.tflite_networks import NETWORKS
from vdla.benchmarks.harness.tflite_operators import cases
from vdla.compiler.frontends.onnx.model.load import load_model
from vdla.compiler.frontends.onnx.model.read import read_model
from vdla.compiler.graph.errors import ModelError
from vdla.util.errors import UserError

DRAWN = 300
MAKERS = [make for _, make in cases()]


def damage(rng: np.random.Generator) -> bytes:
    """A file of one operator or a network, cut off or with one to three bytes changed."""
    data = bytearray(MAKERS[rng.integers(len(MAKERS))]().content())
    if rng.random() < 0.2:
        return bytes(data[: rng.integers(8, len(data))])
    for place in rng.integers(8, len(data), rng.integers(1, 4)):
        data[place] = rng.choice([0, 1, 127, 128, 255, data[place] ^ (1 << rng.integers(8))])
    return bytes(data)


def test_random_damage_is_refused_or_read() -> None:
    rng = np.random.default_rng(7)
    read = 0
    for _ in range(DRAWN):
        try:
            load_model(read_model(damage(rng)))
            read += 1
        except UserError as error:
            assert error.lines[0].startswith("model: ")
    assert 0 < read < DRAWN


def test_every_cut_of_a_file_is_refused() -> None:
    content = NETWORKS["anomaly detection"]().content()
    for size in range(8, 1200, 17):
        with pytest.raises(
            ModelError, match=r"^model: is a damaged TFLite file: .*; export or copy it again$"
        ):
            read_model(content[:size])


def test_offsets_are_checked_before_they_are_followed() -> None:
    whole = NETWORKS["anomaly detection"]().content()
    refused = 0
    for place in (*range(8, 600, 8), *range(len(whole) - 2400, len(whole) - 4, 12)):
        for far in (b"\xff\xff\xff\x7f", b"\xf0\xff\xff\xff"):
            content = bytearray(whole)
            content[place : place + 4] = far
            try:
                read_model(bytes(content))
            except UserError as error:
                refused += 1
                assert error.lines[0].startswith("model: ")
    assert refused > 100


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(NETWORKS["anomaly detection"]().content())
    for module in [name for name in sys.modules if name.startswith("vdla.compiler.frontends.")]:
        monkeypatch.delitem(sys.modules, module)
    plain = builtins.__import__

    def without(name: str, *rest, **more):
        if name == "tflite":
            raise ModuleNotFoundError("No module named 'tflite'", name="tflite")
        return plain(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        ModelError, match=r'net.tflite: TFLite models need the package tflite: pip install "vdla\[tflite\]"$'
    ):
        read_model(path)


def test_a_file_that_ends_early_is_measured() -> None:
    content = NETWORKS["anomaly detection"]().content()
    with pytest.raises(
        ModelError, match=r"the file ends early: .* is outside of its 1,000 bytes; export"
    ) as raised:
        read_model(content[:1000])
    assert "1,008" not in str(raised.value)
    with pytest.raises(ModelError, match="has an offset before the start of the file; export"):
        # The first table's distance to its description leads to a place in front of the file.
        root = int.from_bytes(content[:4], "little")
        read_model(content[:root] + b"\xff\xff\xff\x7f" + content[root + 4 :])


@pytest.mark.parametrize("name", ["CONV_2D int16", "AVERAGE_POOL_2D int8", "TRANSPOSE_CONV int8"])
@pytest.mark.parametrize("stride", [0, -1])
def test_strides_below_one_are_named(name: str, stride: int) -> None:
    model = dict(cases())[name]()
    kind, inputs, outputs, options, fields = model.operators[-1]
    model.operators[-1] = (kind, inputs, outputs, options, {**fields, "StrideW": stride})
    with pytest.raises(ModelError, match=rf"TFLite file: {kind} has a window, stride .* below 1: .*; export"):
        read_model(model.content())


@pytest.mark.parametrize("content", [b"", b"TFL3", bytes(range(200)), b"\x00" * 64])
def test_other_files_with_the_suffix_are_no_tflite_files(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(content)
    with pytest.raises(
        ModelError, match=r"net\.tflite: is not a TFLite file or is damaged: bytes 4 to 7 are not TFL3"
    ):
        load_model(read_model(path))
