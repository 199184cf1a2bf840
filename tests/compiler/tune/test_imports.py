"""Heavy libraries are imported only for tuning."""

import subprocess
import sys


def test_compiling_and_applying_records_imports_no_tuner():
    program = (
        "import sys\n"
        "import vdla.codesign.cli.commands, vdla.codesign.network_run, vdla.compiler.records.book\n"
        "import vdla.compiler.records.network, vdla.codesign.tuning.accelerator, vdla.codesign.cli.tune\n"
        "sys.exit(','.join(name for name in ('xgboost', 'distributed', 'dask') if name in sys.modules) or None)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
