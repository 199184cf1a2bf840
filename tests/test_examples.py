"""Each script in examples/ runs, finds the results that its text states, and uses only the public API."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import vdla

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples"
NAMES = sorted(path.name for path in FOLDER.glob("*.py"))
BESIDE_THE_FRONT_DOOR = {"vdla.hw.bench"}
"""Public packages besides `vdla` itself, with their own names in docs/reference/api.md."""


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def run(name: str) -> str:
        monkeypatch.syspath_prepend(str(FOLDER))
        runpy.run_path(str(FOLDER / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def numbers(line: str) -> list[float]:
    return [float(text.replace(",", "")) for text in re.findall(r"\d[\d,]*(?:\.\d+)?", line)]


def rows(text: str, first: str) -> list[list[float]]:
    """The numbers in each line of `text` after the line that begins with `first`."""
    lines = text.splitlines()
    begin = next(index for index, line in enumerate(lines) if line.lstrip().startswith(first))
    return [numbers(line) for line in lines[begin + 1 :]]


def test_own_network(printed):
    text = printed("own_network.py")
    shares = [float(share) for share in re.findall(r"([\d.]+)% of 200", text)]
    assert len(shares) == 2 and min(shares) > 80 and abs(shares[0] - shares[1]) < 3
    total, *layers = (numbers(line)[0] for line in text.splitlines()[2:])
    assert len(layers) == 3 and total == sum(layers)


def test_own_machine(printed):
    table = rows(printed("own_machine.py"), "machine")[:6]
    assert min(table)[0] == table[-1][0] and table[-1][0] < table[0][0] / 2
    assert len({row[0] for row in table}) == len(table) == 6


def test_own_schedule(printed):
    text = printed("own_schedule.py")
    table = rows(text, "tile")[:6]
    assert all(hidden < plain for *_, plain, hidden in table)
    assert table[0][-1] < 1.6 * 2048 < table[-1][-1] and "tiles are refused, as (" in text


@pytest.mark.system_tools("iverilog")
def test_own_bench(printed):
    one, two = (row[-4:] for row in rows(printed("own_bench.py"), "chance"))
    for cycles in (one, two):
        *stalled, simulated = cycles
        assert stalled == sorted(set(stalled)) and stalled[0] == simulated
    assert all(hidden < plain for plain, hidden in zip(one, two, strict=True))


def test_own_space(printed):
    text = printed("own_space.py")
    own = numbers(text.split("those of tiny")[1])[0]
    for _latency, area, *_ in rows(text, "us")[:5]:
        assert area <= own
    cycles = re.search(r"fewer \(([\d.]+)x\)", text)
    assert cycles is not None and float(cycles[1]) < 0.6


def test_nn_cnn(printed):
    text = printed("nn_cnn.py")
    full, separable = (numbers(line)[:2] for line in text.splitlines() if "int8 scores" in line)
    assert separable[0] < full[0]
    names = [line.split()[0] for line in text.splitlines() if line.startswith("  ")]
    assert names[:5] == ["stem.0", "blocks.0.conv", "blocks.1.conv", "pool", "fc"]
    errors = [float(error) for error in re.findall(r"within ([\d.]+)%", text)]
    assert len(errors) == 2 and max(errors) < 3


def test_nn_lstm(printed):
    shares = [float(share) for share in re.findall(r"([\d.]+)% of 200", printed("nn_lstm.py"))]
    assert len(shares) == 3 and min(shares) > 85 and shares[-1] > 97


def test_nn_gpt(printed):
    sentence, total, *layers = printed("nn_gpt.py").splitlines()
    assert sentence == "a tile is computed while the next one arrives."
    assert float(re.findall(r"error ([\d.]+)%", total)[0]) < 4
    names = [line.split()[0] for line in layers]
    assert {"norm1", "attention.query", "attention.softmax", "mlp.2"} <= set(names)
    # The first number of the line of the sum is that of the letters.
    assert numbers(total)[1] == sum(numbers(line)[-1] for line in layers)


def test_every_script_is_run_and_shown():
    tests = set(re.findall(r'printed\("(\w+\.py)"\)', Path(__file__).read_text(encoding="utf-8")))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert tests == set(NAMES)
    assert all(f"(examples/{name})" in readme for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_script_uses_the_public_api(name: str):
    for node in ast.walk(ast.parse((FOLDER / name).read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), names=names):
                modules = [f"{module}.{alias.name}" if module == "vdla.hw" else module for alias in names]
            case ast.Attribute(value=ast.Name(id="vdla"), attr=attribute):
                assert attribute in vdla.__all__
                continue
            case _:
                continue
        ours = {module for module in modules if module.startswith("vdla.")}
        assert ours <= BESIDE_THE_FRONT_DOOR


@pytest.mark.parametrize(("name", "extra"), [("own_bench.py", "bench"), ("own_space.py", "explore")])
def test_a_missing_extra_is_one_line(name: str, extra: str):
    assert f'".[{extra}]" && python examples/{name}' in (FOLDER / name).read_text(encoding="utf-8")
    code = (
        "import runpy, sys\n"
        "for name in ('cocotb', 'optuna', 'xgboost', 'sklearn'): sys.modules[name] = None\n"
        f"sys.path.insert(0, {str(FOLDER)!r})\n"
        f"runpy.run_path({str(FOLDER / name)!r}, run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ") and f"vdla[{extra}]" in line


def test_own_instruction(printed):
    text = printed("own_instruction.py")
    assert "every element equal to numpy's" in text and numbers(text.splitlines()[-1]) == [4]


def test_own_gelu(printed):
    error, steps = numbers(printed("own_gelu.py").splitlines()[0])[0::3]
    assert error <= 0.019 and steps <= 1


def test_own_popcount(printed):
    products, comparison = printed("own_popcount.py").splitlines()
    array, alu = numbers(comparison)[1:3]
    assert "equal to numpy's" in products and alu < array / 2
