"""Writes slices and counters in Perfetto's trace format, which ui.perfetto.dev opens; independent of the accelerator.

Perfetto's `track_event.proto` defines the fields. One cycle is written as one nanosecond.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    CounterDescriptor,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
)
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

from vdla.util.printable import printable

SEQUENCE = 1
PROCESS_TRACK = 1


@dataclass(frozen=True, slots=True)
class Slice:
    """An event from cycle `start` to before cycle `stop`; `details` are shown when it is clicked."""

    start: int
    stop: int
    name: str
    details: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """A named row of slices (events) in the trace, in order and without overlap."""

    name: str
    slices: Sequence[Slice]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """A named row of values: pairs (cycle, value) in order of time; a value holds until the next one."""

    name: str
    unit: str
    samples: Sequence[tuple[int, float]]


def write_trace(process: str, tracks: Sequence[Track], counters: Sequence[Counter]) -> bytes:
    """The bytes of a trace with one process, its tracks from top to bottom, then its counters."""
    builder = TraceProtoBuilder()
    _describe(builder, PROCESS_TRACK, process)
    names: dict[str, int] = {}
    for uuid, track in enumerate(tracks, PROCESS_TRACK + 1):
        _describe(builder, uuid, track.name, order=uuid)
        for piece in track.slices:
            _begin(builder, uuid, piece, names)
            packet = _packet(builder, piece.stop)
            packet.track_event.type = TrackEvent.TYPE_SLICE_END
            packet.track_event.track_uuid = uuid
    for uuid, counter in enumerate(counters, PROCESS_TRACK + 1 + len(tracks)):
        _describe(builder, uuid, counter.name, order=uuid, unit=counter.unit)
        for cycle, value in counter.samples:
            packet = _packet(builder, cycle)
            packet.track_event.type = TrackEvent.TYPE_COUNTER
            packet.track_event.track_uuid = uuid
            packet.track_event.double_counter_value = value
    return builder.serialize()


def _packet(builder: TraceProtoBuilder, timestamp: int) -> TracePacket:
    packet = builder.add_packet()
    packet.timestamp = timestamp
    packet.trusted_packet_sequence_id = SEQUENCE
    packet.sequence_flags = TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
    return packet


def _describe(
    builder: TraceProtoBuilder, uuid: int, name: str, *, order: int = 0, unit: str | None = None
) -> None:
    packet = builder.add_packet()
    packet.trusted_packet_sequence_id = SEQUENCE
    descriptor = packet.track_descriptor
    descriptor.uuid = uuid
    descriptor.name = printable(name)
    if uuid == PROCESS_TRACK:
        # Interned names are numbered from here on; readers refuse them without this mark on the first packet.
        packet.sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        descriptor.process.pid = 1
        descriptor.process.process_name = printable(name)
        descriptor.child_ordering = TrackDescriptor.EXPLICIT
        return
    descriptor.parent_uuid = PROCESS_TRACK
    descriptor.sibling_order_rank = order
    if unit is not None:
        descriptor.counter.unit = CounterDescriptor.UNIT_UNSPECIFIED
        descriptor.counter.unit_name = unit


def _begin(builder: TraceProtoBuilder, uuid: int, piece: Slice, names: dict[str, int]) -> None:
    packet = _packet(builder, piece.start)
    event = packet.track_event
    event.type = TrackEvent.TYPE_SLICE_BEGIN
    event.track_uuid = uuid
    number = names.get(piece.name)
    if number is None:
        number = names[piece.name] = len(names) + 1
        entry = packet.interned_data.event_names.add()
        entry.iid = number
        entry.name = printable(piece.name)
    event.name_iid = number
    for key, value in piece.details.items():
        annotation = event.debug_annotations.add()
        annotation.name = key
        if isinstance(value, str):
            annotation.string_value = printable(value)
        else:
            annotation.int_value = value
