"""Each AXI4 rule that the bench checks: one example that keeps it, one that breaks it."""

import dataclasses

import pytest

from vdla.hw.axi import INCREMENTING
from vdla.hw.bench import AxiRules, RuleError
from vdla.hw.bench.rules import Address, WriteBeat

BURST = Address(address=0x1000, length=1, size=3, burst=INCREMENTING)
FIRST = WriteBeat(data=1, strobe=0xFF, last=False)
LAST = WriteBeat(data=2, strobe=0x0F, last=True)


def rules() -> AxiRules:
    return AxiRules(bus_bytes=8, outstanding_reads=2, outstanding_writes=1)


def test_a_correct_read_and_two_correct_writes():
    axi = rules()
    axi.address("ar", BURST, ready=False)
    axi.address("ar", BURST, ready=True)
    axi.address("aw", BURST, ready=True)
    axi.data(FIRST, ready=False)
    axi.data(FIRST, ready=True)
    axi.data(None, ready=True)
    axi.data(LAST, ready=True)
    axi.write_done()
    # Data before its address.
    axi.data(FIRST, ready=True)
    axi.data(LAST, ready=True)
    axi.address("aw", BURST, ready=True)
    axi.write_done()
    axi.read_done()
    axi.finish()


@pytest.mark.parametrize("channel", ["ar", "aw"])
def test_an_address_that_waits_stays(channel):
    axi = rules()
    axi.address(channel, BURST, ready=False)
    with pytest.raises(RuleError, match=f"{channel}: .* was withdrawn before READY"):
        axi.address(channel, None, ready=True)
    axi = rules()
    axi.address(channel, BURST, ready=False)
    with pytest.raises(RuleError, match=f"{channel}: .* was replaced by .*length=2.* before READY"):
        axi.address(channel, dataclasses.replace(BURST, length=2), ready=True)


def test_data_that_waits_stays():
    axi = rules()
    axi.address("aw", BURST, ready=True)
    axi.data(FIRST, ready=False)
    with pytest.raises(RuleError, match=r"w: .* was replaced by .* before READY"):
        axi.data(dataclasses.replace(FIRST, strobe=0x7F), ready=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"burst": 0}, "not an INCR burst of 8-byte words"),
        ({"size": 2}, "not an INCR burst of 8-byte words"),
        ({"address": 0x1FF8}, "crosses a multiple of 4096"),
        ({"length": 255, "address": 0x1808}, "crosses a multiple of 4096"),
    ],
)
def test_invalid_bursts(changes, message):
    with pytest.raises(RuleError, match=message):
        rules().address("ar", dataclasses.replace(BURST, **changes), ready=False)


def test_the_last_words_of_a_page_are_no_crossing():
    rules().address("ar", dataclasses.replace(BURST, address=0x1FF0), ready=True)


def test_outstanding_bursts():
    axi = rules()
    axi.address("ar", BURST, ready=True)
    axi.address("ar", BURST, ready=True)
    axi.read_done()
    axi.address("ar", BURST, ready=True)
    with pytest.raises(RuleError, match="ar: more than 2 reads outstanding"):
        axi.address("ar", BURST, ready=True)
    axi.address("aw", BURST, ready=True)
    with pytest.raises(RuleError, match="aw: more than 1 writes outstanding"):
        axi.address("aw", BURST, ready=True)


def test_wlast():
    axi = rules()
    axi.address("aw", BURST, ready=True)
    with pytest.raises(RuleError, match="w: WLAST is 1 on beat 1 of 2"):
        axi.data(LAST, ready=True)
    axi = rules()
    axi.address("aw", BURST, ready=True)
    axi.data(FIRST, ready=True)
    with pytest.raises(RuleError, match="w: WLAST is 0 on beat 2 of 2"):
        axi.data(FIRST, ready=True)
    # The same with the data before the address.
    axi = rules()
    axi.data(LAST, ready=True)
    with pytest.raises(RuleError, match="aw: this burst has 2 beats, but its data, sent before, had 1"):
        axi.address("aw", BURST, ready=True)
    axi = rules()
    axi.data(FIRST, ready=True)
    axi.data(FIRST, ready=True)
    with pytest.raises(RuleError, match="w: no WLAST on beat 2"):
        axi.address("aw", BURST, ready=True)


def test_transfers_left_over_at_the_end():
    axi = rules()
    axi.address("ar", BURST, ready=False)
    with pytest.raises(RuleError, match="ar: VALID while nothing is running"):
        axi.finish()
    for step, message in (
        (lambda axi: axi.address("ar", BURST, ready=True), ": 1 reads without all data$"),
        (
            lambda axi: axi.address("aw", BURST, ready=True),
            ": 1 writes without response, 1 write addresses without all data$",
        ),
        (lambda axi: axi.data(LAST, ready=True), ": 1 bursts of write data without address$"),
        (lambda axi: axi.data(FIRST, ready=True), ": 1 beats of a write burst without its last beat$"),
    ):
        axi = rules()
        step(axi)
        with pytest.raises(RuleError, match=message):
            axi.finish()
