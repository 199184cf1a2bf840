"""AXI4 signatures: a master with 40-bit addresses and no IDs (responses come in order), and AXI4-Lite."""

from __future__ import annotations

from amaranth.lib.wiring import In, Out, Signature

from .interfaces import ADDRESS_BITS

OKAY = 0
SLAVE_ERROR = 2
DECODE_ERROR = 3
"""OKAY, SLAVE_ERROR, DECODE_ERROR: values of RRESP and BRESP for success, for a failure of the slave, and for an
address without a slave.
"""

INCREMENTING = 1
"""Value of ARBURST and AWBURST for INCR bursts."""

LITE_ADDRESS_BITS = 12


def axi4(bus_bytes: int) -> Signature:
    """The AXI4 signature, with directions for the master: INCR bursts of whole bus words of `bus_bytes` bytes."""
    address = {"addr": ADDRESS_BITS, "len": 8, "size": 3, "burst": 2}
    return Signature(
        {
            **{f"{channel}valid": Out(1) for channel in ("ar", "aw", "w")},
            **{f"{channel}ready": In(1) for channel in ("ar", "aw", "w")},
            **{f"{channel}{name}": Out(width) for channel in ("ar", "aw") for name, width in address.items()},
            "wdata": Out(8 * bus_bytes),
            "wstrb": Out(bus_bytes),
            "wlast": Out(1),
            "rvalid": In(1),
            "rready": Out(1),
            "rdata": In(8 * bus_bytes),
            "rresp": In(2),
            "rlast": In(1),
            "bvalid": In(1),
            "bready": Out(1),
            "bresp": In(2),
        }
    )


def axi4_lite() -> Signature:
    """The AXI4-Lite signature, with directions for the master: words of 32 bits, byte addresses of 12 bits."""
    return Signature(
        {
            "awvalid": Out(1),
            "awready": In(1),
            "awaddr": Out(LITE_ADDRESS_BITS),
            "wvalid": Out(1),
            "wready": In(1),
            "wdata": Out(32),
            "wstrb": Out(4),
            "bvalid": In(1),
            "bready": Out(1),
            "bresp": In(2),
            "arvalid": Out(1),
            "arready": In(1),
            "araddr": Out(LITE_ADDRESS_BITS),
            "rvalid": In(1),
            "rready": Out(1),
            "rdata": In(32),
            "rresp": In(2),
        }
    )
