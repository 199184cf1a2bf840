"""PyTorch modules compiled and quantized by the Python interface."""

import re

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_networks import Classifier, Encoder, Quantized, Recurrent, Tokens, image

import vdla
from vdla.compiler.frontends.pytorch.export import export_model


def difference(network: vdla.Executable, module: nn.Module, **inputs: Tensor) -> float:
    """Largest difference of the first output from the module's, relative to the largest value."""
    got = next(iter(network.run({name: value.numpy() for name, value in inputs.items()}).values()))
    with torch.no_grad():
        expected = module.eval()(**inputs).numpy()
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def test_a_module_computes_the_same_on_a_processor() -> None:
    module = Classifier()
    with vdla.compile(module, "llvm", args=(image(),)) as network:
        assert [port.name for port in network.inputs] == ["image"]
        assert difference(network, module, image=image(seed=1)) < 1e-5


def test_a_transformer_layer_computes_the_same() -> None:
    module, tokens = Encoder(), torch.randn(1, 7, 16)
    with vdla.compile(module, "llvm", args=(tokens,)) as network:
        assert difference(network, module, tokens=tokens) < 1e-5


@pytest.mark.filterwarnings("ignore:The tensor attributes self.lstm")  # torch.export's own, about every LSTM
def test_an_exported_program_needs_no_arguments() -> None:
    module = Recurrent().eval()
    steps = torch.randn(1, 5, 8)
    with vdla.compile(torch.export.export(module, (steps,)), "llvm") as network:
        assert difference(network, module, steps=steps) < 1e-5


def test_arguments_by_name_may_be_arrays() -> None:
    module = Classifier()
    with vdla.compile(module, "llvm", kwargs={"image": image().numpy()}) as network:
        assert difference(network, module, image=image()) < 1e-5


def test_a_module_keeps_the_modes_of_its_parts() -> None:
    module = Classifier().train()
    module.bn.eval()
    export_model(module, (image(),))
    assert module.training and module.fc.training and not module.bn.training


def test_layers_have_the_names_of_modules() -> None:
    names = [node.name for node in export_model(Classifier(), (image(),)).proto.graph.node]
    assert {"conv", "block.0", "block.1", "fc"} <= set(names)
    assert len(set(names)) == len(names)


def test_a_dynamic_dimension_with_a_bound_becomes_lengths() -> None:
    module = Tokens()
    shapes = {"tokens": {1: torch.export.Dim("sequence", min=2, max=24)}}
    with vdla.compile(module, "llvm", args=(torch.randn(1, 7, 16),), dynamic_shapes=shapes) as network:
        (port,) = network.inputs
        assert [(axis.axis, axis.least, axis.most) for axis in port.ranges] == [(1, 2, 24)]
        for length in (2, 9, 24):
            assert difference(network, module, tokens=torch.randn(1, length, 16)) < 1e-5


def test_a_quantized_module_runs_whole_on_the_accelerator() -> None:
    module = Classifier()
    made = vdla.quantize(module, [image(seed=k) for k in range(16)])
    assert {"conv", "block.0", "fc"} <= {row["name"] for row in made.rows()}
    with vdla.compile(made.content, config="tiny") as network:
        assert difference(network, module, image=image(seed=3)) < 0.05


@pytest.mark.parametrize("target", ["llvm", "vdla"])
def test_a_module_quantized_in_pytorch_arrives_as_integers(target: str) -> None:
    module = Quantized()
    x = torch.randn(1, 4, 6, 6)
    with vdla.compile(module, target, "tiny", args=(x,)) as network:
        assert difference(network, module, x=x) == 0


def test_modules_without_arguments_are_refused() -> None:
    with pytest.raises(
        vdla.UserError, match="Classifier: a module has no shapes of its own; give example arguments"
    ):
        vdla.compile(Classifier(), "llvm")


class Branching(nn.Module):
    """A module whose control flow depends on data."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if x.sum() > 0 else x


def test_a_module_that_does_not_export_is_refused_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(vdla.UserError, match=r"^Branching: PyTorch cannot export it: \w+: [^\n]+$"):
        vdla.compile(Branching(), "llvm", args=(torch.ones(3),))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "calibration: a list without samples; give at least one"),
        (
            [image(), image(16)],
            "calibration: samples of input 'image' have the shapes [(1, 3, 8, 8), (1, 3, 16, 16)]",
        ),
    ],
)
def test_unusable_samples_are_refused(samples: list[Tensor], message: str) -> None:
    with pytest.raises(vdla.UserError, match=re.escape(message)):
        vdla.quantize(Classifier(), samples)
