"""Results of tuning as text: a table of workloads, and lines about the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from .hardware import warning_lines
from .numbers import figure


def tune_table(document: Mapping[str, Any]) -> Table:
    """A table with a row for each workload in the JSON object that `vdla tune --json` prints."""
    unit = document["tasks"][0]["unit"] if document["tasks"] else ""
    scale, unit = (1e6, "us") if unit == "seconds" else (1, unit)
    table = Table(title=f"{document['name']} on {document['target']}")
    table.add_column("layer", no_wrap=True)
    table.add_column("template")
    for name in ("times", "trials", "failed", f"default, {unit}", f"tuned, {unit}", "gain", "above floor"):
        table.add_column(name, justify="right")
    names = [task["name"] for task in document["tasks"]]
    for task in document["tasks"]:
        mark = ["*"] if names.count(task["name"]) > 1 and task.get("fastest") else []
        best, default = task["best"], task["default"]
        table.add_row(
            task["name"],
            " ".join([task["workload"]["template"], *_operator(task["workload"]), *mark]),
            str(max(1, len(task["nodes"]))),
            str(task["trials"]),
            str(task["failed"]),
            _cost(default, scale),
            _cost(best, scale),
            "" if best is None or default is None else f"{default / best:.3f}",
            "" if best is None else f"{best / task['floor'] - 1:.1%}",
        )
    return table


def tune_lines(document: Mapping[str, Any]) -> list[str]:
    """Lines of text below the table of workloads: number of trials, seconds, and the network's time (on the
    accelerator, its cycles) before and after tuning. `document` is the JSON object of `vdla tune --json`.
    """
    trials = sum(task["trials"] for task in document["tasks"])
    lines = [
        f"{trials} trials of single layers in {document['seconds']:.1f} s, recorded in {document['records']}"
    ]
    names = [task["name"] for task in document["tasks"]]
    if len(set(names)) < len(names):
        lines.append("* the fastest method for the layer; networks use it with these records")
    network = document.get("network")
    if network is not None and "default_ms" in network:
        clock = "on one thread" if document["target"] == "llvm" else "by the device's clock"
        lines.append(
            f"whole network: {network['default_ms']:.3f} -> {network['tuned_ms']:.3f} ms {clock}; "
            f"{network['kernels_tuned']} of {network['kernels']} kernels use recorded knobs"
        )
    elif network is not None:
        lines.append(
            f"whole network: {network['default_cycles']:,.0f} -> {network['tuned_cycles']:,.0f} cycles "
            f"({network['trials']} trials in place), utilization {network['default_utilization']:.3f} -> "
            f"{network['tuned_utilization']:.3f}; {network['distance_closed']:.0%} of the distance to the bounds of "
            f"all layers ({network['bound_cycles']:,.0f} cycles) closed"
        )
    return lines + warning_lines(document.get("warnings", ()))


def _operator(workload: Mapping[str, Any]) -> list[str]:
    """[name of the workload's operator] if the workload's template supports several operators, else an empty list."""
    named = workload.get("rows") or workload
    return [named["operator"]] if "operator" in named else []


def _cost(value: float | None, scale: float) -> str:
    if value is None:
        return "none ran"
    value *= scale
    return figure(value)
