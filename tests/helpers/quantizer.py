"""Quantizes networks by ONNX Runtime's static quantizer."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
from float_networks import FloatNetwork
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static


class Samples(CalibrationDataReader):
    """Calibration data: three seeded inputs of `shape`."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        random = np.random.default_rng(0)
        self.rest = [{"x": random.standard_normal(shape, dtype=np.float32)} for _ in range(3)]

    def get_next(self):
        return self.rest.pop() if self.rest else None


def quantized(
    net: FloatNetwork,
    folder: Path,
    activations: QuantType = QuantType.QUInt8,
    form: QuantFormat = QuantFormat.QOperator,
) -> bytes:
    """The bytes of the network after ONNX Runtime's static quantization: weights int8 with a scale for each channel,
    activations of type `activations`, in the given `form`. `folder`: folder for the files of the models before and
    after.
    """
    logging.disable(logging.WARNING)
    plain, made = folder / "float.onnx", folder / "quantized.onnx"
    plain.write_bytes(net.model())
    quantize_static(
        plain,
        made,
        Samples(net.input_shape),
        quant_format=form,
        activation_type=activations,
        weight_type=QuantType.QInt8,
        per_channel=True,
    )
    return made.read_bytes()
