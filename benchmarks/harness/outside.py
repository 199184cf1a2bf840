"""Measures networks from ONNX files that this project does not ship, on one thread against ONNX Runtime
(the "peer").
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from vdla.codesign.evaluate import ONNXRUNTIME
from vdla.codesign.models.originals import NAMES
from vdla.codesign.output_check import check_outputs
from vdla.codesign.timing import interleaved, ratio
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.frontends.onnx.model.read import is_quantized
from vdla.compiler.pipeline import compile_kernels
from vdla.util.errors import UserError

from .case import relative_error
from .page import Document, source
from .peer import session

RESULTS_NAME = "cpu_outside"
"""Name of the file in benchmarks/results with a row for each measured ONNX file."""
SEED = 0
"""Seed of the networks' input values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideRow:
    """The result of measuring the network in one ONNX file.

    `sha256`: hash of the file; `ratio`: our time over the peer's (median of the rounds' ratios; below 1 ours is
    faster); times are median milliseconds. `error`: max |a - b| / max |b| of the output that differs most. `check`: the
    mode of the successful check of the outputs (`processor_run.OutputCheck.mode`), or "wrong".
    """

    name: str
    sha256: str
    quantized: bool
    ours_ms: float
    peer_ms: float
    ratio: float
    error: float
    check: str
    compile_s: float
    threads: int = 1

    @property
    def right(self) -> bool:
        """Whether the outputs equal the peer's, within the tolerance of `verdict`."""
        return self.check != "wrong"


def measure_file(path: Path, rounds: int) -> OutsideRow:
    """Measures the network in the ONNX file at `path`, which has static shapes, in `rounds` rounds. Our runs and ONNX
    Runtime's alternate; times are thread CPU times. Returns the network's row.

    Raises UserError if the file cannot be read or compiled.
    """
    try:
        model = onnx.load(path)
        # The hash of this file alone, without weights stored beside it.
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except Exception as error:
        raise UserError(f"{path}: is no ONNX model: {error}") from None
    data = model.SerializeToString()
    started = time.process_time()
    network = compile_kernels(data, cpu_now())
    compiled = time.process_time() - started
    try:
        feeds = inputs(network.input_shapes)
        peer = session(model)
        expected = [np.asarray(value) for value in peer.run(None, feeds)]
        got = network.run(feeds)
        errors = [
            relative_error(got[output.name], value)
            for output, value in zip(model.graph.output, expected, strict=True)
        ]
        check, _ = check_outputs(path, feeds, got, ONNXRUNTIME)
        assert check is not None
        ours, theirs = interleaved(
            time.thread_time, [lambda: network.run(feeds), lambda: peer.run(None, feeds)], rounds
        )
    finally:
        network.close()
    return OutsideRow(
        name=path.name,
        sha256=digest,
        quantized=is_quantized(data),
        ours_ms=round(statistics.median(ours) * 1e3, 3),
        peer_ms=round(statistics.median(theirs) * 1e3, 3),
        ratio=round(ratio(ours, theirs), 3),
        error=max(errors),
        check=check.mode if check.passed else "wrong",
        compile_s=round(compiled, 2),
    )


def inputs(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Seeded float32 inputs of the given shapes, by name, with a standard normal distribution."""
    rng = np.random.default_rng(SEED)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def outside_text(document: Document) -> str:
    """A page's table of the measured ONNX files, one row each, with provenance; networks that `originals` measures in
    float32 are left out.
    """
    lines = [
        "| file | ours | ONNX Runtime | our time over the peer's | largest error | compared | SHA-256 begins |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['name']}{', int8' if row['quantized'] else ''} | "
        f"{row['ours_ms']:.2f} ms | {row['peer_ms']:.2f} ms | {row['ratio']:.2f} | "
        f"{row['error']:.1e} | {row['check']} | {row['sha256'][:12]} |"
        for row in document["rows"]
        if row["quantized"] or not row["name"].startswith(NAMES)
    ]
    return "\n".join([*lines, "", source(RESULTS_NAME, document)])
