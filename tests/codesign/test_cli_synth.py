"""`vdla synth`: refused inputs. Synthesis itself is tested in tests/hw/synthesis."""

from pathlib import Path


def test_bad_inputs_are_told_in_one_line(vdla, tmp_path: Path) -> None:
    assert "there is no such family; choose xc7, ecp5 or cells" in vdla("synth", "--for", "ice40").message()
    assert "at least 1 seed" in vdla("synth", "--for", "ecp5", "--seeds", "0").message()
    assert "must be at least 1" in vdla("synth", "--for", "ecp5", "--jobs", "0").message()
    assert "--for xc7 computes no timing" in vdla("synth", "--for", "xc7", "--paths", "5").message()
    assert "--paths -1" in vdla("synth", "--for", "ecp5", "--paths", "-1").message()
    assert "--liberty is for --for cells" in vdla("synth", "--for", "xc7", "--liberty", "a.lib").message()
    assert "takes a Liberty file" in vdla("synth", "--for", "cells", "--liberty", "none.lib").message()
    assert "nowhere" in vdla("synth", "--for", "ecp5", "--config", "nowhere.toml").message()
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert "is a file" in vdla("synth", "--for", "xc7", "-o", tmp_path / "file").message()
