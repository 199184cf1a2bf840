"""The state of the slow model between two cycles."""

from __future__ import annotations

from collections import Counter

import numpy as np

from vdla.isa.config import Config
from vdla.isa.layout import TOKEN_QUEUES, Unit, uop_dtype
from vdla.isa.timing import REQUEST_GAP, read_burst_beats

from .bursts import PAGE, Burst, Client
from .instructions import Instruction, decode

Transfer = tuple[Burst, int]
"""A burst that a data channel transfers, and the cycles until its next beat."""


class Model:
    """The registered state of all units, and the program."""

    def __init__(self, config: Config, instructions: np.ndarray, image: np.ndarray) -> None:
        self.config = config
        self.bus = config.memory.bus_bytes
        self.image = image
        self.fetch_count = len(instructions)
        self.program = decode(config, instructions)
        self.units = {unit: [i for i in self.program if i.unit == unit] for unit in Unit}
        self.base = -(-len(image) // PAGE) * PAGE
        self.clients = {
            "fetch": Client(1 << 30, 1 << 20),
            "compute": Client(
                config.fifo_bytes("compute"), read_burst_beats(config, config.fifo_bytes("compute"))
            ),
            "store": Client(
                config.fifo_bytes("operand"), read_burst_beats(config, config.fifo_bytes("operand"))
            ),
            "load": Client(config.fifo_bytes("load"), read_burst_beats(config, config.fifo_bytes("load"))),
        }
        self.reads: list[Burst] = []
        self.writes: list[Burst] = []
        # Bursts of stores in order, their stores, and the vector of it that completes each; how many are accepted.
        self.to_write: list[tuple[Burst, Instruction, int]] = []
        self.accepted_writes = 0
        self.transfer: Transfer | None = None  # on the shared data channel, or on the one for reads
        self.write_transfer: Transfer | None = None
        self.served_reads = self.served_writes = self.served = 0
        self.last_was_write = False
        self.requested = 0
        self.fetched: list[Burst] = []
        self.dispatched = 0
        self.tokens: dict[str, list[int]] = {q.name: [] for q in TOKEN_QUEUES}
        self.popped: dict[str, list[int]] = {q.name: [] for q in TOKEN_QUEUES}
        self.reserved: Counter[str] = Counter()
        self.port: dict[int, set[int]] = {}
        self.uops = np.zeros(config.uop_depth, uop_dtype(config))
        self.load_free = -1  # last cycle in which the load unit's address side is taken
        self.causes: dict[Unit, list[str]] = {unit: [""] for unit in Unit}
        self.bytes: Counter[str] = Counter()
        self.beats: Counter[str] = Counter()
        self.last_step = {"load": 0, "compute": 0, "store": 0}
        self.reading: Instruction | None = None  # the last store that has begun
        self.vector = self.vector_read = self.vectors = self.next_read = 0
        self.stored = 0  # bytes of vectors that have taken room in the store FIFO
        self.last_write_accept = -REQUEST_GAP
