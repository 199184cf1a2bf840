"""Compile an ONNX model or a tensor expression for a target; load compiled files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.compiler import VIRTUAL_THREADS
from vdla.compiler.backends.backend import CompileOptions, KernelBackend
from vdla.compiler.backends.registry import backend_of
from vdla.compiler.frontends.sources import Example, TorchModel, model_source
from vdla.compiler.graph.errors import NodeError, parameters_of
from vdla.compiler.ir.stmt import Program
from vdla.compiler.runtime.executable import Executable
from vdla.compiler.schedule import Schedule
from vdla.util.errors import UserError
from vdla.util.user_cache import CacheError, say_not_kept

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import onnx
    from numpy.typing import ArrayLike

    from vdla.compiler.records.book import RecordBook
    from vdla.compiler.runtime.lengths import Lengths
    from vdla.isa.config import Config


def compile(
    model: str | Path | bytes | onnx.ModelProto | TorchModel | Callable[..., Any],
    target: str = "vdla",
    config: Config | str | Path | None = None,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    device: int | str | None = None,
    batch: int = 1,
    records: RecordBook | str | Path | None = None,
    virtual_threads: int = VIRTUAL_THREADS,
    dump_passes: str | Path | None = None,
    constants: Mapping[str, ArrayLike] | None = None,
    lengths: Mapping[str, tuple[int, int]] | None = None,
    pads: Mapping[str, float] | None = None,
    tolerance: float | None = None,
    cache: bool = True,
) -> Executable:
    """Compile a network: path or bytes of an ONNX file, ModelProto, PyTorch module or exported program, JAX function.

    A torch.nn.Module is exported in evaluation mode by PyTorch's own exporter, with the example arguments `args` and
    `kwargs` of its `forward` (tensors or arrays) and the `dynamic_shapes` that torch.export takes. A program of
    torch.export has its own arguments. Inputs have the names of the parameters of `forward`, layers the names of
    modules. If one dimension is dynamic and has an upper bound, its range is the default of `lengths`.

    A JAX function (any callable that JAX traces, also a module of flax.nnx; functools.partial binds parameters) is
    exported by jax2onnx with the arrays `args` and `kwargs`; `dynamic_shapes` names dimensions: {"x": {1: "length"}}.

    `target` is "vdla" (the accelerator `config`, simulated), "llvm" (this processor), "vdla,llvm" (operators that the
    accelerator does not support run on the processor), "cuda" (a GPU), "opencl" (an OpenCL device) or "wgsl" (a device
    of Vulkan, Metal or DirectX), each with its options as `vdla compile --target` takes them. `config` is a
    configuration, a preset's name or a TOML file; `vta` unless given. `device` is a GPU's number, or "emulated". On
    processors and GPUs, a dynamic first dimension of the inputs gets the size `batch`. `records` are records of the
    tuner (a file or a book); "shipped" means the records that ship with the package. `virtual_threads`, 1 or 2, is the
    number of copies of each of the accelerator's buffers; 2 hide latency. `dump_passes` names a folder that gets the
    program after each pass. `constants` are values by input name; these inputs become constants. This is meant for
    inputs that decide shapes, such as the axes of a reduction. Without `constants`, a network on processors or GPUs
    that has such inputs (of 64 elements at most) is compiled when their values arrive: `run` compiles a program for
    each new value (or raises the error of compilation) and caches 16 programs.

    `lengths` is the least and the greatest size of a symbolic dimension of the inputs, as in {"sequence": (1, 512)}:
    the executable then takes arrays of any length in this range, pads them to one of a few lengths for which it has
    programs, and crops the outputs. `tolerance` is the largest slowdown of any length against a program compiled for
    that length: by default 0.03 (of exact cycles) on the accelerator; 0.025 on processors, where the lengths are in
    fixed ratios. `pads` maps names of inputs to the values after their real tokens, by default 0.

    Networks for a processor or a GPU are cached for this user, together with those of the command line; the same model
    compiles only once. With `lengths`, `dump_passes`, or `cache` False, the cache is not used: the network is compiled
    in this process and holds the programs of its kernels as well. Raises UserError, also if outputs of real tokens
    depend on the padding after them.
    """
    if isinstance(model, str | Path | bytes):
        source = model
    else:
        given = model_source(model, Example(args=args, kwargs=kwargs or {}, dynamic_shapes=dynamic_shapes))
        source = given.source
        if lengths is None and len(given.ranges) == 1:
            lengths = given.ranges
    if constants:
        from vdla.compiler.frontends.onnx.model.bound_inputs import with_constants

        source = with_constants(source, constants)
    options = CompileOptions(
        target=target,
        config=_config(config),
        device=None if device is None else str(device),
        batch=batch,
        records=_records(records),
        virtual_threads=virtual_threads,
        dump_passes=None if dump_passes is None else Path(dump_passes),
    )
    if lengths is None:
        if pads or tolerance is not None:
            raise UserError("pads and tolerance are for a range of lengths; give lengths={SYMBOL: (1, 512)}")
        try:
            return _compiled(source, options, cache=cache)
        except NodeError as error:
            if not (parameters := parameters_of(error)):
                raise
            from vdla.compiler.backends.specialized import specialized

            compiled = partial(_compiled, options=options, cache=cache)
            return specialized(source, parameters, compiled, batch=batch)
    from vdla.compiler.backends.lengths import compile_lengths

    return compile_lengths(
        source,
        backend_of(target),
        options,
        _lengths(lengths),
        tolerance=tolerance,
        pads=pads,
    )


def build(
    schedule: Schedule | Program,
    target: str = "llvm",
    config: Config | str | Path | None = None,
    *,
    device: int | str | None = None,
    virtual_threads: int = VIRTUAL_THREADS,
) -> Executable:
    """Compile a scheduled tensor expression; the arguments are those of `compile`.

    Without a schedule, a processor runs the program's loops unchanged; a GPU runs every independent iteration as a
    thread. The inputs are the parameters that the program reads, the outputs those that it writes. Raises UserError,
    LegalityError.
    """
    options = CompileOptions(
        target=target,
        config=_config(config),
        device=None if device is None else str(device),
        virtual_threads=virtual_threads,
    )
    return backend_of(target, options.device).build(schedule, options)


def load(path: str | Path, target: str = "llvm", *, device: int | str | None = None) -> Executable:
    """Load a file of `vdla compile`: a network for a processor or a GPU, or for a range of input lengths (any target).

    A file for a range of lengths names its own target, so that `target` and `device` are ignored. Raises UserError.
    """
    from vdla.compiler.runtime.lengths_archive import is_lengths_archive

    if is_lengths_archive(Path(path)):
        from vdla.compiler.backends.lengths import load_lengths

        return load_lengths(Path(path))
    options = CompileOptions(target=target, device=None if device is None else str(device))
    return backend_of(target, options.device).load(Path(path), options)


def _compiled(source: str | Path | bytes, options: CompileOptions, *, cache: bool) -> Executable:
    backend = backend_of(options.target, options.device)
    if cache and options.dump_passes is None and isinstance(backend, KernelBackend):
        return _from_cache(backend, source, options)
    return backend.compile(source, options)


def _from_cache(backend: KernelBackend, source: str | Path | bytes, options: CompileOptions) -> Executable:
    """The network of `source` (a file or its bytes) for `backend`: from the user's cache, else compiled and cached."""
    from ..network_cache import cached_network

    device = backend.open(options)
    model = source if isinstance(source, bytes) else Path(source)
    try:
        entry = cached_network(model, device, batch=options.batch, records=options.records)
    except BaseException as error:
        device.close()
        if not isinstance(error, CacheError):
            raise
        say_not_kept(str(error))
        return backend.compile(source, options)
    network = backend.load_cached(entry.path, device)
    network.again = lambda: backend.compile(source, options)
    return network


def _lengths(lengths: Mapping[str, tuple[int, int]]) -> Lengths:
    from vdla.compiler.runtime.lengths import Lengths

    if len(lengths) != 1:
        raise UserError(
            f"lengths: give one symbol and its range, not {len(lengths)}; fix the sizes of other symbols in the model"
        )
    ((symbol, (least, most)),) = lengths.items()
    return Lengths(symbol=symbol, least=least, most=most)


def _config(config: Config | str | Path | None) -> Config | None:
    if config is None:
        return None
    from vdla.isa.config import Config, load_config

    return config if isinstance(config, Config) else load_config(config)


def _records(records: RecordBook | str | Path | None) -> RecordBook | None:
    if records is None:
        return None
    from vdla.compiler.records.book import RecordBook, read_book, shipped_book

    if isinstance(records, RecordBook):
        return records
    return shipped_book() if str(records) == "shipped" else read_book([Path(records)])[0]
