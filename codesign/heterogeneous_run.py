"""Steps of `vdla run --target vdla,llvm`: runs one network that is partitioned between the simulated accelerator and
the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from vdla.compiler.divided import Division
from vdla.compiler.frontends.onnx.attributes import opset_of
from vdla.compiler.frontends.onnx.model.load import OLDEST_OPSET
from vdla.compiler.frontends.onnx.model.opset_conversion import convert_opset
from vdla.compiler.frontends.onnx.model.qlinear import write_steps
from vdla.compiler.frontends.onnx.model.read import is_quantized, read_model
from vdla.compiler.graph.abilities import Abilities
from vdla.compiler.runtime.artifact import Compiled
from vdla.compiler.runtime.cpu_network import CpuNetwork
from vdla.compiler.runtime.heterogeneous_network import (
    CompiledRegion,
    HeterogeneousNetwork,
    HeterogeneousResult,
    RegionTime,
    run_region,
)
from vdla.util.errors import CodeError, UserError

from .cpu_alone import CpuAlone
from .divided_run import DividedRun
from .evaluate import (
    INTERPRETER,
    Arrays,
    compare_layers,
    interpreter_outputs,
    largest_difference,
    reference_to_use,
    sample_values,
    session_runs,
    shipped_samples,
    symmetric,
)
from .output_check import coarsest_float
from .report.division import (
    LARGEST,
    LSB,
    CostAccount,
    DivisionAccount,
    DivisionCheck,
    RegionAccount,
    RegionCheck,
)
from .samples import sample_port
from .verdict import (
    LAYER_STEPS_TOLERANCE,
    STEPS_TOLERANCE,
    WHOLE_TOLERANCE,
    Compared,
    relative_tolerance,
    why_widened,
    widened,
    within,
)


def sample_feeds(network: HeterogeneousNetwork, limits: Mapping[str, int]) -> Arrays:
    """Seeded inputs for one launch. A shipped model gets its sample inputs. For any other model, inputs that the
    accelerator reads are uniform over their quantized range, and `sample_port` makes all other inputs.

    `limits`: for each input that indexes a table, the size of the indexed axis, by name (`samples.index_limits`).
    """
    shipped = shipped_samples(network, 1)
    if shipped is not None:
        return shipped[0]
    grids = {
        item.name: region.code.graph.tensors[item.tensor].grid
        for region in network.regions
        if isinstance(region.code, Compiled)
        for item in region.code.graph.inputs
    }
    generator = np.random.default_rng(0)
    feeds: Arrays = {}
    for port in network.inputs:
        if port.name in grids:
            feeds[port.name] = sample_values(generator, port, grids[port.name])
        else:
            feeds[port.name] = sample_port(generator, port, limits)
    return feeds


def run_launches(
    network: HeterogeneousNetwork,
    launches: Sequence[Arrays],
    *,
    threads: int,
    where: str,
    on_launch: Callable[[], None] = lambda: None,
) -> list[HeterogeneousResult]:
    """Runs the partitioned network on the inputs of each launch; returns the results in the same order. The CPU's
    regions use `threads` threads. `on_launch` is called after each launch. Raises UserError, whose message begins with
    `where`, the source of the inputs.
    """
    results = []
    for feeds in launches:
        try:
            results.append(network.run(feeds, threads=threads))
        except CodeError:
            raise
        except UserError as error:
            raise UserError(f"{where}: {error}") from None
        on_launch()
    return results


def check_division(
    model: Path,
    network: HeterogeneousNetwork,
    launches: Sequence[Arrays],
    results: Sequence[HeterogeneousResult],
    wanted: str,
) -> tuple[DivisionCheck | None, str | None]:
    """Compares the accelerator's regions with our own interpreter, and every launch with a reference.

    `wanted` is the reference: onnxruntime, interpreter or auto. Returns (verdict, reason). The verdict is None if there
    was nothing to compare. The reason is a text that says why auto chose the interpreter as the reference, None in all
    other cases. Raises RuntimeError if simulator and interpreter differ, which is a defect of the toolkit.
    """
    for result in results:
        for region in network.regions:
            if isinstance(region.code, Compiled):
                _check_interpreter(region, region.code, result)
    against, remark = reference_to_use(wanted, model)
    verdict = DivisionCheck(against=against, images=len(launches))
    if against == INTERPRETER:
        return _equal_to_interpreter(network, verdict), remark
    borders = {name: None for region in network.regions for name in (*region.inputs, *region.outputs)}
    given = {port.name for port in network.inputs}
    names = [name for name in dict.fromkeys([*network.outputs, *borders]) if name not in given]
    content = _with_outputs(model, names)
    graphs = [region.code.graph for region in network.regions if isinstance(region.code, Compiled)]
    plain = _tensors(session_runs(content, names, launches, optimized=False), names, launches)
    fast = plain
    if any(not symmetric(graph) for graph in graphs):
        fast = _tensors(session_runs(content, names, launches, optimized=True), names, launches)
    for result, as_written, optimized in zip(results, plain, fast, strict=True):
        verdict = _compare(network, verdict, result, as_written, optimized)
    return verdict, remark


def _equal_to_interpreter(network: HeterogeneousNetwork, verdict: DivisionCheck) -> DivisionCheck | None:
    """Returns `verdict` with a passed check for every accelerator region, after `_check_interpreter` has found the
    regions equal to the interpreter. None if the accelerator has no region.
    """
    regions = [
        RegionCheck(
            name=region.name,
            mode="equal to the interpreter",
            difference=0,
            tolerance=0,
            unit=LSB,
            compared=Compared(outputs=len(region.outputs)),
        )
        for region in network.regions
        if region.accelerated
    ]
    return replace(verdict, regions=tuple(regions)) if regions else None


def _check_interpreter(region: CompiledRegion, compiled: Compiled, result: HeterogeneousResult) -> None:
    own = interpreter_outputs(compiled.graph, {name: result.tensors[name] for name in region.inputs})
    ours = {name: result.tensors[name] for name in region.outputs}
    difference = largest_difference(compiled.graph, ours, own)
    if difference:
        raise RuntimeError(
            f"{region.name}: the simulated outputs differ from the integer interpreter's by {difference} LSB; "
            "this is a defect of vdla"
        )


def _tensors(runs: list[list[np.ndarray]], names: Sequence[str], launches: Sequence[Arrays]) -> list[Arrays]:
    return [
        {**feeds, **dict(zip(names, values, strict=True))}
        for feeds, values in zip(launches, runs, strict=True)
    ]


def _with_outputs(model: Path, names: Sequence[str]) -> bytes:
    """The model with the tensors `names` as outputs. If a tensor exists only in the partitioned model (a dequantized or
    quantized tensor), the integer operators are first rewritten as float operators between DequantizeLinear and
    QuantizeLinear.
    """
    content = read_model(model).whole()
    if not {name for node in content.graph.node for name in node.output}.issuperset(names):
        if (opset := opset_of(content)) < OLDEST_OPSET:
            content = convert_opset(str(model), content, opset, OLDEST_OPSET)
        write_steps(str(model), content)
    known = {output.name for output in content.graph.output}
    content.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    return content.SerializeToString()


def _compare(
    network: HeterogeneousNetwork,
    verdict: DivisionCheck,
    result: HeterogeneousResult,
    as_written: Arrays,
    optimized: Arrays,
) -> DivisionCheck:
    """Compares the results of one more launch with ONNX Runtime's, and returns `verdict` updated by this comparison.

    `as_written` has all tensors that ONNX Runtime computes with its graph optimization off, and `optimized` has the
    tensors with the optimization on (the same object if no region has uint8 layers). With the optimization, ONNX
    Runtime computes uint8 layers in integers, like the accelerator. But then it does not round the float operators
    between these layers as the model specifies.
    """
    checks = [_compare_region(region, as_written, optimized) for region in network.regions]
    names = [name for name in network.outputs if not _is_choice(as_written[name])]
    plain, fast = (
        [(result.outputs[name], found[name]) for name in names] for found in (as_written, optimized)
    )
    as_written_error, optimized_error = (
        max((_relative(a, b) for a, b in pairs), default=0.0) for pairs in (plain, fast)
    )
    own = max((_relative(b, c) for (_, b), (_, c) in zip(fast, plain, strict=True)), default=0.0)
    allowed = widened(WHOLE_TOLERANCE, own)
    failed = [*verdict.failed, *(str(check) for check in checks if not check.passed)]
    if not within(min(as_written_error, optimized_error), allowed):
        failed.append(
            f"end to end the outputs differ by {as_written_error:.1e} of the largest value, {allowed:.1e} allowed"
        )
    equal = any(all(_top1(a) == _top1(b) for a, b in pairs) for pairs in (plain, fast))
    regions = _worst(verdict.regions, checks)
    verdict = replace(
        verdict,
        accelerator_lsb=max((int(check.difference) for check in regions if check.unit == LSB), default=None),
        cpu_relative=max((check.difference for check in regions if check.unit != LSB), default=None),
        failed=tuple(dict.fromkeys(failed)),
        regions=regions,
        outputs=len(names),
    )
    if not names:
        return verdict
    return replace(
        verdict,
        output_relative=max(verdict.output_relative or 0.0, as_written_error),
        output_relative_optimized=None
        if optimized is as_written
        else max(verdict.output_relative_optimized or 0.0, optimized_error),
        top1_equal=verdict.top1_equal is not False and equal,
        output_tolerance=max(verdict.output_tolerance or 0.0, allowed),
        output_because=why_widened(own, LARGEST) if allowed > WHOLE_TOLERANCE else verdict.output_because,
    )


def _compare_region(region: CompiledRegion, as_written: Arrays, optimized: Arrays) -> RegionCheck:
    """The check of one region (on accelerator or CPU). The region gets ONNX Runtime's own tensors as inputs; its
    outputs, or all its layers, are compared with ONNX Runtime's tensors without (`as_written`) or with (`optimized`)
    optimization.
    """
    compared = Compared(outputs=len(region.outputs))
    match region.code:
        case Compiled(graph=graph):
            if not symmetric(graph):
                ours, _ = run_region(region, optimized)
                expected = {name: optimized[name] for name in region.outputs}
                steps, own = (largest_difference(graph, a, expected) for a in (ours, as_written))
                allowed = int(widened(STEPS_TOLERANCE, own))
                # Layers that multiply a difference can turn one rounding into many steps; therefore each layer is
                # checked alone.
                if steps <= allowed:
                    return RegionCheck(
                        name=region.name,
                        mode="outputs",
                        difference=steps,
                        tolerance=allowed,
                        unit=LSB,
                        compared=compared,
                        because=why_widened(own, LSB) if allowed > STEPS_TOLERANCE else "",
                    )
            feeds = {name: as_written[name] for name in region.inputs}
            abilities = Abilities.of(region.code.program.config)
            layers = compare_layers(region.model, [feeds], abilities=abilities)
            return RegionCheck(
                name=region.name,
                mode="layer by layer",
                difference=layers.largest,
                tolerance=LAYER_STEPS_TOLERANCE,
                unit=LSB,
                compared=layers.compared,
            )
        case CpuNetwork():
            ours, _ = run_region(region, as_written)
            error = max((_relative(ours[name], as_written[name]) for name in region.outputs), default=0.0)
            own = max((_relative(optimized[name], as_written[name]) for name in region.outputs), default=0.0)
            read = read_model(region.model)
            usual = relative_tolerance(quantized=is_quantized(read), floats=coarsest_float(read))
            allowed = widened(usual, own)
            return RegionCheck(
                name=region.name,
                mode="outputs",
                difference=error,
                tolerance=allowed,
                unit=LARGEST,
                compared=compared,
                because=why_widened(own, LARGEST) if allowed > usual else "",
            )


def _worst(known: Sequence[RegionCheck], more: Sequence[RegionCheck]) -> tuple[RegionCheck, ...]:
    """For each region, the worst check over all launches: a failed check if there is one, else the check with the
    largest difference.
    """
    found = {check.name: check for check in known}
    for check in more:
        before = found.get(check.name)
        if before is None or (not check.passed, check.difference) > (not before.passed, before.difference):
            found[check.name] = check
    return tuple(found.values())


def _relative(ours: np.ndarray, theirs: np.ndarray) -> float:
    """max |ours - theirs| / max |theirs| over finite elements (max |ours - theirs| if `theirs` is all zeros). Elements
    where both are NaN or the same infinity are ignored; any other element that is not finite makes the result the
    largest float64, which JSON can hold.
    """
    if np.array_equal(ours, theirs):
        return 0.0
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if np.isfinite(a).all() and np.isfinite(b).all():
        return float(np.abs(a - b).max() / (np.abs(b).max() or 1.0))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    difference = np.abs(np.where(same, 0.0, a) - np.where(same, 0.0, b))
    largest = np.abs(b[np.isfinite(b)]).max(initial=0.0) or 1.0
    return float(np.nan_to_num(difference / largest, nan=np.finfo(np.float64).max).max(initial=0.0))


def _is_choice(array: np.ndarray) -> bool:
    """Whether an output holds indices, counts or truth values, as of TopK or ArgMax. One rounding before a choice can
    replace the chosen number by any other one. Such outputs are therefore compared in their own region alone, which
    gets ONNX Runtime's tensors as inputs, and not end to end.
    """
    return array.dtype.kind == "b" or (array.dtype.kind in "iu" and array.dtype.itemsize > 2)


def _top1(array: np.ndarray) -> list[int]:
    if not array.size:
        return []
    return array.reshape(array.shape[0] if array.ndim > 1 else 1, -1).argmax(axis=1).tolist()


def account_division(
    run: DividedRun,
    division: Division,
    times: Sequence[RegionTime],
    alone: CpuAlone,
    check: DivisionCheck | None,
) -> DivisionAccount:
    """Combines, region by region, the measured `times` of a partitioned run, the times of the same regions when the CPU
    runs the whole network (`alone`), and the result of the check.
    """
    regions = [
        RegionAccount(
            name=region.name,
            target="vdla" if region.accelerated else "llvm",
            nodes=region.nodes,
            operators=region.operators,
            inputs=region.inputs,
            outputs=region.outputs,
            seconds=spent.seconds,
            boundary_seconds=spent.boundary_seconds,
            cycles=spent.cycles,
            cpu_seconds=alone.regions.get(region.name),
        )
        for region, spent in zip(division.network.regions, times, strict=True)
    ]
    return DivisionAccount(
        model=run.model.stem,
        config=run.machine.name,
        warnings=run.machine.warnings,
        clock_hertz=run.clock.hertz,
        clock_is=run.clock.source,
        cpu=run.processor.cpu,
        threads=run.threads,
        repeat=run.repeat,
        partition="cost" if run.by_cost else "support",
        regions=tuple(regions),
        costs=tuple(
            CostAccount(
                nodes=item.nodes,
                accelerator_seconds=item.accelerator_seconds,
                boundary_seconds=item.boundary_seconds,
                cpu_seconds=item.cpu_seconds,
                target="vdla" if item.accelerated else "llvm",
                remark=item.remark,
            )
            for item in division.comparisons
        ),
        all_cpu_seconds=alone.seconds,
        all_cpu_remark=alone.remark,
        check=check,
        refusals=_refusals(division),
    )


def _refusals(division: Division) -> dict[str, str]:
    """Maps each kind of operator that the accelerator does not support in some node to the reason given for the first
    such node. The kinds are in the order of regions (parts of the network).

    Often a node is refused only because the node that computes its input was refused. So if a region has other reasons,
    reasons about inputs are left out.
    """
    reasons = dict[str, str]()
    for region in division.network.regions:
        refused = {
            operator: division.refusals[node]
            for node, operator in zip(region.nodes[::-1], region.node_types[::-1], strict=True)
            if not region.accelerated and node in division.refusals
        }
        causes = {key: why for key, why in refused.items() if not why.startswith("its input")}
        for operator, reason in reversed((causes or refused).items()):
            reasons.setdefault(operator, reason)
    return reasons
