"""What is installed: the wheel holds everything, and nothing under a name that belongs to others."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
from needs import needs
from packaging.specifiers import SpecifierSet

import diagnose

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
IN_CI = os.environ.get("CI") == "true"


def test_the_list_of_packages_equals_the_folders() -> None:
    listed = set(PROJECT["tool"]["setuptools"]["packages"])
    folders = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in (ROOT / "diagnose").rglob("*.py")
        if "__pycache__" not in path.parts and (ROOT / "diagnose" / "probes") not in path.parents
    }
    probes = {".".join(("diagnose", *path.parent.relative_to(ROOT).parts)) for path in (ROOT / "probes").rglob("*.py")}

    assert listed == folders | probes | {"diagnose.probes", "diagnose.rules"}


@pytest.fixture(scope="module")
def installed_files(request: pytest.FixtureRequest) -> set[str]:
    """The paths in the wheel: of the installed one in CI, else of one built here."""
    if IN_CI:
        return {str(path) for path in importlib.metadata.files("diagnose-training") or ()}
    return files_in(request.getfixturevalue("wheel"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the tree."""
    needs("setuptools")
    return built(tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel"))


def built(source: Path, folder: Path, **variables: str) -> Path:
    """The wheel of a copy of the tree, built with further variables."""
    copied_tree(source)
    build = [sys.executable, "-m", "pip", "wheel", str(source), "--no-deps", "--no-build-isolation", "-w", str(folder)]
    done = subprocess.run(build, capture_output=True, text=True, check=False, env=os.environ | variables)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


def files_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


def tags_of(wheel: Path) -> list[str]:
    """What the name and the file inside say alike: Python, its binary interface, the platform."""
    with zipfile.ZipFile(wheel) as opened:
        (about,) = [name for name in opened.namelist() if name.endswith(".dist-info/WHEEL")]
        told = [line.split(": ")[1] for line in opened.read(about).decode().splitlines() if line.startswith("Tag: ")]
    assert told == ["-".join(wheel.stem.split("-")[-3:])]
    return told[0].split("-")


def copied_tree(to: Path) -> Path:
    """A copy to build in: setuptools leaves `build/` and an egg-info behind."""
    told = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in")
    for name in ("diagnose", "probes", "rules", "docs/man", *told):
        if (ROOT / name).exists():
            subprocess.run(["cp", "-a", "--parents", name, str(to)], cwd=ROOT, check=True)
    return to


def test_rules_tables_and_types_are_installed(installed_files: set[str]) -> None:
    rules = {f"diagnose/rules/{path.name}" for path in (ROOT / "rules").glob("*.toml")}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "diagnose").rglob("*.py")}

    page = ROOT / "diagnose" / "report" / "html"
    parts = {str(path.relative_to(ROOT)) for name in ("templates", "static") for path in (page / name).iterdir()}
    expected = rules | parts | {path for path in modules if not path.startswith("diagnose/probes/")}
    data = {str(path.relative_to(ROOT)) for path in (ROOT / "diagnose" / "data").iterdir() if path.is_file()}
    skill = {"diagnose/commands/agents/SKILL.md"}
    assert expected | data | skill | {"diagnose/py.typed"} <= installed_files


def compiled(files: set[str]) -> list[str]:
    return sorted(path.split(".")[0] for path in files if path.startswith("diagnose/") and path.endswith(".so"))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a compiler")
def test_compiled_code_is_installed_without_its_source(installed_files: set[str]) -> None:
    modules = ["predict/replay/_loop", "roofline/_nests", "trace/_scanner"]
    assert compiled(installed_files) == [f"diagnose/{module}" for module in modules]
    assert not [path for path in installed_files if path.endswith((".c", ".h"))]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a compiler")
@pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="this Python has no limited API")
def test_one_wheel_serves_each_later_python(wheel: Path) -> None:
    suffixes = {path.split(".", 1)[1] for path in files_in(wheel) if path.endswith(".so")}

    assert tags_of(wheel)[:2] == ["cp311", "abi3"]
    assert suffixes == {"abi3.so"}


def test_a_wheel_is_built_without_a_compiler(tmp_path: Path) -> None:
    needs("setuptools")
    (tmp_path / "source").mkdir()
    wheel = built(tmp_path / "source", tmp_path, CC="/bin/false")
    files = files_in(wheel)
    assert compiled(files) == []
    assert tags_of(wheel) == ["py3", "none", "any"]
    assert {"diagnose/trace/scanning.py", "diagnose/predict/replay/passes.py", "diagnose/roofline/nests.py"} <= files


def test_only_one_top_level_name_is_installed(installed_files: set[str]) -> None:
    tops = {path.split("/")[0] for path in installed_files if not path.startswith("..")}

    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == {"diagnose"}


def test_the_manual_page_is_installed_where_man_looks(installed_files: set[str]) -> None:
    (page,) = [path for path in installed_files if path.endswith("diagnose.1")]

    assert page.endswith(("../share/man/man1/diagnose.1", ".data/data/share/man/man1/diagnose.1"))


@pytest.mark.skipif(not IN_CI, reason="only CI=true promises that a wheel is installed")
def test_the_installed_package_is_the_one_under_test() -> None:
    assert Path(diagnose.__file__).is_relative_to(sysconfig.get_paths()["purelib"])


def test_the_version_is_said_once() -> None:
    assert PROJECT["project"]["version"] == diagnose.__version__


def pins_of(name: str) -> dict[str, str]:
    """The version that each distribution has in a file of constraints, by its name in lower case."""
    lines = (line.split("==") for line in (ROOT / name).read_text().splitlines() if "==" in line)
    return {distribution.lower(): version for distribution, version in lines}


EXTRAS = tuple(PROJECT["project"]["optional-dependencies"])
PINNED_APART = {"hta": "constraints-hta.txt"}
CHOSEN_BY_TORCH = ("nvidia-", "cuda-", "triton")  # each build of torch needs its own
TOGETHER = ",".join(extra for extra in EXTRAS if extra not in PINNED_APART)


@pytest.mark.slow
@pytest.mark.parametrize("extras", [*EXTRAS, TOGETHER])
def test_the_extras_resolve_with_their_pins_within_a_minute(extras: str, tmp_path: Path) -> None:
    tree = copied_tree(tmp_path)
    pins = PINNED_APART.get(extras, "constraints.txt")
    resolve = ["install", "--dry-run", "--ignore-installed", "--quiet", "--report", str(tmp_path / "report.json")]

    done = subprocess.run(
        [sys.executable, "-m", "pip", *resolve, f"{tree}[{extras}]", "-c", str(ROOT / pins)],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )

    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=") + ".0"
    metadata = [one["metadata"] for one in report["install"]]
    chosen = {canonical(one["name"]) for one in metadata} - {"diagnose-training"}
    assert [one["name"] for one in metadata if oldest not in SpecifierSet(one.get("requires_python", ""))] == []
    unpinned = chosen - {canonical(name) for name in pins_of(pins)}
    assert not {name for name in unpinned if not name.startswith(CHOSEN_BY_TORCH)}, "a pin is missing"


def canonical(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_only_pandas_keeps_the_extra_hta_apart() -> None:
    apart, usual = pins_of("constraints-hta.txt"), pins_of("constraints.txt")

    assert {name for name in apart.keys() & usual.keys() if apart[name] != usual[name]} == {"pandas"}


def test_the_pins_cover_every_dependency_that_is_always_installed() -> None:
    pins = pins_of("constraints.txt").keys()
    needed = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["dev"]]
    names = {requirement.split(">")[0].split(";")[0].strip().lower() for requirement in needed}

    assert names <= pins
