import contextlib
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
from PIL import Image

from vdla.codesign.cli.main import main
from vdla.codesign.report.palette import BLUE

FILES = {"small_cnn.onnx", "report.json", "roofline.png", "layers.png", "timeline.perfetto-trace"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The output folder of one run of `vdla demo`, shared by all tests of this module, and the text that the run
    printed.
    """
    folder = tmp_path_factory.mktemp("demo") / "new" / "demo"
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as out:
        patch.setattr(sys, "argv", ["vdla", "demo", "--model", "small_cnn", "-o", str(folder)])
        with pytest.raises(SystemExit) as stop:
            main()
    assert not stop.value.code
    return folder, out.getvalue()


def test_writes_everything_it_names(vdla, demo) -> None:
    folder, out = demo
    assert {path.name for path in folder.iterdir()} == FILES
    for name in FILES - {"small_cnn.onnx"}:
        assert str(folder / name) in out
    assert Trace.FromString((folder / "timeline.perfetto-trace").read_bytes()).packet
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert (
        report["check"]["images"] == 8 and report["check"]["max_lsb"] <= 1 and report["check"]["top1_equal"]
    )
    assert f"{report['total']['cycles']:,}" in out
    for variant in report["variants"]:
        assert variant["name"] in out and f"{variant['cycles']:,}" in out
    again = vdla("run", folder / "small_cnn.onnx", "--timing-only", "--json").document()
    assert again["layers"] == report["layers"]


def test_hiding_latency_is_worth_something_and_more_latency_costs(demo) -> None:
    report = json.loads((demo[0] / "report.json").read_text(encoding="utf-8"))
    names = [variant["name"] for variant in report["variants"]]
    cycles = [report["total"]["cycles"], *(variant["cycles"] for variant in report["variants"])]
    assert names[0].startswith("one virtual thread")
    assert names[1:] == ["read latency 60", "read latency 120", "read latency 240"]
    assert cycles[1] > cycles[0] < cycles[2] < cycles[3] < cycles[4]


def test_pictures_are_drawn(demo) -> None:
    for name in ("roofline.png", "layers.png"):
        with Image.open(demo[0] / name) as picture:
            pixels = np.asarray(picture.convert("RGB"))
        assert pixels.shape[0] >= 500 and pixels.shape[1] >= 1200
        # Both use the colour of compute for a part of what they show.
        assert (pixels == tuple(bytes.fromhex(BLUE[1:]))).all(axis=2).sum() > 100


def test_wrong_outputs_end_with_1(vdla, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import vdla.codesign.demo as demo

    from_reference = demo.check_run

    def disagreeing(*arguments):
        verdict, remark = from_reference(*arguments)
        return demo.replace(verdict, max_lsb=verdict.tolerance + 1), remark

    monkeypatch.setattr(demo, "check_run", disagreeing)
    outcome = vdla("demo", "--model", "mlp", "-o", tmp_path / "demo")
    assert outcome.code == 1 and "do not agree" in outcome.err
