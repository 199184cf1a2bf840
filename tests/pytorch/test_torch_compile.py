"""The backend "vdla" of torch.compile."""

import pytest
import torch
from torch import Tensor, nn
from torch_networks import Classifier, Quantized, Several, image

import vdla


@pytest.fixture(autouse=True)
def new_graphs() -> None:
    """Makes Dynamo forget the graphs that earlier tests traced."""
    torch._dynamo.reset()


def equal(ours: object, theirs: object) -> bool:
    if not isinstance(ours, Tensor) or not isinstance(theirs, Tensor):
        return ours == theirs
    return ours.dtype == theirs.dtype and torch.allclose(ours.float(), theirs.float(), rtol=1e-2, atol=1e-5)


def test_results_of_every_kind_and_of_changing_shapes() -> None:
    module = Several().eval()
    compiled = torch.compile(module, backend="vdla")
    with torch.no_grad():
        for rows in (2, 5, 6, 5):
            x = torch.randn(rows, 8)
            assert all(map(equal, compiled(x, 3), module(x, 3)))


def test_changed_weights_are_seen() -> None:
    module = Classifier().eval()
    compiled = torch.compile(module, backend="vdla")
    with torch.no_grad():
        before = compiled(image())
        module.fc.weight.mul_(2)
        assert torch.allclose(compiled(image()), module(image()), atol=1e-5)
        assert not torch.allclose(compiled(image()), before, atol=1e-3)


class Printing(nn.Module):
    """A module with a call that Dynamo cannot trace."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        print("between")
        return self.second(y)


def test_graphs_with_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    module = Printing().eval()
    compiled = torch.compile(module, backend="vdla")
    x = torch.randn(2, 4)
    with torch.no_grad():
        assert torch.allclose(compiled(x), module(x), atol=1e-6)
    assert capsys.readouterr().out == "between\n" * 2


def test_calls_that_need_gradients_run_in_pytorch(capfd: pytest.CaptureFixture[str]) -> None:
    module = Classifier().eval()
    assert torch.compile(module, backend="vdla")(image()).requires_grad
    error = capfd.readouterr().err
    assert error.startswith("vdla: PyTorch runs this graph: its result needs gradients;")
    assert error.count("\n") == 1


class Decomposed(nn.Module):
    """A module with an operator that ONNX lacks."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.linalg.qr(x)[1]


def test_an_unsupported_operator_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.randn(3, 3)
    with torch.no_grad():
        assert torch.allclose(torch.compile(Decomposed(), backend="vdla")(x), Decomposed()(x))
    error = capfd.readouterr().err
    assert "qr" in error and error.startswith("vdla: PyTorch runs this graph: ")


def test_a_quantized_graph_runs_on_the_simulated_accelerator() -> None:
    module = Quantized()
    compiled = torch.compile(module, backend="vdla", options={"target": "vdla", "config": "tiny"})
    x = torch.randn(1, 4, 6, 6)
    with torch.no_grad():
        assert torch.equal(compiled(x), module(x))
    report = vdla.last_report()
    assert report.cycles > 0
    assert report.config == vdla.config("tiny")


def test_unknown_options_are_refused() -> None:
    compiled = torch.compile(Classifier().eval(), backend="vdla", options={"tile": 3})
    with pytest.raises(Exception, match="no option is called 'tile'"), torch.no_grad():
        compiled(image())
