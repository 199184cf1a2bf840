"""Errors about models in other formats than ONNX."""

from __future__ import annotations

from vdla.util.errors import LinesError


class FrontendError(LinesError):
    """A model that a frontend cannot read or convert. One line for each mistake, without the name of the file, which
    the caller adds to the first line."""
