"""The part of the PyTorch frontend behind the exporter, on files that `exported_files.py` wrote with real torch."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import vdla
from vdla.compiler.frontends.pytorch.export import is_torch
from vdla.compiler.frontends.pytorch.names import name_nodes
from vdla.compiler.frontends.sources import Example, arguments, model_source, stacked

FILES = Path(__file__).parent / "files"


def named(name: str) -> onnx.ModelProto:
    model = onnx.load(FILES / f"{name}.onnx")
    name_nodes(model)
    return model


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("classifier", {"conv", "block.0", "block.1", "fc", "ReduceMean", "Add", "Relu", "Relu_2"}),
        ("tokens", {"layers.0", "layers.1", "layers.3", "layers.2", "Add"}),
        ("quantized", {"Conv", "QuantizeLinear", "QuantizeLinear_2"}),
    ],
)
def test_nodes_are_called_after_modules(name: str, names: set[str]) -> None:
    found = [node.name for node in named(name).graph.node]
    assert names <= set(found)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("name", ["classifier", "tokens", "quantized"])
def test_exported_modules_compute_what_pytorch_computed(name: str) -> None:
    arrays = np.load(FILES / f"{name}.npz")
    with vdla.compile(named(name), "llvm") as network:
        (port,) = network.inputs
        (output,) = network.run({port.name: arrays["input"]}).values()
    assert np.abs(output - arrays["output"]).max() <= 1e-5 * np.abs(arrays["output"]).max()


def test_a_module_quantized_in_pytorch_is_equal_on_the_accelerator() -> None:
    arrays = np.load(FILES / "quantized.npz")
    with vdla.compile(named("quantized"), config="tiny") as network:
        (output,) = network.run({"x": arrays["input"]}).values()
    assert np.array_equal(output, arrays["output"])


class Module:
    """A class like torch.nn.Module, for tests without torch."""

    state_dict: object = None


Module.__module__ = "torch.nn.modules.module"


def test_modules_are_known_without_torch() -> None:
    class Network(Module):
        pass

    assert is_torch(Network())
    assert not is_torch(onnx.ModelProto())


def test_a_missing_torch_is_one_line() -> None:
    with pytest.raises(
        vdla.UserError, match=r"^PyTorch models need the package \w+: pip install torch onnxscript$"
    ):
        model_source(Module())


def test_anything_else_is_no_network() -> None:
    with pytest.raises(vdla.UserError, match=r"^list is not a network; give the path of an ONNX file"):
        model_source([1])
    with pytest.raises(vdla.UserError, match=r"^type is not a network"):
        model_source(Module, Example(args=(1,)))


def test_a_function_without_arguments_or_without_jax_is_one_line() -> None:
    def network(x: np.ndarray) -> np.ndarray:
        return x + 1

    with pytest.raises(vdla.UserError, match=r"^network: a function has no shapes of its own; give example"):
        model_source(network)
    with pytest.raises(
        vdla.UserError, match=r"^network: JAX functions need the package jax: pip install jax2onnx$"
    ):
        vdla.quantize(network, [np.ones(3)])


def test_arguments_of_samples_become_arrays_by_name() -> None:
    samples = [(np.ones((1, 2)), np.float32(k)) for k in range(3)]
    found = stacked(["x", "scale"], samples, "calibration")
    assert found["x"].shape == (3, 2)
    assert found["scale"].tolist() == [0, 1, 2]
    assert arguments(samples[0][0]) == (samples[0][0],)


def test_samples_with_another_number_of_arguments_are_refused() -> None:
    with pytest.raises(vdla.UserError, match=r"calibration: sample 0 has 1 arguments; the inputs are x, y"):
        stacked(["x", "y"], [np.ones(3)], "calibration")
