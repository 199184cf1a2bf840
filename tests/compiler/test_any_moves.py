"""Random chains of data movement, products, sums, functions and concatenations of up to four dimensions: each is
refused with a message, or is right on the accelerator and on CPUs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from campaign import examples
from float_networks import runtime
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vdla.benchmarks.harness.quantized import vta_with
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.graph.errors import MOST_LISTED, ModelError, NodesError
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.pipeline import compile_kernels, compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.util.errors import UserError

from .test_cpu_partly_quantized import Rounded

MACHINE = vta_with()
STEP = 0.03
Shape = tuple[int, ...]


class Chain(Rounded):
    """A network whose tensors are all quantized with one scale and zero point; `held`: its quantized tensors so far, as
    (name, shape).
    """

    def __init__(self, shape: Shape, seed: int) -> None:
        super().__init__(*shape, seed=seed)
        self.held: list[tuple[str, Shape]] = []

    def then(self, operator: str, shape: Sequence[int], *others: np.ndarray, **attributes) -> None:
        """Adds a node on the last tensor and the constants `others`; its result has the given shape."""
        self.add(operator, *[self.constant(x) for x in others], **attributes)
        self.shape = tuple(shape)

    def keep(self) -> None:
        """Quantizes and dequantizes the last tensor, and adds it to `held`."""
        self.rounded(STEP, 120)
        self.held.append((self.last, self.shape))

    def move(self) -> bool:
        """Adds a random movement of data (transposition, reshape, slice, gather of one index ...); returns False if the
        drawn kind does not apply.
        """
        rng, shape = self.rng, self.shape
        rank, kind = len(shape), str(rng.choice(["transpose", "reshape", "cut", "pick", "wrap", "unwrap"]))
        axis = int(rng.integers(0, rank))
        rest = (*shape[:axis], *shape[axis + 1 :])
        match kind:
            case "transpose":
                order = [int(d) for d in rng.permutation(rank)]
                self.then("Transpose", [shape[d] for d in order], perm=order)
            case "reshape":
                new = reshaped(rng, shape)
                if not 2 <= len(new) <= 4:
                    return False
                self.then("Reshape", new, np.array(new))
            case "cut" if shape[axis] > 1:
                start = int(rng.integers(0, shape[axis] - 1))
                end = int(rng.integers(start + 1, shape[axis] + 1))
                cut = (*shape[:axis], end - start, *shape[axis + 1 :])
                self.then("Slice", cut, *[np.array([v]) for v in (start, end, axis)])
            case "pick" if rank > 2:
                self.then("Gather", rest, np.array(int(rng.integers(0, shape[axis]))), axis=axis)
            case "wrap" if rank < 4:
                self.then("Unsqueeze", (*shape[:axis], 1, *shape[axis:]), np.array([axis]))
            case "unwrap" if rank > 2 and shape[axis] == 1:
                self.then("Squeeze", rest, np.array([axis]))
            case _:
                return False
        return True

    def compute(self) -> bool:
        """Adds a random matrix product, Sigmoid, Softmax, element-wise sum or product, or concatenation; returns False
        if the drawn kind does not apply.
        """
        rng, shape, kind = self.rng, self.shape, self.rng.integers(0, 5)
        axis = int(rng.integers(0, len(shape)))
        match kind:
            case 0:
                columns = int(rng.choice([3, 8, 16, 17]))
                weights = self.constant(rng.integers(-90, 91, (shape[-1], columns)).astype(np.int8))
                weight = self.add(
                    "DequantizeLinear",
                    inputs=[weights, self.constant(np.float32(0.3 / 90 / shape[-1] ** 0.5))],
                )
                self.add("MatMul", inputs=[self.held[-1][0], weight])
                self.shape = (*shape[:-1], columns)
            case 1:
                self.then("Sigmoid", shape)
            case 2 if len(shape) > 2:
                self.then("Softmax", shape, axis=-1)
            case 3:
                alike = [name for name, other in self.held if other == shape]
                self.add(str(rng.choice(["Add", "Mul"])), str(rng.choice(alike)))
            case 4:
                fit = [
                    (name, other[axis])
                    for name, other in self.held
                    if len(other) == len(shape)
                    and all(a == b for d, (a, b) in enumerate(zip(other, shape, strict=True)) if d != axis)
                ]
                name, size = fit[int(rng.integers(0, len(fit)))]
                self.add("Concat", name, axis=axis)
                self.shape = (*shape[:axis], shape[axis] + size, *shape[axis + 1 :])
            case _:
                return False
        return True


def reshaped(rng: np.random.Generator, shape: Shape) -> Shape:
    """A random new shape: two adjacent dimensions merged, one dimension split into two, or all dimensions permuted."""
    axis, kind = int(rng.integers(0, len(shape))), int(rng.integers(0, 3))
    if kind == 0 and axis + 1 < len(shape):
        return (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
    if kind == 1:
        factor = int(rng.choice([n for n in range(1, shape[axis] + 1) if shape[axis] % n == 0]))
        return (*shape[:axis], factor, shape[axis] // factor, *shape[axis + 1 :])
    return tuple(int(size) for size in rng.permutation(shape))


def chain(seed: int) -> Chain:
    rng = np.random.default_rng(seed)
    sizes = [int(rng.choice([1, 2, 3, 4, 5, 8, 16, 20])) for _ in range(rng.integers(1, 4))]
    net = Chain((int(rng.choice([1, 1, 2, 3])), *sizes), seed)
    while net.rng.random() < 0.6:
        net.move()  # before it is quantized
    net.keep()
    for _ in range(int(rng.integers(1, 7))):
        if net.move() if net.rng.random() < 0.5 else net.compute():
            net.keep()
    return net


def lines_of(error: UserError) -> int:
    """Expected number of lines of a refusal: one, or a heading and one line for each listed node."""
    return 1 + len(error.parts[:MOST_LISTED]) if isinstance(error, NodesError) else 1


@given(seed=st.integers(0, 2**20))
@example(seed=8)
@example(seed=129)  # Inputs that are reshaped before they are quantized.
@settings(max_examples=examples(40), deadline=None)
def test_random_chains_on_the_accelerator(seed: int) -> None:
    net = chain(seed)
    data = net.model()
    feeds = {"x": net.rng.normal(0, 1, net.input_shape).astype(np.float32)}
    try:
        compiled = compile_program(data, MACHINE)
    except (ModelError, UserError) as error:
        assert len(str(error).splitlines()) == lines_of(error)
        return
    (ours,) = run(compiled, feeds).outputs.values()
    (own,) = load_outputs(
        compiled.graph, interpret(compiled.graph, store_inputs(compiled.graph, feeds))
    ).values()
    np.testing.assert_array_equal(ours, own)
    # A step may differ where ONNX Runtime rounds twice, and become a few; elements in a wrong place are far off.
    (expected,) = runtime(data, feeds).values()
    assert ours.shape == expected.shape and np.abs(ours - expected).max() <= 6.01 * STEP


@given(seed=st.integers(0, 2**20))
@example(seed=51)  # Few channels of many become positions.
@example(seed=59)  # The first images of a tensor are an output.
@settings(max_examples=examples(20), deadline=None)
def test_random_chains_on_processors(seed: int) -> None:
    net = chain(seed)
    data = net.model()
    feeds = {"x": net.rng.normal(0, 1, net.input_shape).astype(np.float32)}
    try:
        network = compile_kernels(data, cpu_now())
    except UserError as error:
        assert len(str(error).splitlines()) == lines_of(error)
        return
    with network:
        (ours,) = network.run(feeds).values()
    (expected,) = runtime(data, feeds).values()
    assert ours.shape == expected.shape and np.abs(ours - expected).max() <= 6.01 * STEP
