"""Every block of code in docs/tutorials runs, and prints what the page shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tutorials import FOLDER, TutorialError, blocks, differences, rewritten, run_page

PAGES = sorted(path.name for path in FOLDER.glob("*.md"))

# Another process: a tutorial begins with a fresh Python, as its reader does.
RUN = """
import sys
from pathlib import Path
from tutorials import FOLDER, differences, run_page
name = sys.argv[1]
wrong = differences(name, run_page(name, (FOLDER / name).read_text(encoding="utf-8"), Path.cwd()))
sys.exit("\\n".join(wrong) or None)
"""


@pytest.mark.parametrize("name", PAGES)
def test_a_tutorial_does_what_it_says(name: str, tmp_path: Path) -> None:
    command = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1] / 'helpers')!r})\n{RUN}"
    done = subprocess.run(
        [sys.executable, "-c", command, name], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


PAGE = """# A page

<!-- file: a.txt -->
```toml
x = 1
```

```python
from pathlib import Path
print(Path("a.txt").read_text(), 2.5, end=" seconds")
```

```text
x = 2
 ... seconds
```

```bash
cat a.txt
```

```text
y = 1
```

```python
print(1)
```

```text
1 seconds or so
```
"""


def test_blocks_run_in_order_and_outputs_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    languages = ["toml", "python", "text", "bash", "text", "python", "text"]
    assert [block.language for block in blocks(PAGE)] == languages
    outputs = run_page("page.md", PAGE, tmp_path)
    # A number is any number; other words are others.
    wrong = differences("page.md", outputs)
    assert [text.split(":")[0] for text in wrong] == ["page.md, line 22", "page.md, line 30"]
    after = rewritten(PAGE, outputs)
    assert after == PAGE.replace("x = 2", "x = 1").replace("y = 1", "x = 1").replace("1 seconds or so", "1")
    assert differences("page.md", run_page("page.md", after, tmp_path)) == []


@pytest.mark.parametrize(
    ("block", "words"),
    [("```python\n1 / 0\n```", "page.md, line 1: ZeroDivisionError"), ("```bash\nfalse\n```", "exit code 1")],
)
def test_a_block_that_fails_is_named(block: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(TutorialError, match=words):
        run_page("page.md", block, tmp_path)
