"""Sizes for symbolic dimensions of a model, and values for inputs that decide shapes: `--dim NAME=SIZE` and `--constant
NAME=VALUE,...` of the command line.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from vdla.compiler.graph.errors import ContradictionError
from vdla.compiler.runtime.lengths import Lengths
from vdla.util.errors import UserError


def parse_dimensions(texts: Sequence[str]) -> dict[str, int]:
    """Sizes of symbolic dimensions by name, from texts like "sequence=128". Raises UserError for invalid texts and for
    a repeated name.
    """
    sizes: dict[str, int] = {}
    for text in texts:
        # A symbol may be an expression that contains "="; a number does not.
        name, _, size = text.rpartition("=")
        if not name or not size.isascii() or not size.isdecimal():
            raise UserError(f"--dim {text}: write NAME=SIZE, as in --dim sequence=128")
        if name in sizes:
            raise UserError(f"--dim {name} is given twice; once is enough")
        sizes[name] = int(size[:12])
    return sizes


def parse_constants(texts: Sequence[str]) -> dict[str, list[int | float]]:
    """Values of inputs that become constants, by input name, from texts like "axes=0,1" ("axes=" gives no values).
    Raises UserError for invalid texts and for a repeated name.
    """
    values: dict[str, list[int | float]] = {}
    for text in texts:
        name, _, listed = text.rpartition("=")
        try:
            numbers = [_number(part) for part in listed.split(",")] if listed else []
        except ValueError:
            numbers, name = [], ""
        if not name:
            raise UserError(
                f"--constant {text}: write NAME=VALUE,... with numbers, as in --constant axes=0,1"
            )
        if name in values:
            raise UserError(f"--constant {name} is given twice; once is enough")
        values[name] = numbers
    return values


def parse_length(text: str) -> Lengths:
    """The name of a symbolic dimension and its range, from a text like "sequence=1:512". Raises UserError for invalid
    texts.
    """
    name, _, listed = text.rpartition("=")
    parts = listed.split(":")
    if not name or len(parts) != 2 or not all(part.isascii() and part.isdecimal() for part in parts):
        raise UserError(f"--length {text}: write NAME=LEAST:MOST, as in --length sequence=1:512")
    least, most = (int(part[:12]) for part in parts)
    if not 1 <= least <= most:
        raise UserError(
            f"--length {text}: {least} to {most} is not a range; give the smallest length first, 1 or more"
        )
    return Lengths(symbol=name, least=least, most=most)


def parse_pads(texts: Sequence[str]) -> dict[str, float]:
    """Padding values by input name, from texts like "mask=-1e9". Raises UserError for invalid texts and for a repeated
    name.
    """
    pads: dict[str, float] = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        try:
            number = _number(value)
        except ValueError:
            name, number = "", 0
        if not name:
            raise UserError(f"--pad {text}: write NAME=VALUE with a number, as in --pad mask=-1e9")
        if name in pads:
            raise UserError(f"--pad {name} is given twice; once is enough")
        pads[name] = number
    return pads


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


@contextlib.contextmanager
def sized_model(model: Path, texts: Sequence[str], constants: Sequence[str] = ()) -> Iterator[Path]:
    """A context with the path of a copy of `model`, a temporary file that is removed after the block. In the copy
    symbolic dimensions have the sizes in `texts` ("sequence=128"), and inputs have the values in `constants`
    ("axes=0,1").

    Without sizes and constants the path is `model` itself. Errors raised in the block name the model's own path. Raises
    UserError.
    """
    sizes, values = parse_dimensions(texts), parse_constants(constants)
    if not sizes and not values:
        yield model
        return
    # Modules that read models take long to import, and most models have no symbolic dimensions.
    from vdla.compiler.frontends.onnx.model.bound_inputs import with_constants
    from vdla.compiler.frontends.onnx.model.model_file import ModelFile
    from vdla.compiler.frontends.onnx.model.sizes import with_dimensions

    content = with_constants(model, values) if values else b""
    if sizes:
        content = with_dimensions(ModelFile(path=model, content=content) if values else model, sizes)
    with tempfile.TemporaryDirectory(prefix="vdla-") as folder:
        path = Path(folder) / model.name
        path.write_bytes(content)
        try:
            yield path
        except ContradictionError as error:
            given = ", ".join(f"{name}={size}" for name, size in sizes.items())
            raise ContradictionError(
                str(model),
                error.reason,
                f"the model was exported for other sizes than {given}; give the sizes of its export, or export it "
                f"again with {given}",
            ) from None
        except UserError as error:
            # The same error with a new message; a new instance would need the arguments of its class.
            error.args = tuple(_renamed(item, path, model) for item in error.args)
            raise


def _renamed(item: object, path: Path, model: Path) -> object:
    return item.replace(str(path), str(model)) if isinstance(item, str) else item
