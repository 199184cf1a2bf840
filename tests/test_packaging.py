"""Packaging: an installation contains exactly the files of the tree, and imports go only from higher to
lower layers.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOORS = ("util", "isa", "sim", "hw", "compiler", "verify", "codesign", "benchmarks")
BARE_FLOOR = re.compile(rf"(?<!\w)(?:from\s+|import\s[^\n]*?)(?<![.\w])(?:{'|'.join(FLOORS)})\b")
"""Regular expression of lines that may import a top-level folder of the package by its bare name (for example `import
sim`); some other lines match as well.
"""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def tracked_files() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout: cannot tell which files are tracked")
    files = (ROOT / name for name in listing.stdout.decode().split("\0") if name)
    return [path for path in files if path.is_file()]


def test_every_top_folder_is_linked_below_the_import_root() -> None:
    links = {path.name: os.readlink(path) for path in (ROOT / "vdla").iterdir() if path.is_symlink()}
    assert links == {floor: f"../{floor}" for floor in FLOORS}


def test_every_folder_with_modules_is_a_package() -> None:
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), (
                f"{path.parent.relative_to(ROOT)} lacks __init__.py"
            )


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package's files, with symbolic links kept, in which setuptools can create its build folders."""
    copy = tmp_path_factory.mktemp("beside") / "vdla"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    for floor in ("vdla", *FLOORS):
        shutil.copytree(
            ROOT / floor, copy / floor, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    return copy


def files_of_the_package() -> set[str]:
    """Paths, relative to the import root, of all files that an installation must contain."""
    files = {"vdla/__init__.py", "vdla/py.typed"}
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("*"):
            # Results are the repository's, not the package's.
            results = ROOT / "benchmarks" / "results"
            if path.suffix in (".py", ".toml", ".jsonl", ".cpp") and path.parent != results:
                files.add(f"vdla/{path.relative_to(ROOT).as_posix()}")
    return files


def build(clone: Path, hook: str, *arguments: str) -> str:
    code = f"import sys; from setuptools import build_meta; print(build_meta.{hook}(*sys.argv[1:]))"
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_wheel_holds_data_and_every_module(clone: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / build(clone, "build_wheel", str(tmp_path))) as wheel:
        names = set(wheel.namelist())
    assert files_of_the_package() <= names
    assert not [name for name in names if name.startswith(("tests/", "vdla/tests/", "isa/"))]


def test_source_archive_builds_the_same_wheel(clone: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / build(clone, "build_sdist", str(tmp_path))) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = next(path for path in tmp_path.iterdir() if path.is_dir())
    with zipfile.ZipFile(tmp_path / build(unpacked, "build_wheel", str(tmp_path))) as wheel:
        assert files_of_the_package() <= set(wheel.namelist())


def test_editable_installation_is_a_plain_path(clone: Path, tmp_path: Path) -> None:
    # A finder of setuptools would come behind the working folder, where a clone of this name is a namespace package.
    with zipfile.ZipFile(tmp_path / build(clone, "build_editable", str(tmp_path))) as wheel:
        paths = [name for name in wheel.namelist() if name.endswith(".pth")]
        assert len(paths) == 1
        assert Path(wheel.read(paths[0]).decode().strip()) == clone
        assert not [name for name in wheel.namelist() if name.endswith(".py")]


def test_import_beside_a_clone_of_the_same_name(clone: Path) -> None:
    code = (
        "import vdla; print(vdla.__file__); from vdla.isa.config import Config; print(vdla.Config is Config)"
    )
    environment = dict(os.environ, PYTHONPATH=str(clone))
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=clone.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(clone / "vdla" / "__init__.py"), "True"]


def test_imports_point_down() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    command = [str(linter), "--cache-dir", ".import_linter_cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_no_file_imports_a_top_folder_without_the_package_name() -> None:
    # From the repository root `import isa` works by accident and makes a second copy of every class.
    folders = [*FLOORS, "tests", "examples", "notebooks"]
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        # Few lines look like it, most of them of texts: parsing all files takes seconds.
        if not BARE_FLOOR.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
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
