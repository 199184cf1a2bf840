"""Tables about exploration for the project's pages: utilization over machines, models of area and energy, searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .page import Document, Row, Table, Where, at
from .quantized import TAPS_EXTENSIONS

_EXTENSIONS = " and ".join(
    [", ".join(f"`{name}`" for name in TAPS_EXTENSIONS[:-1]), f"`{TAPS_EXTENSIONS[-1]}`"]
)
"""Names of the extensions of the machines for MobileNets, as text."""


def _share(file: str, *path: str | Where) -> Any:
    return at(file, *path, then=lambda share: f"{share:.0%}")


def _utilizations(cells: Sequence[Document]) -> str:
    """Utilizations of ResNet-50 on the array of 128x128, for one image and for several at a time, as text."""
    return ", ".join(f"{cell['resnet50']['utilization']:.3f}" for cell in cells)


def _mobilenets(cell: Document) -> str:
    """Utilizations of MobileNet and MobileNet-v2 on one machine, as text."""
    return ", ".join(f"{cell[name]['utilization']:.3f}" for name in ("mobilenet", "mobilenet_v2"))


def _medians(document: Document) -> str:
    return ", ".join(
        f"{value['median']:.2f}" for name, value in document.items() if name.startswith("times faster")
    )


EXPLORATION = Table(
    note=(
        "Errors are on machines and programs that nothing was fitted on. Evaluations of searches are means over five "
        "seeds from equal first points, to 99% of the hypervolume of 4,096 machines that were all evaluated."
    ),
    rows=(
        Row(
            "utilization, ResNet-18 and ResNet-50, arrays 8x8 to 64x64, buses of 8 to 64 bytes, latencies 30 to 200: "
            "geometric mean, least, cells",
            "{0:.3f}, {1:.3f}, {2}",
            tuple(at("grid", "summary", "all", name) for name in ("geomean", "least", "cells")),
        ),
        Row(
            "the same, ResNet-50 on 128x128 with one image, with eight",
            "{0}",
            (at("grid_large", "cells", then=_utilizations),),
        ),
        Row(
            f"MobileNet-v1 and v2 on the machines of the first row with the extensions {_EXTENSIONS}, "
            "and `fold` where the array has more rows than columns, store FIFOs that keep the bus busy, "
            "more reads and writes outstanding, and 14,336 positions in the chain memory of wide ones: geometric mean, "
            "least, cells below 0.75, cells",
            "{0:.3f}, {1:.3f}, {2}, {3}",
            tuple(
                at("grid_mobilenets", "summary", "all", name)
                for name in ("geomean", "least", "below_three_quarters", "cells")
            ),
        ),
        Row(
            "those that fold, 64x16 and 32x8: geometric mean, least; the same without `fold`",
            "{0:.3f}, {1:.3f} and {2:.3f}, {3:.3f}; {4:.3f}, {5:.3f} and {6:.3f}, {7:.3f}",
            tuple(
                at("grid_mobilenets", which, array, name)
                for which in ("summary", "summary unfolded")
                for array in ("64x16", "32x8")
                for name in ("geomean", "least")
            ),
        ),
        Row(
            "MobileNet-v1, v2 on `vta` with a store FIFO of 512 bytes, of 1 KiB",
            "{0}; {1}",
            (
                at("grid_mobilenets", "vta, store FIFO of 512 bytes", then=_mobilenets),
                at("grid_mobilenets", "vta, store FIFO of 1 KiB", then=_mobilenets),
            ),
        ),
        Row(
            "designs a second and core, ResNet-18: all from nothing; kernels kept from design to design",
            "{0:.1f}; {1:.1f}",
            tuple(
                at("designs", name, "designs a second and core") for name in ("nothing kept", "kernels kept")
            ),
        ),
        Row(
            "area and clock by model against synthesis by module: mean error; inside the 90% interval; the same over "
            "random splits of the training machines",
            "{0:.2%}, {1:.3%}; {2}, {3}; {4}, {5}",
            (
                at("area_model", "area", "mean_error"),
                at("area_model", "clock", "mean_error"),
                _share("area_model", "area", "inside_interval"),
                _share("area_model", "clock", "inside_interval"),
                _share("area_model", "random_splits", "area", "inside_interval"),
                _share("area_model", "random_splits", "clock", "inside_interval"),
            ),
        ),
        Row(
            "of these machines, the share of logic in modules that training machines have just so (median); longest "
            "paths that one has, machines",
            "{0}; {1}, {2}",
            (
                _share("area_model", "seen_in_training", "logic_share", "median"),
                at("area_model", "seen_in_training", "longest_paths"),
                at("area_model", "held_out"),
            ),
        ),
        Row(
            "whole machines flattened and mapped in one piece against synthesis by module: logic, longest path; mean "
            "error of the model against these: logic, path; machines",
            "{0:+.1%}, {1:+.1%}; {2:.1%}, {3:.1%}; {4}",
            (
                at("flat_synthesis", "flattened_over_by_module", "logic"),
                at("flat_synthesis", "flattened_over_by_module", "path"),
                at("flat_synthesis", "mean_error_of_model", "logic"),
                at("flat_synthesis", "mean_error_of_model", "path"),
                at("flat_synthesis", "machines", then=len),
            ),
        ),
        Row(
            "energy by model against replayed switching, machines that nothing was fitted on, programs: mean error of "
            "data that change, clock pins, memories, all of it; all of it inside the 90% interval, whose mean width",
            "{0}, {1}: {2:.1%}, {3:.2%}, {4:.0%}, {5:.1%}; {6}, {7:.1%}",
            (
                at("energy_model", "judged", "machines", then=len),
                at("energy_model", "judged", "programs"),
                *(
                    at("energy_model", "judged", "mean_error", part)
                    for part in ("data", "clock", "memories", "whole")
                ),
                _share("energy_model", "judged", "inside_interval"),
                at("energy_model", "judged", "mean_width"),
            ),
        ),
        Row(
            "data that change with one energy for each operation, whatever its operands: mean error",
            "{0:.0%}",
            (at("energy_model", "mean_error_constant_energy"),),
        ),
        Row(
            "replayed switching against a timing tool's power, whole `tiny`: error",
            "{0:.2%}",
            (at("energy_replay", "error"),),
        ),
        Row(
            "evaluations that the search led by models needs; times fewer than NSGA-II, than random points",
            "{0:.0f}; {1:.1f}, {2:.1f}",
            (
                at("explore_search", "searches", "model", "mean"),
                at("explore_search", "times_fewer_by_model", "nsga2"),
                at("explore_search", "times_fewer_by_model", "random"),
            ),
        ),
        Row(
            "hypervolume found with a tenth of the evaluations",
            "{0:.2%}",
            (at("explore_search", "searches", "model", "mean_share_of_a_tenth"),),
        ),
        Row(
            "hardware and schedules searched together, in the area of `vta`: times faster than `vta` tuned, the best "
            "machine with the templates' schedules, that machine tuned afterwards",
            "{0}",
            (at("explore_joint", then=_medians),),
        ),
        Row(
            "studies killed at random moments: the same records afterwards; machines evaluated twice",
            "{0} of {1}; {2}",
            (at("explore_kills", "same"), at("explore_kills", "kills"), at("explore_kills", "twice")),
        ),
        Row(
            "dask workers, evaluations of known cost, speed of 4, of 8: a search that does not learn; NSGA-II in "
            "batches of 64",
            "{0:.2f}, {1:.2f}; {2:.2f}, {3:.2f}",
            tuple(
                at("explore_workers_known", "searches", search, "speed", count)
                for search in ("random, batches of 20", "nsga2, batches of 64")
                for count in ("4", "8")
            ),
        ),
        Row(
            "two processes for one, ResNet-18 and MobileNet: dask workers; our own processes",
            "{0:.2f}; {1:.2f}",
            tuple(at("explore_workers_real", "two over one", name) for name in ("dask", "processes")),
        ),
        Row(
            "from nothing to the report: ResNet-18 and MobileNet, designs, minutes",
            "{0}, {1:.1f}",
            (
                at("explore_campaign", "designs"),
                at("explore_campaign", "seconds until", "end", then=lambda seconds: seconds / 60),
            ),
        ),
        Row(
            "a report of 2,000 designs: MB; seconds until it can be used in a browser",
            "{0:.2f}; {1:.2f}",
            (
                at("explore_report", "bytes", then=lambda size: size / 1e6),
                at("explore_report", "usable, ms", "median", then=lambda ms: ms / 1e3),
            ),
        ),
    ),
)
