"""Errors about models in other formats than ONNX."""

from __future__ import annotations

from vdla.util.errors import LinesError


class FrontendError(LinesError):
    """Raised for a model that a frontend cannot read or convert. The message has a line for each mistake, without the
    name of the file, which the caller adds to the first line.
    """
