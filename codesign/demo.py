"""Runs the demonstration: a shipped model from its ONNX file to the report, checked on eight images."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vdla.compiler.runtime.artifact import Compiled
from vdla.isa.config import Config
from vdla.util.files import write_whole
from vdla.util.user_files import make_directory

from . import models
from .evaluate import sample_arrays
from .network_run import LOADING, check_run, compile_network, load_simulator, simulate_network
from .report.account_run import account_total, run_account
from .report.cycle_breakdown import RunAccount
from .report.plots import layers_png, roofline_png
from .report.table import Variant
from .report.timeline import timeline

IMAGES = 8
LATENCIES = (60, 120, 240)
"""Read latencies in cycles at which the network is simulated again, to show their effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """Results of the demonstration, and the `files` with report, plots and timeline (without the model's file).
    `passed`: whether the outputs are within the check's tolerance and the top-1 classes agree.
    """

    account: RunAccount
    variants: tuple[Variant, ...]
    files: tuple[Path, ...]
    passed: bool

    @property
    def document(self) -> dict[str, Any]:
        """The contents of report.json: the JSON object of `vdla run` and, as `variants`, cycles and utilization with
        one virtual thread (no latency hiding) and with other read latencies.
        """
        others = [
            {"name": v.name, "cycles": v.cycles, "utilization": round(v.utilization, 6)}
            for v in self.variants
        ]
        return self.account.to_dict() | {"variants": others}


def run_demo(model: str, config: Config, folder: Path, begin: Callable[[str], None]) -> Demo:
    """Runs shipped `model` on `config` and writes model, report, plots and timeline into `folder`.

    `begin` is called with the name of each step. Raises UserError for an unknown model or a folder that cannot be
    made.
    """
    begin(f"building {model}")
    content = models.build(model).SerializeToString(deterministic=True)
    make_directory(folder)
    path = folder / f"{model}.onnx"
    write_whole(path, content)
    begin(f"compiling for {config.name}")
    compiled = compile_network(path, config)
    launches = sample_arrays(compiled.graph, IMAGES)
    begin(LOADING)
    load_simulator()
    begin(f"simulating {IMAGES} images")
    simulated = simulate_network(compiled, launches)
    begin("checking the outputs")
    check, _ = check_run(compiled, path, launches, simulated, "auto")
    account = run_account(model, compiled, simulated.simulation, simulated.seconds, check, energy=True)
    begin("one virtual thread, longer latencies")
    variants = _variants(path, config)
    demo = Demo(
        account=account,
        variants=variants,
        files=tuple(
            folder / name for name in ("report.json", "roofline.png", "layers.png", "timeline.perfetto-trace")
        ),
        passed=check.passed and check.top1_equal,
    )
    begin("writing the reports")
    contents = (
        (json.dumps(demo.document, indent=2, allow_nan=False) + "\n").encode(),
        roofline_png(account, config),
        layers_png(account),
        timeline(compiled.program, simulated.simulation),
    )
    for target, data in zip(demo.files, contents, strict=True):
        write_whole(target, data)
    return demo


def _variants(path: Path, config: Config) -> tuple[Variant, ...]:
    # With one virtual thread nothing hides latency; longer latencies show how much hiding gains.
    single = compile_network(path, config, virtual_threads=1)
    variants = [_variant("one virtual thread (no latency hiding)", single)]
    for latency in LATENCIES:
        slower = config.with_memory(replace(config.memory, read_latency=latency))
        variants.append(_variant(f"read latency {latency}", compile_network(path, slower)))
    return tuple(variants)


def _variant(name: str, compiled: Compiled) -> Variant:
    launches = sample_arrays(compiled.graph, 1)
    simulated = simulate_network(compiled, launches, data=False)
    total = account_total(compiled, simulated.simulation, simulated.seconds)
    return Variant(name=name, cycles=total.cycles, utilization=total.utilization)
