"""Reads and sets the accelerator's AXI ports, for the memory model and the monitor."""

from __future__ import annotations

from typing import Any

from .rules import Address, RuleError, WriteBeat


class AxiWires:
    """The ports PREFIX_arvalid, PREFIX_araddr, ... of `dut`; values read are those just before the next clock edge."""

    def __init__(self, dut: Any, *, prefix: str, bus_bytes: int) -> None:
        """`dut`: the simulated design. `prefix`: first part of the port names. `bus_bytes`: width of wdata in bytes."""
        self._ports = {name: getattr(dut, f"{prefix}_{name}") for name in _NAMES}
        self._bus_bytes = bus_bytes

    def get(self, name: str) -> int:
        """The value of the port PREFIX_`name`, for example "arlen". Raises ValueError if bits of it are X or Z."""
        return int(self._ports[name].value)

    def set(self, name: str, value: int) -> None:
        """Drives the accelerator's input PREFIX_`name`, for example "arready", with `value`."""
        self._ports[name].value = value

    def address(self, channel: str) -> Address | None:
        """The request on `channel`, "ar" or "aw", accepted or not; None if its VALID is 0."""
        if not self.get(f"{channel}valid"):
            return None
        return Address(
            address=self.get(f"{channel}addr"),
            length=self.get(f"{channel}len"),
            size=self.get(f"{channel}size"),
            burst=self.get(f"{channel}burst"),
        )

    def write_beat(self) -> WriteBeat | None:
        """The beat on channel W, accepted or not; None if WVALID is 0. Bytes whose strobe is 0 may be X and are then
        read as zero; raises RuleError for X in other bytes.
        """
        if not self.get("wvalid"):
            return None
        strobe, value = self.get("wstrb"), self._ports["wdata"].value
        data = int(value) if value.is_resolvable else self._known(str(value), strobe)
        return WriteBeat(data=data, strobe=strobe, last=bool(self.get("wlast")))

    def _known(self, bits: str, strobe: int) -> int:
        data = 0
        for lane in range(self._bus_bytes):
            byte = bits[len(bits) - 8 * lane - 8 : len(bits) - 8 * lane]
            if strobe >> lane & 1:
                if set(byte) - {"0", "1"}:
                    raise RuleError(f"w: byte {lane} is written with an unknown value: {byte}")
                data |= int(byte, 2) << 8 * lane
        return data


_NAMES = tuple(
    f"{channel}{member}"
    for channel, members in {
        "ar": ("valid", "ready", "addr", "len", "size", "burst"),
        "aw": ("valid", "ready", "addr", "len", "size", "burst"),
        "w": ("valid", "ready", "data", "strb", "last"),
        "r": ("valid", "ready", "data", "resp", "last"),
        "b": ("valid", "ready", "resp"),
    }.items()
    for member in members
)
