"""Every block of code in docs/tutorials runs, and prints the output that the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from tutorials import (
    ELSEWHERE,
    FOLDER,
    TutorialError,
    blocks,
    checked_page,
    differences,
    rewritten,
    run_page,
)

from vdla.benchmarks.harness.shown import fits

NEEDS_ICARUS = ("add_a_configuration_field.md",)
PAGES = [
    pytest.param(name, marks=pytest.mark.system_tools("iverilog")) if name in NEEDS_ICARUS else name
    for name in sorted({path.name for path in FOLDER.glob("*.md")} - set(ELSEWHERE))
]


@pytest.mark.parametrize("name", PAGES)
def test_a_tutorial_does_what_it_says(name: str, tmp_path: Path) -> None:
    assert checked_page(name, tmp_path) == ""


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
 2.6 seconds
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
    wrong = differences("page.md", outputs)
    assert [text.split(":")[0] for text in wrong] == [
        "page.md, line 13",
        "page.md, line 22",
        "page.md, line 30",
    ]
    after = rewritten(PAGE, outputs)
    written = PAGE.replace("x = 2\n 2.6 s", "x = 1\n 2.5 s").replace("y = 1", "x = 1")
    assert after == written.replace("1 seconds or so", "1")
    assert differences("page.md", run_page("page.md", after, tmp_path)) == []


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("7,219,099 cycles", "7,219,099  cycles\n", True),
        ("7,219,099 cycles", "7,221,967 cycles", False),
        ("1 of 2", "1 of 3", False),
        ("0.72 ms", "0.73 ms", True),
        ("0.72 ms", "0.74 ms", False),
        ("0.72 ms", "0.720 ms", False),
        ("1,199.9 uJ", "1,200.0 uJ", True),
        ("1.5, 2.5, 3", "1.5, 2.7, 3", False),
        ("ran in ... s, 12 cycles", "ran in 0.123 s, 12 cycles", True),
        ("ran in ... s, 12 cycles", "ran in 0.123 s, 13 cycles", False),
        ("───", "─────", True),
        ("a.b", "axb", False),
    ],
)
def test_integers_are_compared_exactly(shown: str, printed: str, same: bool) -> None:
    assert fits(shown, printed) == same


@pytest.mark.parametrize(
    ("block", "words"),
    [("```python\n1 / 0\n```", "page.md, line 1: ZeroDivisionError"), ("```bash\nfalse\n```", "exit code 1")],
)
def test_a_block_that_fails_is_named(block: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(TutorialError, match=words):
        run_page("page.md", block, tmp_path)
