"""Networks on a fake GPU: memory, copies, graphs and profiles, and release of all resources after any failure."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from fake_gpu import FakeDevice, as_device

from vdla.compiler.codegen.cpu.errors import KernelArgumentError
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.module import (
    CudaModule,
    IntegerArgument,
    KernelLaunch,
    ParameterArgument,
    WorkspaceArgument,
)
from vdla.compiler.graph.graph import Graph, Tensor, plain_input, plain_output
from vdla.compiler.graph.storage_plan import StoragePlan
from vdla.compiler.ir.expr import Buffer
from vdla.compiler.ir.types import DType
from vdla.compiler.runtime import cuda_memory
from vdla.compiler.runtime.cuda_code import CompiledModule, CudaNetworkCode
from vdla.compiler.runtime.cuda_device import DeviceError
from vdla.compiler.runtime.cuda_network import CudaNetwork
from vdla.compiler.runtime.launch import Launch

N = 6
SHAPE = (2, 3)
W = np.arange(1, N + 1, dtype=np.float32).reshape(SHAPE)
HELD = np.float32([7, 8])


def buffer(name: str) -> Buffer:
    return Buffer(name=name, shape=SHAPE, dtype=DType.FLOAT32)


def launch(function: str, *arguments) -> KernelLaunch:
    return KernelLaunch(
        function=function, grid=(1, 1, 1), block=(N, 1, 1), shared_bytes=64, arguments=arguments
    )


def parameters(*names: str) -> tuple[ParameterArgument, ...]:
    return tuple(ParameterArgument(name=name) for name in names)


def code(constant: np.ndarray = W, arch: str = "sm_90") -> CudaNetworkCode:
    """The code of a network with two kernels: y = x * w in one launch, and z = y + 0 + 1 + 2 in three launches through
    the workspace. `constant`: the value of w.
    """
    scale = CudaModule(
        source="scale",
        launches=(launch("scale", *parameters("Y", "X", "W")),),
        parameters=(buffer("X"), buffer("W"), buffer("Y")),
        outputs=frozenset({"Y"}),
        workspace_bytes=0,
    )
    place = WorkspaceArgument(offset=256)
    add = CudaModule(
        source="add",
        launches=tuple(
            launch("add", *parameters("Y", "X"), place, IntegerArgument(value=step)) for step in range(3)
        ),
        parameters=(buffer("X"), buffer("Y")),
        outputs=frozenset({"Y"}),
        workspace_bytes=512,
    )
    work = {"operator": "Elementwise", "operations": N}
    tensors = {n: Tensor(name=n, shape=SHAPE) for n in ("y", "z", "held", "x")}
    return CudaNetworkCode(
        graph=Graph(
            name="net",
            inputs=(plain_input(tensors["x"]),),
            outputs=tuple(plain_output(tensor.name, tensor) for tensor in tensors.values()),
            nodes=(),
            tensors={n: tensors[n] for n in ("x", "y", "z")},
            constants={"held": HELD},
        ),
        plan=StoragePlan(offsets={"x": 64, "y": 0, "z": 128}, bytes=192, bytes_without_reuse=192),
        launches=(
            Launch(
                name="scale", members=("a", "b"), kernel="m0", tensors={"X": "x", "Y": "y"},
                constants={"W": constant}, **work,
            ),
            Launch(
                name="add", members=("c",), kernel="m1", tensors={"X": "y", "Y": "z"}, constants={}, **work
            ),
        ),
        target=cuda_target(arch),
        modules=(
            CompiledModule(name="m0", module=scale, cubin=b"scale"),
            CompiledModule(name="m1", module=add, cubin=b"add"),
        ),
    )  # fmt: skip


def scale_kernel(device, grid, arguments) -> None:
    y, x, w = (device.floats(a, N) for a in arguments)
    y[:] = x * w


def add_kernel(device, grid, arguments) -> None:
    """The fake GPU's kernel for one step of the network's loop: adds the number of the step, which must be a 32-bit
    integer, to a sum in the workspace.
    """
    *addresses, step = arguments
    assert isinstance(step, np.int32)
    y, x, room = (device.floats(a, N) for a in addresses)
    room[:] = step + (room if step else x)
    if step == 2:
        y[:] = room


KERNELS = {"scale": scale_kernel, "add": add_kernel}


def fake(**options) -> FakeDevice:
    return FakeDevice(KERNELS, **options)


def x_of(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SHAPE, dtype=np.float32)


def test_runs_compute_and_take_all_memory_once():
    device = fake()
    assert as_device(device) is device
    with CudaNetwork(code(), device) as network:
        opened = list(device.open)
        for seed in range(3):
            x = np.asfortranarray(x_of(seed))
            got = network.run({"x": x})
            np.testing.assert_array_equal(got["y"], x * W)
            np.testing.assert_allclose(got["z"], x * W + 3)
            np.testing.assert_array_equal(got["held"], HELD)
            np.testing.assert_array_equal(got["x"], x)
        assert device.open == opened
        assert device.launched == ["scale", "add", "add", "add"] * 3
    assert not device.open
    network.close()


def test_results_are_the_callers_own():
    with CudaNetwork(code(), fake()) as network:
        first = network.run({"x": x_of(0)})
        kept = {name: array.copy() for name, array in first.items()}
        network.run({"x": x_of(1)})
        for name, array in first.items():
            np.testing.assert_array_equal(array, kept[name])


def test_large_constants_go_through_little_pinned_memory(monkeypatch):
    monkeypatch.setattr(cuda_memory, "STAGING_BYTES", 12)
    device = fake()
    with CudaNetwork(code(np.asfortranarray(W)), device) as network:
        np.testing.assert_array_equal(network.run({"x": x_of()})["y"], x_of() * W)
    # Constants, then inputs and outputs.
    assert device.pinned == [12, 2 * 256 + N * 4]


def test_times_are_the_devices():
    with CudaNetwork(code(), fake()) as network:
        assert network.time({"x": x_of()}, repeat=3) == [1.0] * 3
        timer = network.timer({"x": x_of()}, repetitions=5)
        assert timer.milliseconds() == 1.0
        timer.close()
        rows = network.profile({"x": x_of()}, repeat=2)
    assert [(r.name, r.operator, r.members, r.kernels) for r in rows] == [
        ("scale", "Elementwise", ("a", "b"), 1),
        ("add", "Elementwise", ("c",), 3),
    ]
    assert [r.milliseconds for r in rows] == [0.25, 0.75]
    # Three arrays of 24 bytes in a quarter of a millisecond.
    assert rows[0].gigabytes_per_second == pytest.approx(3 * 24 / 0.25e-3 / 1e9)
    assert rows[0].gflops == pytest.approx(N / 0.25e-3 / 1e9)


def test_whatever_fails_nothing_stays():
    """For each n, runs a network whose n-th call of the device fails, and asserts that all resources are released."""

    def live(device: FakeDevice) -> None:
        with CudaNetwork(code(), device) as network:
            network.run({"x": x_of()})
            network.time({"x": x_of()}, repeat=1)
            network.profile({"x": x_of()}, repeat=1)

    whole = fake()
    live(whole)
    assert whole.calls > 20
    for number in range(whole.calls):
        device = fake(fails_at=number)
        with pytest.raises(DeviceError, match=f"call {number + 1} failed"):
            live(device)
        assert not device.open, number


def test_out_of_memory_is_told_and_nothing_stays():
    device = fake(memory_bytes=512)
    with pytest.raises(DeviceError, match="out of device memory"):
        CudaNetwork(code(), device)
    assert not device.open


def test_networks_that_are_dropped_give_back_their_memory():
    device = fake()
    network = CudaNetwork(code(), device)
    assert device.open
    del network
    gc.collect()
    assert not device.open


@pytest.mark.parametrize(
    ("arch", "capability", "runs"),
    [
        ("sm_80", (8, 0), True),
        ("sm_80", (8, 9), True),
        ("sm_86", (8, 0), False),
        ("sm_80", (9, 0), False),
        ("sm_90a", (9, 0), True),
        ("sm_90", (10, 0), False),
    ],
)
def test_code_runs_on_its_own_architectures(arch, capability, runs):
    device = fake(capability=capability)
    if runs:
        CudaNetwork(code(arch=arch), device).close()
    else:
        major, minor = capability
        with pytest.raises(
            DeviceError, match=f"{major}.{minor}, which cannot run code for {arch}; compile with"
        ):
            CudaNetwork(code(arch=arch), device)
    assert not device.open


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, "no array was given for input 'x'"),
        ({"x": x_of(), "q": x_of()}, "has no input 'q'"),
        ({"x": x_of().astype(np.float64)}, "must be float32, not float64"),
        ({"x": x_of()[:1]}, "must have shape"),
    ],
)
def test_unfit_inputs_are_told(inputs, words):
    with CudaNetwork(code(), fake()) as network:
        for use in (network.run, network.time, network.profile):
            with pytest.raises(KernelArgumentError, match=words):
                use(inputs)


def test_no_runs_cannot_be_timed():
    with CudaNetwork(code(), fake()) as network:
        for use in (network.time, network.profile):
            with pytest.raises(KernelArgumentError, match="cannot time 0 runs"):
                use({"x": x_of()}, repeat=0)
