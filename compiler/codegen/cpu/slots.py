"""What stack slots hold at places that are known now, so that straight-line code passes it on without memory.

Unrolled bodies add to the same accumulators hundreds of times. Each sum in turn would be stored and loaded again, and
LLVM would spend more time on finding that out than on the code that remains.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...ir.types import DType

if TYPE_CHECKING:
    from .text import Block


@dataclass(slots=True)
class _Slot:
    """Values of `lanes` elements by where they begin, in elements; `unsaved` are those that memory lacks."""

    dtype: DType
    lanes: int
    held: dict[int, str] = field(default_factory=dict)
    unsaved: dict[int, str] = field(default_factory=dict)


class Slots:
    """The slots of one function, by their pointers, from the beginning of a block to its end.

    What was put into a slot becomes a store at the latest where the block ends (`save`), unless the slot's time is
    over before (`forget`). Places have whole multiples of their lanes as beginnings, so two of equal lanes are one or
    apart; where accesses of other lanes follow, memory is brought up to date first.
    """

    def __init__(self, block: Block) -> None:
        self._block = block
        self._slots: dict[str, _Slot] = {}

    def get(self, pointer: str, dtype: DType, lanes: int, start: int) -> str:
        """The value at a place, loaded where it is not at hand."""
        slot = self._slot(pointer, dtype, lanes)
        text = slot.held.get(start)
        if text is None:
            block = self._block
            text = slot.held[start] = block.load_at(block.element(pointer, dtype, start), dtype, lanes)
        return text

    def put(self, pointer: str, dtype: DType, lanes: int, start: int, text: str) -> None:
        """The place has this value from now on."""
        slot = self._slot(pointer, dtype, lanes)
        slot.held[start] = slot.unsaved[start] = text

    def save(self, pointer: str | None = None) -> None:
        """Brings the memory of a slot (None: of all) up to date."""
        for name in list(self._slots) if pointer is None else [pointer]:
            slot = self._slots.get(name)
            if slot is None:
                continue
            for start, text in slot.unsaved.items():
                at = self._block.element(name, slot.dtype, start)
                self._block.store_at(text, at, slot.dtype, slot.lanes)
            slot.unsaved.clear()

    def forget(self, pointer: str | None = None) -> None:
        """What a slot (None: any) held counts no more: others wrote there, or nothing will read it again."""
        if pointer is None:
            self._slots.clear()
        else:
            self._slots.pop(pointer, None)

    def _slot(self, pointer: str, dtype: DType, lanes: int) -> _Slot:
        slot = self._slots.get(pointer)
        if slot is None or slot.lanes != lanes:
            self.save(pointer)
            slot = self._slots[pointer] = _Slot(dtype, lanes)
        return slot
