"""The list of all formal proofs."""

from __future__ import annotations

from . import (
    bursts,
    command_queue,
    control,
    fetch,
    issue,
    memory_port,
    operand_fifo,
    read_client,
    store_writer,
    tokens,
)
from .proof import Proof

PROOFS: tuple[Proof, ...] = (
    tokens.PROOF,
    issue.PROOF,
    memory_port.PROOF,
    control.PROOF,
    bursts.PROOF,
    read_client.PROOF,
    operand_fifo.NARROW_PROOF,
    operand_fifo.WIDE_PROOF,
    store_writer.NARROW_PROOF,
    store_writer.WIDE_PROOF,
    command_queue.PROOF,
    fetch.NARROW_PROOF,
    fetch.WIDE_PROOF,
)
