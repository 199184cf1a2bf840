"""Static quantization by ONNX Runtime, with the settings that a new user would take."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np


def quantize(path: Path, out: Path, samples: Iterable[Mapping[str, np.ndarray]]) -> None:
    """Write the quantized form of a float ONNX file, calibrated on `samples`, arrays by input.

    QDQ, uint8 activations, int8 weights by channel, after ONNX Runtime's own preprocessing.
    """
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.data = iter(samples)

        def get_next(self) -> Any:
            found = next(self.data, None)
            return None if found is None else dict(found)

    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        quant_pre_process(str(path), str(prepared), skip_symbolic_shape=True)
        quantize_static(
            str(prepared),
            str(out),
            Reader(),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
        )
