"""Times of a network partitioned between accelerator and CPU as a table: one line for each region, and a summary."""

from __future__ import annotations

from collections import Counter

from rich.box import SIMPLE
from rich.table import Table

from ..technology.clock import Clock
from .division import LARGEST, LSB, CostAccount, DivisionAccount, DivisionCheck, amount
from .hardware import warning_lines

MOST_REFUSALS = 5
"""The largest number of refused operators that the summary lists."""


def region_table(account: DivisionAccount) -> Table:
    """A table with one line for each region (part of the network on one device), in the order in which the
    regions run.
    """
    total = account.total_seconds
    offloaded = any(region.target == "vdla" for region in account.regions)
    places = [account.config, account.cpu] if offloaded else [account.cpu]
    table = Table(
        title=f"{account.model} on {' and '.join(places)}",
        title_justify="left",
        box=SIMPLE,
        padding=(0, 1),
        collapse_padding=True,
        show_footer=True,
    )
    whole = account.all_cpu_seconds
    table.add_column("region", footer="total", no_wrap=True)
    table.add_column("target", no_wrap=True)
    # The only column that wraps: on a narrow terminal all columns would lose digits otherwise.
    table.add_column("operators", max_width=60)
    for heading, footer in (
        ("cycles", f"{sum(region.cycles or 0 for region in account.regions):,}"),
        ("ms", f"{(total - account.boundary_seconds) * 1e3:.3f}"),
        ("border ms", f"{account.boundary_seconds * 1e3:.3f}"),
        ("share", "100.0%"),
        ("on CPU ms", "" if whole is None else f"{whole * 1e3:.3f}"),
    ):
        table.add_column(heading, footer=footer, justify="right", no_wrap=True)
    for region in account.regions:
        table.add_row(
            region.name,
            region.target,
            count_operators(region.operators),
            "" if region.cycles is None else f"{region.cycles:,}",
            f"{region.seconds * 1e3:.3f}",
            f"{region.boundary_seconds * 1e3:.3f}" if region.target == "vdla" else "",
            f"{(region.seconds + region.boundary_seconds) / total:.1%}" if total else "",
            "" if region.cpu_seconds is None else f"{region.cpu_seconds * 1e3:.3f}",
        )
    return table


def count_operators(operators: tuple[str, ...]) -> str:
    """Text with the number of occurrences of each operator; conversions (QuantizeLinear ...) are left out unless there
    is nothing else.
    """
    counts = Counter(operators)
    work = {
        name: count for name, count in counts.items() if name not in ("QuantizeLinear", "DequantizeLinear")
    }
    return ", ".join(name if count == 1 else f"{count} {name}" for name, count in (work or counts).items())


def division_summary(account: DivisionAccount) -> list[str]:
    """Lines of text below the table of regions: simulated and measured times, Amdahl's limits, the costs that decided
    the partition, and the comparison of outputs.
    """
    workers = "1 thread" if account.threads == 1 else f"{account.threads} threads"
    lines: list[str] = []
    if any(region.target == "vdla" for region in account.regions):
        clock = Clock(hertz=account.clock_hertz, source=account.clock_is)
        lines += [
            f"{_ms(account.total_seconds)} in all: accelerator {_ms(account.accelerator_seconds)} (simulated, at "
            f"{clock}), conversions at its border {_ms(account.boundary_seconds)} and CPU "
            f"{_ms(account.cpu_seconds)} (measured on {account.cpu}, {workers})",
            f"Amdahl: with an infinitely fast accelerator this division is {account.limit or 1.0:.2f} times as fast",
        ]
        lines += _against_cpu(account)
    else:
        lines.append(
            f"{_ms(account.total_seconds)} measured on {account.cpu}, {workers}; nothing runs on the accelerator"
        )
    lines += [_cost(cost) for cost in account.costs]
    reasons = [f"{operator}: {reason}" for operator, reason in account.refusals.items()]
    more = len(reasons) - MOST_REFUSALS
    reasons[MOST_REFUSALS:] = [f"{more} other operators (--json lists them)"] if more > 0 else []
    lines += [f"not on the accelerator: {reason}" for reason in reasons]
    if account.check is not None:
        lines += _check(account.check)
    return [*lines, *warning_lines(account.warnings)]


def _against_cpu(account: DivisionAccount) -> list[str]:
    if account.all_cpu_seconds is None or account.speedup is None or account.offloaded_share is None:
        return [f"the CPU alone cannot run this network: {account.all_cpu_remark}"]
    faster = account.speedup >= 1
    factor = account.speedup if faster else 1 / account.speedup
    limit = account.limit_over_cpu
    most = (
        ""
        if limit is None
        else f": no accelerator makes the network more than {limit:.2f} times as fast as this CPU"
    )
    return [
        f"the CPU alone takes {_ms(account.all_cpu_seconds)} (measured): the division is {factor:.2f} times "
        f"{'faster' if faster else 'slower'}",
        f"the CPU spends {account.offloaded_share:.1%} of that time in nodes that the accelerator runs here"
        + most,
    ]


def _cost(cost: CostAccount) -> str:
    nodes = cost.nodes[0] if len(cost.nodes) == 1 else f"{cost.nodes[0]} .. {cost.nodes[-1]}"
    offloaded = f"{_ms(cost.accelerator_seconds)} simulated + {_ms(cost.boundary_seconds)} conversions"
    if cost.cpu_seconds is None:
        return f"cost of {nodes}: {offloaded}; the CPU cannot run these nodes ({cost.remark}); chosen: vdla"
    return f"cost of {nodes}: {offloaded} against {_ms(cost.cpu_seconds)} measured on the CPU; chosen: {cost.target}"


def _check(check: DivisionCheck) -> list[str]:
    """Lines of text on the comparison of outputs: the compared regions, the largest and the allowed differences, and
    the reasons.
    """
    images = "1 launch" if check.images == 1 else f"{check.images} launches"
    parts: list[str] = []
    for kind, unit, found in (
        ("accelerator", LSB, check.accelerator_lsb),
        ("CPU", LARGEST, check.cpu_relative),
    ):
        regions = [region for region in check.regions if region.unit == unit]
        if regions and found is not None:
            most = max(regions, key=lambda region: region.tolerance)
            allowed = f"{amount(most.tolerance, unit)} allowed"
            parts.append(f"{_regions(len(regions), kind)} by at most {amount(found, unit)} ({allowed})")
    if check.output_relative is not None and check.output_tolerance is not None:
        optimized = check.output_relative_optimized
        both = "" if optimized is None else f", {optimized:.1e} with its optimization"
        top1 = "equal" if check.top1_equal else "DIFFERENT"
        parts.append(
            f"end to end {'1 output' if check.outputs == 1 else f'{check.outputs} outputs'} by "
            f"{amount(check.output_relative, LARGEST)}{both} ({check.output_tolerance:.1e} allowed), top-1 {top1}"
        )
    if check.accelerator_lsb is None and check.output_relative is None:
        parts.append(f"{_regions(len(check.regions), 'accelerator', 'is', 'are')} equal")
    lines = [f"against {check.against}, region by region, {images}: {'; '.join(parts)}"]
    lines += [f"more is allowed for {r.name}: {r.because}" for r in check.regions if r.because]
    if check.output_because:
        lines.append(f"more is allowed end to end: {check.output_because}")
    return lines


def _regions(count: int, kind: str, one: str = "differs", several: str = "differ") -> str:
    return f"1 {kind} region {one}" if count == 1 else f"{count} {kind} regions {several}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"
