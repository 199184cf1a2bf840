"""Code of several benchmarks: quantizes networks with default tools, and makes the machine (accelerator configuration)
that runs them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vdla.isa.config import Config, load_config
from vdla.isa.extensions import EXTENSION_TABLE

NEEDED = ("table", "broadcast", "rows", "zero_points")
"""Extensions that a machine needs for squeeze-and-excitation, normalizations, softmax, attention, and activation
functions other than ReLU.
"""
TAPS_EXTENSIONS = tuple([name for name, item in EXTENSION_TABLE.items() if "taps" in (name, item.needs)])
"""The extension `taps` (depthwise operations on several positions at once), and the extensions that need it, by name:
these are the extensions of the machines on which benchmarks measure depthwise convolutions.
"""


def quantize_qdq(
    plain: Path, out: Path, feeds: Iterable[Mapping[str, np.ndarray]], *, exclude: Sequence[str] = ()
) -> None:
    """Writes the quantized form of the ONNX file `plain`, calibrated on `feeds`, to `out`.

    Runs ONNX Runtime's preprocessing, then its static quantization: QDQ, uint8 activations, int8 weights by channel.
    Nodes named in `exclude` stay float.
    """
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.data: Iterator[Mapping[str, np.ndarray]] = iter(feeds)

        def get_next(self) -> Any:
            return next(self.data, None)

    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        quant_pre_process(str(plain), str(prepared), skip_symbolic_shape=True)
        quantize_static(
            str(prepared),
            str(out),
            Reader(),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            nodes_to_exclude=list(exclude),
        )


def vta_with(extensions: Sequence[str] = NEEDED) -> Config:
    """The preset `vta` with further extensions. Raises UserError if an extension is unknown."""
    preset = load_config("vta")
    return replace(preset, extensions=tuple(dict.fromkeys((*preset.extensions, *extensions))))
