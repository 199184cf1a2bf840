"""Compiled CPU networks in Python: checks of arguments, repeated and concurrent runs, threads, profiles, dumps."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from float_networks import FloatNetwork, runtime

from vdla.compiler.codegen.cpu.errors import KernelArgumentError, TargetError
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.graph.host import InputError
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.runtime.cpu_network import CpuNetwork

SHAPE = (1, 19, 12, 12)


def network_and_model() -> tuple[FloatNetwork, bytes]:
    net = FloatNetwork(*SHAPE)
    first = net.convolution(33, (3, 3), pads=[1] * 4)
    net.convolution(33, (3, 3), pads=[1] * 4)
    net.add("Add", first)
    net.add("Relu")
    net.shape = (1, 33, 12, 12)
    return net, net.model()


@pytest.fixture(scope="module")
def network() -> CpuNetwork:
    return compile_kernels(network_and_model()[1], cpu_now())


def sample(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SHAPE, dtype=np.float32)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, "no array was given for input 'x'"),
        ({"x": sample(), "y": sample()}, "no input 'y'; it has x"),
        ({"x": sample().astype(np.float64)}, "float32, not float64"),
        ({"x": sample()[0]}, "must have shape"),
        ({"x": sample()[:, :18]}, "must have shape"),
    ],
)
def test_unfit_inputs_are_refused(network, inputs, words) -> None:
    with pytest.raises(KernelArgumentError, match=words):
        network.run(inputs)
    with pytest.raises(KernelArgumentError, match=words):
        network.profile(inputs)


def test_what_is_no_array_is_refused_as_everywhere(network) -> None:
    for call in (network.run, network.profile):
        with pytest.raises(InputError, match="input 'x' must be a numpy array, not list"):
            call({"x": sample().tolist()})


def test_less_than_one_thread_is_refused(network) -> None:
    for threads in (0, -1):
        with pytest.raises(TargetError, match="at least one thread"):
            network.run({"x": sample()}, threads=threads)


def test_inputs_may_lie_anyhow(network) -> None:
    x = sample()
    wide = np.zeros((1, 19, 24, 13), np.float32)
    wide[:, :, ::2, 1:] = x
    (name,) = network.run({"x": x})
    np.testing.assert_array_equal(network.run({"x": wide[:, :, ::2, 1:]})[name], network.run({"x": x})[name])
    x.flags.writeable = False
    network.run({"x": x})


def test_outputs_are_fresh_and_runs_do_not_depend_on_each_other(network) -> None:
    (first,) = network.run({"x": sample(1)}).values()
    kept = first.copy()
    (second,) = network.run({"x": sample(2)}).values()
    np.testing.assert_array_equal(first, kept)
    assert not np.array_equal(first, second)
    (again,) = network.run({"x": sample(1)}, threads=2).values()
    np.testing.assert_array_equal(again, kept)


def test_threads_of_the_caller_take_turns(network) -> None:
    (name,) = network.run({"x": sample()})
    expected = [network.run({"x": sample(seed)})[name] for seed in range(4)]
    wrong: list[int] = []

    def work(seed: int) -> None:
        for _ in range(20):
            if not np.array_equal(
                network.run({"x": sample(seed)}, threads=1 + seed % 2)[name], expected[seed]
            ):
                wrong.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_a_closed_network_may_run_again() -> None:
    net, model = network_and_model()
    before = threading.active_count()
    with compile_kernels(model, cpu_now()) as network:
        network.run({"x": sample()}, threads=3)
        assert threading.active_count() == before + 2
    assert threading.active_count() == before
    got = network.run({"x": sample()}, threads=2)[net.last]
    np.testing.assert_allclose(got, runtime(model, {"x": sample()})[net.last], rtol=0, atol=1e-4)
    # Its threads end with it.
    del network
    assert threading.active_count() == before


def test_the_profile_names_the_nodes(network) -> None:
    rows = network.profile({"x": sample()}, repeat=3)
    assert [row.operator for row in rows] == ["Relayout", "Convolution", "Convolution", "Relayout"]
    assert rows[2].members == ("n1", "n2", "n3")
    assert all(row.milliseconds > 0 for row in rows) and rows[2].gflops > 0
    with pytest.raises(KernelArgumentError, match="at least 1"):
        network.profile({"x": sample()}, repeat=0)


def test_an_output_may_be_an_input_or_a_constant() -> None:
    net = FloatNetwork(2, 3)
    same = net.add("Identity")
    five = net.constant(np.full((2,), 5, np.float32))
    constant = net.add("Identity", inputs=[five])
    flat = net.add("Flatten", inputs=["x"], axis=0)
    network = compile_kernels(net.model(**{same: (2, 3), constant: (2,), flat: (1, 6)}), cpu_now())
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    got = network.run({"x": x})
    np.testing.assert_array_equal(got[same], x)
    np.testing.assert_array_equal(got[constant], [5, 5])
    np.testing.assert_array_equal(got[flat], x.reshape(1, 6))


def test_compilation_is_deterministic_and_dumps_every_stage(tmp_path: Path) -> None:
    _, model = network_and_model()
    first, second = (compile_kernels(model, cpu_now(), dump_passes=tmp_path / name) for name in ("a", "b"))
    for a, b in zip(first.kernels, second.kernels, strict=True):
        assert a.module.text == b.module.text
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert {"00-import.txt", "06-fuse.txt", "07-assign-layouts.txt"} <= names
    stages = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.txt"))
    assert any(path.name == "01-schedule.txt" for path in stages)
    for path in stages:
        assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes()
