"""Base class of resources that the end of a `with` block frees."""

from __future__ import annotations

from typing import Self


class Closing:
    """Base class of resources: the end of a `with` block closes them."""

    __slots__ = ()

    def close(self) -> None:
        """Frees the resource's memory, threads and devices, if it holds any."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
