"""Text forms of all executables: one line, a table for notebooks, and their code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from vdla.util.closing import Closing
from vdla.util.errors import UserError
from vdla.util.notebook_tables import html_table

if TYPE_CHECKING:
    from .executable import Executable, Port

Texts = Mapping[str, Callable[[], str]]
"""For each kind of source (such as "llvm") the function that makes its text."""


class Readable(Closing):
    """Mixin of executables: their source code and text representations, made from their `texts`."""

    __slots__ = ()

    def texts(self) -> Texts:
        """The sources that this executable has, by kind."""
        raise NotImplementedError

    def source(self, kind: str) -> str:
        """The code that runs, as text: "instructions" of the accelerator, "llvm" (IR) or "asm" of a processor, "cuda"
        (C++), "opencl" (C) or "wgsl" of a GPU. Raises UserError, which names the available kinds, for any other.
        """
        texts = self.texts()
        if kind not in texts:
            there = " and ".join(f'"{name}"' for name in texts) or "none"
            raise UserError(f'{self._executable.name}: it has no source "{kind}"; it has {there}')
        return texts[kind]()

    @property
    def _executable(self) -> Executable:
        return cast("Executable", self)

    def __repr__(self) -> str:
        own = self._executable
        ends = (", ".join(map(_port, ports)) for ports in (own.inputs, own.outputs))
        return f"<{type(self).__name__} {own.name}: {' -> '.join(ends)}>"

    def _repr_html_(self) -> str:
        own = self._executable
        rows = [
            (what, port.name, str(port.dtype), _shape(port))
            for what, ports in (("input", own.inputs), ("output", own.outputs))
            for port in ports
        ]
        return html_table(f"{type(self).__name__} {own.name}", ("", "name", "type", "shape"), rows)


def _port(port: Port) -> str:
    return f"{port.name} {port.dtype} [{_shape(port)}]"


def _shape(port: Port) -> str:
    sizes = [str(size) for size in port.shape]
    for item in port.ranges:
        sizes[item.axis] = f"{item.least}:{item.most}"
    return ", ".join(sizes)


class CompiledKernels(Readable):
    """Base class of executables made of kernels for a processor or a GPU.

    The cache's files contain machine code only, so `again` recompiles a network that was loaded from the cache to get
    its text. `of_gpu`: the text of emulated GPU kernels, by the kind of the GPU.
    """

    again: Callable[[], Executable] | None = None
    of_gpu: Texts = MappingProxyType({})

    def source(self, kind: str) -> str:
        """The code that runs, as text of the given `kind`, such as "llvm" or "cuda" (`Readable.source`). A network that
        was loaded from the cache is compiled again.
        """
        if self.again is None:
            return super().source(kind)
        with self.again() as made:
            return made.source(kind)

    def text_of(self, kind: str, parts: Iterable[tuple[str, str]]) -> str:
        """The texts of `parts` (name, text), each after a line with the part's name. Raises UserError if a text is
        empty.
        """
        listed = list(parts)
        if all(text for _, text in listed):
            return joined(kind, listed)
        raise self.without_text(kind)

    def without_text(self, kind: str) -> UserError:
        """Returns the error for a network that was loaded from a file without text; `kind`: the source asked for."""
        return UserError(
            f"{self._executable.name}: was read from a file, which contains machine code only; compile the model with "
            f'vdla.compile to get its source "{kind}"'
        )


_COMMENTS = {"llvm": ";", "asm": "#", "instructions": "#", "cuda": "//", "opencl": "//", "wgsl": "//"}


def joined(kind: str, parts: Iterable[tuple[str, str]]) -> str:
    """The texts of `parts` (name, text), each after a line with the part's name as a comment in the language `kind`."""
    return "\n".join(f"{_COMMENTS[kind]} {name}\n{text}" for name, text in parts)


def texts_of_parts(parts: Iterable[tuple[str, Readable]]) -> Texts:
    """The sources of an executable that consists of `parts` (name, executable). It has every kind of source that at
    least one part has.
    """
    listed = list(parts)

    def text(kind: str) -> str:
        return joined(kind, [(name, part.source(kind)) for name, part in listed if kind in part.texts()])

    return {
        kind: partial(text, kind) for kind in dict.fromkeys(k for _, part in listed for k in part.texts())
    }
