"""What is installed is what is in the tree, and imports point only down."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOORS = ("util", "isa", "sim", "hw", "compiler", "verify", "codesign", "benchmarks")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def packages_in_the_tree() -> set[str]:
    found = {"vdla"}  # the front door, which lies beside the floors
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("__init__.py"):
            found.add(".".join(("vdla", *path.parent.relative_to(ROOT).parts)))
    return found


def tracked_files() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout: cannot tell which files are tracked")
    files = (ROOT / name for name in listing.stdout.decode().split("\0") if name)
    return [path for path in files if path.is_file()]


def test_package_list_is_the_tree() -> None:
    listed = PROJECT["tool"]["setuptools"]["packages"]
    assert len(listed) == len(set(listed))
    assert set(listed) == packages_in_the_tree()


def test_every_folder_with_modules_is_a_package() -> None:
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), (
                f"{path.parent.relative_to(ROOT)} lacks __init__.py"
            )


def test_wheel_holds_data_and_every_module(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    # Built from a copy: setuptools leaves build folders in the tree it builds.
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    for floor in ("vdla", *FLOORS):
        shutil.copytree(ROOT / floor, source / floor, ignore=shutil.ignore_patterns("__pycache__"))
    build = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("*"):
            # Results are the repository's, not the package's.
            if path.suffix in (".py", ".toml", ".jsonl") and path.parent != ROOT / "benchmarks" / "results":
                assert f"vdla/{path.relative_to(ROOT).as_posix()}" in names
    assert not [name for name in names if name.startswith(("tests/", "vdla/tests/"))]


def test_imports_point_down() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    # .typing/vdla holds all packages as links, so that the linter sees them below one root.
    command = [str(linter), "--config", "../pyproject.toml", "--cache-dir", "../.import_linter_cache"]
    done = subprocess.run(command, cwd=ROOT / ".typing", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_nothing_imports_a_bare_floor() -> None:
    # From the repository root `import isa` works by accident and makes a second copy of every class.
    folders = [*FLOORS, "tests", "benchmarks", "notebooks"]
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import(names=names):
                    modules = [alias.name for alias in names]
                case ast.ImportFrom(module=str(module), level=0):
                    modules = [module]
                case _:
                    continue
            for module in modules:
                assert module.partition(".")[0] not in FLOORS, f"{path}:{node.lineno}: import vdla.{module}"


def test_lock_files_name_no_machine() -> None:
    for path in tracked_files():
        if re.search(r"(^|[.-])lock|^(requirements|constraints).*\.txt$", path.name):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"https?://|file:|index-url|/(home|root|work|tmp)/", text), path


def test_tracked_files_hold_no_path_of_this_machine() -> None:
    here = {str(ROOT), os.path.expanduser("~")} - {"/", ""}
    for path in tracked_files():
        data = path.read_bytes()
        for place in here:
            assert place.encode() + b"/" not in data, f"{path} names {place}"


def test_demo_and_bench_need_no_development_tools() -> None:
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    assert any(item.startswith("onnxruntime") for item in extras["check"])
    assert not any(item.startswith("onnxruntime") for item in project["dependencies"])
