"""Table of all scripts of benchmarks/: for each script the files that it writes, what it needs, and the make target
that runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch

BENCH, CAMPAIGN = "bench", "campaign"
"""Names of groups of benchmarks: `make bench` runs the first group on an idle computer, `make campaign` the second,
which takes hours.
"""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A script, `benchmarks/NAME.py`.

    `results`: names of the files that --write makes in benchmarks/results, separated by blanks, without suffix; a *
    stands for any text. `needs`: text on what a run requires in addition to the installation for development. `group`:
    the make target that runs the script.
    """

    name: str
    about: str
    results: str = ""
    needs: str = ""
    group: str = ""

    @property
    def path(self) -> str:
        """Path of the script, relative to the root of the repository."""
        return f"benchmarks/{self.name}.py"


QUIET, HOURS, GPU, TORCH = "a quiet machine", "hours", "a GPU", "torch"
BENCHMARKS = (
    Benchmark("accuracy", "right answers of trained, quantized networks on the accelerator", "accuracy"),
    Benchmark("area_model", "area and clock in standard cells: fit and errors", "area_model"),
    Benchmark("campaign", "every case of every test, and the long checks", "campaign", HOURS),
    Benchmark("cell_areas", "machines drawn at random, synthesized for standard cells", "cell_areas_*", HOURS),
    Benchmark("commits", "speed and compilation beside another commit", "commits", f"{QUIET}, a second checkout"),
    Benchmark("compile_times", "seconds of vdla compile, cold and warm", "compile_times", QUIET),
    Benchmark("cosim", "1,000 random programs on 29 machines, RTL against simulator", "cosim", HOURS, CAMPAIGN),
    Benchmark("cost_model", "how well cost models of the tuner rank", needs=QUIET),
    Benchmark("cpu", "kernels beside ONNX Runtime", "cpu_layers cpu_other_layers", QUIET, BENCH),
    Benchmark("cpu_networks", "networks beside ONNX Runtime", "cpu_networks cpu_originals cpu_outside", QUIET, BENCH),
    Benchmark("demo", "the results of vdla demo", "demo"),
    Benchmark("designs", "designs a second that the explorer evaluates", "designs", QUIET),
    Benchmark("dram_channels", "networks behind one, two and four channels of DDR3", "dram_channels"),
    Benchmark("dram_cosim", "1,000 random programs on 34 machines with a DRAM", "dram_cosim", HOURS, CAMPAIGN),
    Benchmark("dram_networks", "networks on a machine with a DRAM", "dram_networks", HOURS, CAMPAIGN),
    Benchmark("dram_placement", "networks on DDR3 with and without placement for it", "dram_placement"),
    Benchmark("dram_streams", "timing of DRAM beside LiteDRAM's RTL", "dram_streams", group=CAMPAIGN),
    Benchmark("encoders", "BERT's encoder on the accelerator, layer by layer", "encoders"),
    Benchmark("energy_model", "energy by event: fit and errors", "energy_model", HOURS),
    Benchmark("energy_replay", "power of a netlist by our replay and by OpenSTA", "energy_replay", "OpenSTA"),
    Benchmark("explore_campaign", "vdla explore as a new user runs it", "explore_campaign", QUIET),
    Benchmark("explore_joint", "hardware and schedules searched together", "explore_joint", HOURS),
    Benchmark("explore_kills", "studies that are killed and resumed", "explore_kills", HOURS),
    Benchmark("explore_report", "the report of 2,000 designs", "explore_report", f"{QUIET}, chromium"),
    Benchmark("explore_search", "searches for machines compared", "explore_search", HOURS),
    Benchmark("explore_workers", "studies on several workers", "explore_workers_*", QUIET),
    Benchmark(
        "exported_networks", "forty networks exported by PyTorch", "exported_networks exported_whole", TORCH
    ),
    Benchmark("faults", "one-line faults in RTL and simulator", "faults", HOURS, CAMPAIGN),
    Benchmark("flat_synthesis", "synthesis by module against that of a whole machine", "flat_synthesis"),
    Benchmark("front_door", "overhead of the Python package", "front_door", QUIET),
    Benchmark("fusion", "gains of fusion on the CPU", "fusion", QUIET, BENCH),
    Benchmark("fuzz", "damaged files of every kind; killed, interrupted and cut off commands", "fuzz", HOURS, CAMPAIGN),
    Benchmark("generated", "generated default schedules against the templates they replaced", "generated", QUIET),
    Benchmark("gpu", "GPU kernels and networks: checked, then timed beside torch", "gpu-*", f"{GPU}, {TORCH}"),
    Benchmark("gpu_cost", "errors of the cost models of GPU templates"),
    Benchmark("gpu_faults", "faults in scheduled GPU kernels", "gpu_faults", group=CAMPAIGN),
    Benchmark("gpu_int8", "quantized networks on GPUs, emulated: steps and bytes", "gpu_int8"),
    Benchmark("grid", "utilization over a grid of machines", "grid grid_large grid_mobilenets"),
    Benchmark("kept_cycles", "cycles in files of results against today's"),
    Benchmark("language", "language models on the accelerator", "language"),
    Benchmark("lengths", "one artefact for many lengths of a sequence", "lengths", QUIET),
    Benchmark("mutations", "mutations of tiny by Yosys, three seeds", "mutations", HOURS, CAMPAIGN),
    Benchmark("network", "ResNet-18 on the accelerator, as the README shows it", "network", QUIET, BENCH),
    Benchmark("node_tests", "the ONNX backend's node tests on this processor", "node_tests"),
    Benchmark("opencl", "the shipped networks on an OpenCL device", "opencl", QUIET),
    Benchmark("operand_rates", "rates of changing operand bits in a network", "operand_rates"),
    Benchmark("outside", "published networks on the accelerator", "outside vision_transformers"),
    Benchmark("outside_networks", "makes ONNX files of torchvision's networks", needs=TORCH),
    Benchmark("pages", "updates all generated parts of the pages"),
    Benchmark("python_mutants", "one-line mutants of the Python sources", "python_mutants", HOURS, CAMPAIGN),
    Benchmark("pytorch_modules", "forty modules straight from PyTorch", "pytorch_modules", TORCH),
    Benchmark("quantization", "errors of quantization beside ONNX Runtime's", "quantization", QUIET, BENCH),
    Benchmark("quantize_budget", "quantization decided layer by layer", "quantize_budget", HOURS),
    Benchmark("readme", "writes the tables and pictures of the pages"),
    Benchmark("recurrent_layers", "recurrent layers beside ONNX Runtime", "recurrent_layers", QUIET),
    Benchmark("rtl", "the RTL against the simulator; seconds of vdla rtl", "rtl rtl_emission", QUIET, BENCH),
    Benchmark("shipped_records", "tunes the records that ship with the package", needs=HOURS),
    Benchmark("simulator", "speed of the simulator", "simulator", QUIET, BENCH),
    Benchmark("single_layers", "models of one convolution beside ONNX Runtime", "single_layers", QUIET),
    Benchmark("sketches", "random points of the spaces of sketches against their defaults", needs=QUIET),
    Benchmark("sram_table", "the table of memory macros, by CACTI", needs="CACTI"),
    Benchmark("tflite_models", "TFLite operators and networks beside LiteRT", "tflite_models"),
    Benchmark("torch_compile", "torch.compile: our backend beside inductor", "torch_compile", f"{TORCH}, {QUIET}"),
    Benchmark("transformers", "transformers beside ONNX Runtime", "transformers", QUIET),
    Benchmark("trial", "CPU time of one trial of the tuner", "trial", QUIET, BENCH),
    Benchmark("tuning", "the tuner's search on the accelerator beside baselines", "tuning_vdla", HOURS),
    Benchmark("tuning_cpu", "the tuner's search on this processor", "tuning_cpu", f"{QUIET}, {HOURS}"),
    Benchmark("tuning_rules", "gains of tuning by rules over templates", "tuning_rules", QUIET),
    Benchmark("tuning_spaces", "sizes of the spaces of the accelerator's templates"),
    Benchmark("tuning_workers", "trials a second with dask workers", needs=QUIET),
)  # fmt: skip


def members(group: str) -> Iterator[Benchmark]:
    """The benchmarks of the group `group` ("bench" or "campaign")."""
    return (row for row in BENCHMARKS if row.group == group)


def maker_of(file: str) -> Benchmark | None:
    """The benchmark that writes a file of results, if any; `file`: name of the file without its suffix."""
    return next((row for row in BENCHMARKS for own in row.results.split() if fnmatch(file, own)), None)
