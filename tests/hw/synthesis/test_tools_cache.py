"""Synthesis tools whose own cache cannot be written: they compile themselves for this process only, and print one line
about it.
"""

from pathlib import Path

import pytest

from vdla.hw.synthesis.tools import ToolFailure, run_tool
from vdla.util import user_cache

TOOL = """#!/bin/sh
case "$YOWASP_CACHE_DIR" in
*/vdla/yowasp) test -d "$YOWASP_CACHE_DIR" && echo "ran $1" ;;
*) printf '    cache_file.write(module.serialize())\\nOSError: [Errno 28] No space left on device\\n'; exit 1 ;;
esac
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("YOWASP_CACHE_DIR", raising=False)
    user_cache._for_this_process.cache_clear()
    user_cache.say_not_kept.cache_clear()
    path = tmp_path / "yowasp-tool"
    path.write_text(TOOL)
    path.chmod(0o755)
    yield path
    user_cache._for_this_process.cache_clear()


def run(tool: Path, word: str) -> str:
    return run_tool(
        [str(tool), word], directory=tool.parent, step=lambda line: None, report=lambda text: None
    )


def test_a_full_disk_costs_one_line(tool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [run(tool, "one"), run(tool, "two")] == ["ran one\n", "ran two\n"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "warning: nothing is cached for later runs: yowasp-tool: No space left on device; set XDG"
    )


def test_temporary_files_lie_where_the_tool_works(tool: Path) -> None:
    tool.write_text("#!/bin/sh\nmktemp\n")
    assert Path(run(tool, "one").strip()).parent == tool.parent


def test_other_failures_are_the_tools(tool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool.write_text("#!/bin/sh\necho 'OSError: [Errno 28] No space left on device: its own file'; exit 1\n")
    with pytest.raises(ToolFailure, match="its own file"):
        run(tool, "one")
    assert capsys.readouterr().err == ""
