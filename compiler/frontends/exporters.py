"""Parts shared by the frontends that call another package's exporter to ONNX."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator

from vdla.util.errors import UserError


class ExportError(UserError):
    """Raised for a model that the exporter of its own framework rejects."""


def reason(error: BaseException) -> str:
    """The innermost cause of an exporter's `error` as "CLASS: first line of the message"."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """A context in which the exporter's progress, log and warnings are not printed."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        out = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
