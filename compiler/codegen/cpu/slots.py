"""Store-to-load forwarding of stack slots at constant places, during emission of straight-line code.

Unrolled bodies add to the same accumulators hundreds of times. Without forwarding each sum would be stored and loaded
again, and LLVM would spend more time on removing these accesses than on the remaining code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...ir.types import DType

if TYPE_CHECKING:
    from .text import Block


@dataclass(slots=True)
class _Slot:
    """Values of `lanes` elements, by first element; `unsaved`: values that are not in memory yet."""

    dtype: DType
    lanes: int
    held: dict[int, str] = field(default_factory=dict)
    unsaved: dict[int, str] = field(default_factory=dict)


class Slots:
    """The slots of one function, by their pointers, from the beginning of a block to its end.

    A value put into a slot is stored at the end of the block at the latest (`save`), unless the slot is dead before
    that (`forget`). Places begin at multiples of their lanes, so two places of equal lanes are equal or disjoint;
    before accesses of other lanes, pending values are stored.
    """

    def __init__(self, block: Block) -> None:
        self._block = block
        self._slots: dict[str, _Slot] = {}

    def get(self, pointer: str, dtype: DType, lanes: int, start: int) -> str:
        """The value at a place, loaded from memory if no value is held."""
        slot = self._slot(pointer, dtype, lanes)
        text = slot.held.get(start)
        if text is None:
            block = self._block
            text = slot.held[start] = block.load_at(block.element(pointer, dtype, start), dtype, lanes)
        return text

    def put(self, pointer: str, dtype: DType, lanes: int, start: int, text: str) -> None:
        """Sets the value at a place; its store is pending."""
        slot = self._slot(pointer, dtype, lanes)
        slot.held[start] = slot.unsaved[start] = text

    def save(self, pointer: str | None = None) -> None:
        """Emits the pending stores of a slot (None: of all slots)."""
        for name in list(self._slots) if pointer is None else [pointer]:
            slot = self._slots.get(name)
            if slot is None:
                continue
            for start, text in slot.unsaved.items():
                at = self._block.element(name, slot.dtype, start)
                self._block.store_at(text, at, slot.dtype, slot.lanes)
            slot.unsaved.clear()

    def forget(self, pointer: str | None = None) -> None:
        """Drops the values of a slot (None: of all slots), because its memory was written by another access or will not
        be read again.
        """
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
