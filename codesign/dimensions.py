"""Models with symbolic dimensions: `--dim NAME=SIZE` on the command line gives them sizes."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from vdla.compiler.graph.errors import ContradictionError
from vdla.util.errors import UserError


def parse_dimensions(texts: Sequence[str]) -> dict[str, int]:
    """Sizes by name of texts like "sequence=128". UserError for one that is none, or names a dimension twice."""
    sizes: dict[str, int] = {}
    for text in texts:
        # A symbol may be an expression with "=" in it; a number has none.
        name, _, size = text.rpartition("=")
        if not name or not size.isascii() or not size.isdecimal():
            raise UserError(f"--dim {text}: write NAME=SIZE, as in --dim sequence=128")
        if name in sizes:
            raise UserError(f"--dim {name} is given twice; once is enough")
        sizes[name] = int(size[:12])
    return sizes


@contextlib.contextmanager
def sized_model(model: Path, texts: Sequence[str]) -> Iterator[Path]:
    """The path of `model` with sizes for its symbolic dimensions: a file that lives as long as the block.

    Without any it is the model itself. What is raised within names the model's own path. Raises UserError.
    """
    sizes = parse_dimensions(texts)
    if not sizes:
        yield model
        return
    # Reading models takes long to import, and most have no such dimensions.
    from vdla.compiler.graph.onnx_load import with_dimensions

    content = with_dimensions(model, sizes)
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
                f"part of it is for other sizes than {given}: give those it was exported for, or export it again with "
                "these",
            ) from None
        except UserError as error:
            # The same error: some take other arguments than their text.
            error.args = tuple(_renamed(item, path, model) for item in error.args)
            raise


def _renamed(item: object, path: Path, model: Path) -> object:
    return item.replace(str(path), str(model)) if isinstance(item, str) else item
