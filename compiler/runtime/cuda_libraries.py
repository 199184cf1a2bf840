"""Access to cuda-core and to the driver's bindings: import, list of GPUs, properties of a GPU."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from ..codegen.cuda.errors import MissingCudaError
from .cuda_device import DeviceError, DeviceProperties

# Advice about emulation applies to models only: neither tuning nor a file of machine code can be emulated.
_WITHOUT = "; `vdla run MODEL.onnx --device cuda:emulated` needs no GPU"


def libraries() -> tuple[ModuleType, ModuleType]:
    """The modules cuda.core and cuda.bindings.driver. Raises MissingCudaError without the extra `cuda`."""
    try:
        core = importlib.import_module("cuda.core")
        driver = importlib.import_module("cuda.bindings.driver")
    except ImportError:
        raise MissingCudaError(
            'running on a GPU needs the extra `cuda`: pip install "vdla[cuda]"' + _WITHOUT
        ) from None
    return core, driver


def devices(core: ModuleType, label: str) -> tuple[Any, ...]:
    """All GPUs of this machine, as `core` (the module cuda.core) lists them. Raises DeviceError, whose message begins
    with `label`, if there is no driver or no GPU.
    """
    try:
        devices = tuple(core.Device.get_all_devices())
    except Exception as error:  # errors of the loader and of the driver have no base class of their own
        text = str(error)
        if "NO_DEVICE" not in text:
            missing = "found" in text or "INSUFFICIENT_DRIVER" in text or "STUB_LIBRARY" in text
            reason = (
                "no NVIDIA driver was found" if missing else (text.splitlines() or ["no reason given"])[0]
            )
            raise DeviceError(f"{label}: {reason}; install NVIDIA's driver{_WITHOUT}") from None
        devices = ()
    if not devices:
        raise DeviceError(f"{label}: this machine has no NVIDIA GPU that the driver can use{_WITHOUT}")
    return devices


def properties_of(device: Any, driver: ModuleType) -> DeviceProperties:
    """The properties of a cuda-core device, as reported by the driver."""
    given = device.properties
    version = checked(driver.cuDriverGetVersion())[0]
    # Memory with double data rate transfers twice in each clock cycle; the driver reports the clock.
    bandwidth = 2 * given.memory_clock_rate * 1000 * given.global_memory_bus_width // 8
    return DeviceProperties(
        name=device.name,
        capability=(given.compute_capability_major, given.compute_capability_minor),
        driver=f"{version // 1000}.{version % 1000 // 10}",
        multiprocessors=given.multiprocessor_count,
        memory_bytes=checked(driver.cuDeviceTotalMem(device.device_id))[0],
        shared_bytes_per_block=given.max_shared_memory_per_block_optin,
        shared_bytes_per_multiprocessor=given.max_shared_memory_per_multiprocessor,
        registers_per_multiprocessor=given.max_registers_per_multiprocessor,
        clock_hz=given.clock_rate * 1000,
        memory_bandwidth=bandwidth,
        cache_bytes=given.l2_cache_size,
    )


def checked(result: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values that a call of the driver's bindings returned after its status. Raises RuntimeError for a failure."""
    status, *values = result
    if int(status):
        raise RuntimeError(f"{status.name}: a call of the CUDA driver failed")
    return tuple(values)
