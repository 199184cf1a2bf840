"""JAX functions compiled and quantized by the Python interface."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax_networks import MLP, Classifier, Layer, arrays, attention

import vdla
from vdla.compiler.frontends.jax import export_function

FUNCTIONS: dict[str, tuple[Callable, tuple[int, ...], set[str]]] = {
    "function": (MLP, (2, 8), {"first", "second", "Tanh", "Softmax"}),
    "jit": (jax.jit(MLP), (2, 8), {"first", "second"}),
    "convolutions": (Classifier(nnx.Rngs(0)), (1, 16, 16, 3), {"conv", "block.0", "fc"}),
    "attention": (attention, (1, 7, 32), {"Softmax"}),
    "layer": (Layer(nnx.Rngs(0)), (1, 7, 32), {"LayerNormalization", "attention.query", "up", "down"}),
}
"""Functions by name: (function, shape of its argument, names that the layers of the compiled network have)."""


def difference(network: vdla.Executable, function: Callable, x: np.ndarray) -> float:
    """Largest difference of the only output from the function's, relative to the largest value."""
    (port,) = network.inputs
    (got,) = network.run({port.name: x}).values()
    expected = np.asarray(function(x))
    return float(np.abs(got - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_computes_the_same_on_a_processor(name: str) -> None:
    function, shape, _ = FUNCTIONS[name]
    with vdla.compile(function, "llvm", args=(arrays(*shape),)) as network:
        assert difference(network, function, arrays(*shape, seed=1)) < 1e-5


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_quantized_function_runs_whole_on_the_accelerator(name: str) -> None:
    function, shape, names = FUNCTIONS[name]
    made = vdla.quantize(function, [arrays(*shape, seed=k) for k in range(12)], whole=True)
    machine = vdla.config("vta")
    machine = vdla.config("vta", extensions=(*machine.extensions, "rows"))
    with vdla.compile(made.content, config=machine) as network:
        assert difference(network, function, arrays(*shape, seed=3)) < 0.1
        assert names - {"Tanh"} <= {layer["name"] for layer in vdla.simulate(network).rows()}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nodes_are_called_after_parameters(name: str) -> None:
    function, shape, names = FUNCTIONS[name]
    found = [node.name for node in export_function(function, (arrays(*shape),)).graph.node]
    assert names <= set(found) and len(set(found)) == len(found)


def test_inputs_have_the_names_of_parameters() -> None:
    def scaled(image: jax.Array, factor: jax.Array) -> jax.Array:
        return image * factor

    with vdla.compile(scaled, "llvm", args=(arrays(2, 3),), kwargs={"factor": np.ones(3)}) as network:
        assert [(port.name, str(port.dtype)) for port in network.inputs] == [
            ("image", "float32"),
            ("factor", "float32"),
        ]


def test_a_dimension_with_a_name_becomes_lengths() -> None:
    function, shapes = nnx.Linear(32, 8, rngs=nnx.Rngs(0)), {"inputs": {1: "sequence"}}
    lengths = {"sequence": (1, 12)}
    with vdla.compile(
        function, "llvm", args=(arrays(1, 7, 32),), dynamic_shapes=shapes, lengths=lengths
    ) as network:
        for length in (1, 5, 12):
            assert difference(network, function, arrays(1, length, 32)) < 1e-5


def test_inner_functions_of_jit_run_before_and_after() -> None:
    inner = jax.jit(lambda x: jnp.tanh(x) + jax.nn.gelu(x))
    x = arrays(4)
    before = inner(x)
    with vdla.compile(lambda x: 2 * inner(x), "llvm", args=(x,)) as network:
        assert difference(network, lambda x: 2 * inner(x), x) < 1e-5
    assert np.array_equal(before, inner(x))


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        (attention, (), "attention: a function has no shapes of its own; give example arguments"),
        (
            attention,
            (1, 2),
            "attention: args and kwargs do not match the function's parameters: too many positional arguments",
        ),
        (attention, ({"w": 1},), "attention: argument .* is no array, but dict; bind parameters first"),
        (lambda x: x if x.sum() > 0 else -x, (arrays(3),), "<lambda>: jax2onnx cannot export it: TracerBool"),
    ],
)
def test_functions_that_do_not_export_are_refused_in_one_line(
    function: Callable, args: tuple, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(vdla.UserError, match=f"^{message}[^\n]*$"):
        vdla.compile(function, "llvm", args=args)
    assert capfd.readouterr() == ("", "")
