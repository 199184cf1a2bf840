"""Models of transformers that start at token ids: structure, and outputs on this processor compared with ONNX
Runtime's.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import numpy as np
import onnx
import onnxruntime
import pytest
from campaign import representatives

import vdla
from vdla.codesign.models import TRANSFORMERS, build
from vdla.codesign.models.transformers import (
    BertSizes,
    Gpt2Sizes,
    LlamaSizes,
    MobileBertSizes,
    bert,
    gpt2,
    gpt2_decode,
    llama,
    llama_decode,
    mobilebert,
    token_inputs,
)
from vdla.codesign.models.transformers.writer import SEQUENCE
from vdla.codesign.samples import sample_inputs
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.frontends.onnx.model.sizes import with_dimensions
from vdla.compiler.ir.types import DType
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.runtime.executable import Executable, Port
from vdla.util.errors import UserError

BERT = BertSizes(layers=1, width=24, heads=2, inner=48, vocabulary=50)
MOBILE = MobileBertSizes(layers=1, width=24, embedding=8, bottleneck=12, heads=3, stack=2, vocabulary=50)
GPT2 = Gpt2Sizes(layers=1, width=24, heads=3, vocabulary=50)
LLAMA = LlamaSizes(layers=1, width=24, heads=6, groups=2, inner=32, vocabulary=50)
SMALL = {
    "bert": lambda: bert(1, 2, 5, BERT),
    "mobilebert": lambda: mobilebert(1, 1, 5, MOBILE),
    "gpt2": lambda: gpt2(1, 1, 5, GPT2),
    "gpt2_decode": lambda: gpt2_decode(1, 1, 5, GPT2),
    "llama": lambda: llama(1, 1, 5, LLAMA),
    "llama_decode": lambda: llama_decode(1, 1, 5, LLAMA),
}


def outputs_of(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of a model on this processor; asserts that they agree with ONNX Runtime's within 1e-5 of the largest
    value.
    """
    onnx.checker.check_model(model, full_check=True)
    got = dict(vdla.compile(model, target="llvm").run(feeds))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for info, expected in zip(model.graph.output, session.run(None, feeds), strict=True):
        wanted = np.asarray(expected)
        assert np.abs(got[info.name] - wanted).max() <= 1e-5 * np.abs(wanted).max(), info.name
    return got


def test_every_model_has_a_small_case() -> None:
    assert list(TRANSFORMERS) == list(SMALL)


@pytest.mark.parametrize("name", ["bert", "mobilebert"])
def test_outputs_equal_onnx_runtimes(name: str) -> None:
    model = SMALL[name]()
    outputs_of(model, token_inputs(model))


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_token_by_token_as_at_once(name: str) -> None:
    """The logits of a prompt's last token are the same whether the prompt runs at once, or the last token runs after
    cached keys and values of the others.
    """
    whole = {"gpt2": gpt2(1, 1, 6, GPT2), "llama": llama(1, 1, 6, LLAMA)}[name]
    feeds = token_inputs(whole)
    at_once = outputs_of(whole, feeds)
    step = SMALL[f"{name}_decode"]()
    last = {
        info.name: feeds["input_ids"][:, 5:]
        if info.name == "input_ids"
        else np.array([[5]])
        if info.name == "position_ids"
        else np.ascontiguousarray(at_once[info.name.replace("past", "present")][:, :, :5])
        for info in step.graph.input
    }
    outputs = outputs_of(step, last)
    np.testing.assert_allclose(outputs["logits"][0, 0], at_once["logits"][0, 5], rtol=1e-4, atol=1e-5)
    for part in ("present.0.key", "present.0.value"):
        np.testing.assert_allclose(outputs[part], at_once[part], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name", representatives(["bert", "mobilebert", "gpt2", "llama"], 0, always=["mobilebert", "llama"])
)
def test_for_any_number_of_tokens(name: str) -> None:
    """Once the symbolic length is set, the model has as many kernels as a model built for that length, because its size
    computations are folded.
    """
    any_length: Callable[[int | None], onnx.ModelProto] = {
        "bert": lambda n: bert(1, 2, n, BERT),
        "mobilebert": lambda n: mobilebert(1, 1, n, MOBILE),
        "gpt2": lambda n: gpt2(1, 2, n, GPT2),
        "llama": lambda n: llama(1, 2, n, LLAMA),
    }[name]
    fixed = 5
    model, alone = any_length(None), any_length(fixed)
    onnx.checker.check_model(model, full_check=True)
    feeds = token_inputs(model, tokens=fixed)
    for name, array in token_inputs(alone).items():
        np.testing.assert_array_equal(feeds[name], array)
    sized = with_dimensions(model.SerializeToString(), {SEQUENCE: fixed})
    with (
        compile_kernels(sized, cpu_now()) as network,
        compile_kernels(alone.SerializeToString(), cpu_now()) as other,
    ):
        assert len(network.launches) == len(other.launches)
        found, expected = network.run(feeds), other.run(feeds)
    theirs = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    for info, array in zip(model.graph.output, theirs, strict=True):
        np.testing.assert_array_equal(found[info.name], expected[info.name])
        assert np.asarray(array).shape == found[info.name].shape


def test_unavailable_forms_and_sizes_are_refused() -> None:
    for form, size, layers, words in (
        ("u8", None, None, "exists in the form float only"),
        ("float", 513, None, "takes 1 to 512 tokens"),
        ("float", None, 13, "has 1 to 12 layers"),
    ):
        with pytest.raises(UserError, match=words):
            build("bert", form, size=size, layers=layers)
    with pytest.raises(UserError, match="has a fixed number of layers"):
        build("mlp", layers=2)


def test_samples_of_every_type() -> None:
    """Sample inputs of `vdla run`: ids that every vocabulary contains, and numbers of any type."""
    types = [dtype.numpy for dtype in DType]
    ports = tuple(Port(name=dtype.name, dtype=dtype, shape=(9,)) for dtype in types)
    samples = sample_inputs(cast(Executable, SimpleNamespace(inputs=ports)))
    assert all(samples[dtype.name].dtype == dtype for dtype in types)
    assert set(samples["int64"].tolist()) == {0, 1}
