"""Our calls of cuda-core, checked against its classes: valid names, every resource closed, and failures reported in one
line.

No GPU is used: instances are mocks that have exactly the attributes of the real classes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, create_autospec

import numpy as np
import pytest

from vdla.compiler.codegen.cuda.bulk_copies import TensorMap
from vdla.compiler.codegen.cuda.module import KernelLaunch
from vdla.compiler.runtime import cuda_core
from vdla.compiler.runtime.cuda_core import CudaDevice
from vdla.compiler.runtime.cuda_device import Argument, DeviceCall, DeviceError, DeviceProperties, TensorAt

core = importlib.import_module("cuda.core")
driver = importlib.import_module("cuda.bindings.driver")
SUCCESS = driver.CUresult.CUDA_SUCCESS
PROPERTIES = {
    "compute_capability_major": 9,
    "compute_capability_minor": 0,
    "memory_clock_rate": 2_619_000,
    "global_memory_bus_width": 5120,
    "multiprocessor_count": 132,
    "max_shared_memory_per_block_optin": 232448,
    "max_shared_memory_per_multiprocessor": 233472,
    "max_registers_per_multiprocessor": 65536,
    "clock_rate": 1_980_000,
    "l2_cache_size": 50 << 20,
    "memory_pools_supported": True,
}


class Stand:
    """Mocks of cuda-core and of the driver's bindings, as far as we use them, with a record of opened and closed
    resources.
    """

    def __init__(self) -> None:
        self.host = np.zeros(64, np.uint8)
        self.device = self.of(core.Device, device_id=0)
        self.device.name = "Card"
        self.device.properties = SimpleNamespace(**PROPERTIES)
        self.stream = self.device.create_stream.return_value = self.of(core.Stream)
        self.pool = self.of(core.DeviceMemoryResource)
        self.buffer = self.pool.allocate.return_value = self.of(core.Buffer, handle=1 << 20)
        self.pinned = self.of(core.Buffer, handle=self.host.ctypes.data)
        self.builder = self.device.create_graph_builder.return_value = self.of(core.graph.GraphBuilder)
        self.builder.end_building.return_value = self.builder
        self.graph = self.builder.complete.return_value = self.of(core.graph.Graph)
        self.kernel = self.of(core.Kernel, handle=7)
        self.code = self.of(core.ObjectCode)
        self.code.get_kernel.return_value = self.kernel
        self.view = self.of(core.Buffer)
        self.event = self.of(core.Event)
        self.event.__sub__ = lambda mine, other: 1.5
        self.device.create_event.return_value = self.event
        self.device_class = MagicMock(return_value=self.device)
        self.device_class.get_all_devices.return_value = (self.device,)
        self.launch = MagicMock()
        self.core = SimpleNamespace(
            Device=self.device_class,
            DeviceMemoryResource=lambda device_id, options: self.pool,
            DeviceMemoryResourceOptions=core.DeviceMemoryResourceOptions,
            LegacyPinnedMemoryResource=lambda: SimpleNamespace(allocate=lambda size: self.pinned),
            ObjectCode=SimpleNamespace(from_cubin=lambda cubin: self.code),
            Buffer=SimpleNamespace(from_handle=lambda address, size: self.view),
            EventOptions=core.EventOptions,
            LaunchConfig=core.LaunchConfig,
            launch=self.launch,
            TensorMapDescriptorOptions=core.TensorMapDescriptorOptions,
            utils=SimpleNamespace(StridedMemoryView=self.of(core.utils.StridedMemoryView)),
        )
        self.tensor = self.core.utils.StridedMemoryView.from_buffer.return_value
        self.set_attribute = MagicMock(return_value=(SUCCESS,))
        self.driver = SimpleNamespace(
            CUfunction_attribute=driver.CUfunction_attribute,
            cuKernelSetAttribute=self.set_attribute,
            cuDriverGetVersion=lambda: (SUCCESS, 13010),
            cuDeviceTotalMem=lambda device: (SUCCESS, 80 << 30),
            cuMemGetInfo=lambda: (SUCCESS, 5, 10),
        )

    @staticmethod
    def of(kind: type, **values: Any) -> Any:
        stand = create_autospec(kind, instance=True)
        for name, value in values.items():
            setattr(stand, name, value)
        return stand


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Stand:
    made = Stand()
    monkeypatch.setattr(cuda_core, "libraries", lambda: (made.core, made.driver))
    return made


def call(
    function: str, *arguments: Argument, grid: tuple[int, int, int] = (1, 1, 1), size: int = 0
) -> DeviceCall:
    launch = KernelLaunch(function=function, grid=grid, block=(32, 1, 1), shared_bytes=size, arguments=())
    return DeviceCall(launch=launch, arguments=arguments)


def test_the_names_that_are_used_are_cuda_cores():
    """All names of cuda-core and of the driver's bindings that we use and that the mocks cannot check exist: functions,
    and properties of devices.
    """
    for name in PROPERTIES:
        assert hasattr(importlib.import_module("cuda.core._device").DeviceProperties, name), name
    for name in ("cuKernelSetAttribute", "cuDriverGetVersion", "cuDeviceTotalMem", "cuMemGetInfo"):
        assert callable(getattr(driver, name))
    for name in ("launch", "LaunchConfig", "LegacyPinnedMemoryResource", "DeviceMemoryResource"):
        assert callable(getattr(core, name))
    assert callable(core.Device.get_all_devices) and callable(core.ObjectCode.from_cubin)
    assert callable(core.Buffer.from_handle)
    assert core.LaunchConfig(grid=(1, 2, 3), block=(4, 1, 1), shmem_size=8).shmem_size == 8


def test_properties_are_the_drivers(stand: Stand):
    with CudaDevice(0) as device:
        assert device.label == "cuda:0"
        assert device.properties == DeviceProperties(
            name="Card", capability=(9, 0), driver="13.1", multiprocessors=132, memory_bytes=80 << 30,
            shared_bytes_per_block=232448, shared_bytes_per_multiprocessor=233472,
            registers_per_multiprocessor=65536, clock_hz=1_980_000_000, memory_bandwidth=3_352_320_000_000,
            cache_bytes=50 << 20,
        )  # fmt: skip
    stand.pool.close.assert_called_once_with()
    stand.stream.close.assert_called_once_with()


def test_what_is_opened_is_closed(stand: Stand):
    with CudaDevice(0) as device:
        memory = device.allocate(64)
        assert memory.address == 1 << 20
        pinned = device.allocate_pinned(64)
        pinned.array[:] = 3
        assert stand.host.sum() == 3 * 64
        device.copy_in(memory.address, pinned, 0, 64)
        device.copy_out(pinned, 0, memory.address, 64)
        assert stand.view.copy_from.call_count == 2
        module = device.load(b"cubin", {"small": 0, "large": 100_000})
        stand.set_attribute.assert_called_once_with(
            driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100_000, 7, 0
        )

        def work() -> None:
            device.launch(module, call("large", memory.address, np.int32(5), grid=(1, 2, 3), size=100_000))

        graph = device.capture(work)
        queue, config, kernel, *arguments = stand.launch.call_args.args
        assert queue is stand.builder and kernel is stand.kernel and arguments == [1 << 20, np.int32(5)]
        assert (config.grid, config.block, config.shmem_size) == ((1, 2, 3), (32, 1, 1), 100_000)
        stand.builder.close.assert_called_once_with()
        device.run(graph)
        assert device.milliseconds(graph) == 1.5
        assert stand.event.close.call_count == 2 and stand.graph.launch.call_count == 2
        work()
        assert stand.launch.call_args.args[0] is stand.stream
        for thing in (graph, module, pinned, memory):
            thing.close()
    stand.graph.close.assert_called_once_with()
    stand.pinned.close.assert_called_once_with()
    stand.buffer.close.assert_called_once_with(stand.stream)


@pytest.mark.parametrize(
    ("rounds", "dtype", "name"), [(False, np.uint16, None), (True, np.float32, "TFLOAT32")]
)
def test_tensor_maps_are_made_by_cuda_core(stand: Stand, rounds: bool, dtype: type, name: str | None):
    size = np.dtype(dtype).itemsize
    tensor = TensorMap(element_bytes=size, shape=(3, 40), box=(2, 64 // size), swizzle=64, rounds=rounds)
    with CudaDevice(0) as device:
        module = device.load(b"cubin", {"f": 0})
        device.launch(module, call("f", TensorAt(address=1 << 20, tensor=tensor), 1 << 21))
    view = stand.core.utils.StridedMemoryView.from_buffer
    assert view.call_args.args == (stand.view, (3, 40)) and view.call_args.kwargs == {"dtype": dtype}
    options = stand.tensor.as_tensor_map.call_args.kwargs["options"]
    assert (options.box_dim, options.swizzle.name) == ((2, 64 // size), "SWIZZLE_64B")
    assert getattr(options.data_type, "name", None) == name
    assert (
        options.l2_promotion.name == "L2_256B" and options.interleave.name == options.oob_fill.name == "NONE"
    )
    assert stand.launch.call_args.args[3:] == (stand.tensor.as_tensor_map.return_value, 1 << 21)


def out_of_memory(*_: object, **__: object) -> None:
    raise RuntimeError(
        "CUDA_ERROR_OUT_OF_MEMORY: the API call failed because it was unable to allocate\nmore"
    )


def illegal_address(*_: object, **__: object) -> None:
    raise RuntimeError(
        "CUDA_ERROR_ILLEGAL_ADDRESS: the device encountered a load or store on an invalid address."
    )


def test_failures_are_one_line_and_leave_nothing(stand: Stand):
    device = CudaDevice(0)
    stand.pool.allocate.side_effect = out_of_memory
    with pytest.raises(DeviceError) as caught:
        device.allocate(1 << 20)
    assert str(caught.value).startswith(
        "cuda:0: out of device memory: 1,048,576 bytes are needed, and 5 of its 10"
    )
    stand.stream.sync.side_effect = illegal_address
    with pytest.raises(DeviceError, match=r"^cuda:0: running failed: CUDA_ERROR_ILLEGAL_ADDRESS[^\n]*$"):
        device.synchronize()
    stand.launch.side_effect = illegal_address

    def work() -> None:
        module = cuda_core._Module(None, {"f": stand.kernel})
        device.launch(module, call("f"))

    with pytest.raises(DeviceError, match="launching f failed: CUDA_ERROR_ILLEGAL_ADDRESS"):
        device.capture(work)
    stand.builder.close.assert_called_once_with()
    stand.builder.end_building.assert_not_called()
    stand.pool.close.side_effect = illegal_address
    device.close()
    stand.stream.close.assert_called_once_with()


@pytest.mark.parametrize("fail", ["create_stream", "set_current", "pool"])
def test_devices_that_cannot_be_opened(stand: Stand, fail: str):
    if fail == "pool":
        stand.core.DeviceMemoryResource = illegal_address
    else:
        getattr(stand.device, fail).side_effect = illegal_address
    with pytest.raises(DeviceError, match="opening it failed"):
        CudaDevice(0)
    assert stand.stream.close.call_count == (fail == "pool")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CUDA_ERROR_NO_DEVICE: no CUDA-capable devices were detected", "has no NVIDIA GPU"),
        ('"cuda" can only be found via system search', "no NVIDIA driver was found"),
        ("CUDA_ERROR_INSUFFICIENT_DRIVER: too old", "no NVIDIA driver was found"),
        ("CUDA_ERROR_SYSTEM_NOT_READY: not yet\nmore", "CUDA_ERROR_SYSTEM_NOT_READY: not yet; install"),
    ],
)
def test_why_there_is_no_device(stand: Stand, text: str, words: str):
    def fail() -> Callable[[], None]:
        raise RuntimeError(text)

    stand.device_class.get_all_devices.side_effect = fail
    with pytest.raises(DeviceError, match=words):
        CudaDevice(0)
