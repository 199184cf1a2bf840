"""Files that are no ONNX models. A file is converted if there is a frontend for its format; otherwise an error message
explains the problem.
"""

from __future__ import annotations

from pathlib import Path

from google.protobuf.message import EncodeError

from vdla.util.errors import LinesError

from ....graph.errors import ModelError

TFLITE = b"TFL3"
"""The identifier of TFLite's flatbuffers, at byte 4."""


class ConversionError(ModelError, LinesError):
    """Raised for a model of another format that cannot be converted; the message has a line for each cause."""


def as_onnx(label: str, content: bytes) -> bytes:
    """Converts a file of another format to a serialized ONNX model. Raises ModelError if there is no frontend for the
    format, if the frontend is not installed, if the file is damaged, or if an operator is not supported.
    """
    if content[4:8] == TFLITE:
        return _of_tflite(label, content)
    from vdla.util.git_lfs import is_pointer, pointer_problem

    if is_pointer(content):
        raise ModelError(f"{label}: {pointer_problem('the model')}")
    problem = problem_of_name(label) or "is not an ONNX file or is damaged; export or copy it again"
    raise ModelError(f"{label}: {problem}")


def problem_of_name(label: str) -> str:
    """The error text for a file that is called .tflite but holds neither a TFLite nor an ONNX model; empty for other
    names.
    """
    if not label.lower().endswith(".tflite"):
        return ""
    return f"is not a TFLite file or is damaged: bytes 4 to 7 are not {TFLITE.decode()}; convert or copy it again"


def _of_tflite(label: str, content: bytes) -> bytes:
    try:
        from ...errors import FrontendError
        from ...tflite.convert import convert
    except ModuleNotFoundError as error:
        if error.name not in ("tflite", "flatbuffers"):
            raise
        raise ModelError(
            f'{label}: TFLite models need the package {error.name}: pip install "vdla[tflite]"'
        ) from None
    try:
        return convert(content, Path(label).stem).SerializeToString(deterministic=True)
    except FrontendError as error:
        first, *rest = error.lines
        raise ConversionError([f"{label}: {first}", *rest]) from None
    except (ValueError, EncodeError):
        raise ModelError(
            f"{label}: as an ONNX model in memory it would have more than 2 GB; give a smaller model"
        ) from None
