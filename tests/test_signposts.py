"""Paths, modules and constants that guides and docstrings name are there, where they say."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = (ROOT / "diagnose", ROOT / "probes")
DESIGN = [ROOT / "docs" / "design.md", *sorted((ROOT / "docs" / "design").glob("*.md"))]
FOR_DEVELOPERS = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "writing-a-rule.md", *DESIGN]  # each path is ours
FOR_USERS = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
PLACEHOLDERS = {"NAME": "*", "SUBJECT": "*"}
LIVE = (
    "step_ms", "samples_per_s", "tokens_per_s", "real_tokens_per_s", "waiting_percent", "goodput_percent",
    "host_memory_bytes", "sm_clock_mhz", "slowest_rank",
)  # fmt: skip
OTHERS = {  # what looks like a path or a module of ours, and is none
    "meta-llama/Llama-3.2-1B": "a model",
    **dict.fromkeys(("diagnose/data_percent", "diagnose/gain_low", "diagnose/mfu_percent"), "a logged value"),
    **dict.fromkeys(("diagnose/step_ms", "diagnose/window_step"), "a logged value"),
    **dict.fromkeys((f"diagnose/live_{of}" for of in LIVE), "a logged value"),
    "diagnose.step.duration": "a metric",
    "diagnose.toml": "a file of the user's",
    **dict.fromkeys(("benchmarks/slow.txt", "benchmarks/sbom.cdx.json"), "what the slow check writes"),
    **dict.fromkeys(("diagnose.trace._scanner", "diagnose.predict.replay._loop"), "compiled, where a compiler is"),
    "diagnose.rules": "what `rules/` installs as",
    "config.model_type": "a model's own",
    "optimizer.step": "torch's",
}
EARLIER = re.compile(r"<!-- earlier paths -->.*?<!-- -->", re.DOTALL)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
TOKEN = re.compile(r"`([\w.*/-]+)`")
PATH = re.compile(r"\.?\w[\w.*-]*(/[\w.*-]+)*/?")
FILE = re.compile(r"\w+\.(py|h|toml|json|csv|html)")
DOTTED = re.compile(r"diagnose(\.\w+)+")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def text_of(page: Path) -> str:
    """A guide without its examples, and without what it says of earlier paths."""
    return EARLIER.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))


@cache
def names_in(path: Path) -> frozenset[str]:
    """What a module defines or assigns anywhere; of a package, what it hands out too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.alias) and path.name == "__init__.py":
            found.add(node.asname or node.name)
    return frozenset(found)


def holds(path: Path, word: str) -> bool:
    """Whether a module defines the name, or a file of data has the word."""
    if path.suffix == ".py":
        return word in names_in(path)
    return path.is_file() and re.search(rf"\b{re.escape(word)}\b", path.read_text(encoding="utf-8")) is not None


def there(token: str, bases: tuple[Path, ...] = (ROOT, *PACKAGES)) -> list[Path]:
    """The folders, files and modules that a token means."""
    for placeholder, pattern in PLACEHOLDERS.items():
        token = token.replace(placeholder, pattern)
    return [path for base in bases for ending in ("", ".py") for path in base.glob(token.rstrip("/") + ending)]


def found_below(folder: Path, token: str) -> bool:
    """Whether the token is a folder, a file or a module below the folder, or a name in such a module."""
    if there(token, (folder,)):
        return True
    module, _, attribute = token.rpartition(".")
    package = folder / module / "__init__.py"
    return any(path.is_file() and holds(path, attribute) for path in (folder / f"{module}.py", package) if module)


def rooms() -> set[str]:
    """The first words of our own paths."""
    top = {"benchmarks", "diagnose", "docs", "probes", "rules", "sample_traces", "tests", ".ci"}
    return top | {path.stem for package in PACKAGES for path in package.iterdir()}


def modules_called(stem: str) -> list[Path]:
    """The modules of a name, wherever they are, and those of a package of that name."""
    return [
        path
        for package in PACKAGES
        for path in package.rglob("*.py")
        if stem in (path.stem, path.parent.name) and package / "probes" not in path.parents
    ]


def missing(text: str, *, only_ours: bool, beside: Path = ROOT) -> Iterator[str]:
    """The paths and modules of a text that are not there.

    A path is one of the root, of `diagnose/` or of `probes/`, or lies in a folder that the same paragraph or row names
    before it.

    Args:
        text: Markdown, or a docstring.
        only_ours: leave out paths that do not begin with a room of ours: they are a user's.
        beside: the folder of the text.
    """
    for block in re.split(r"\n\n|\n(?=\|)", text):
        bases = [ROOT, *PACKAGES, beside]
        for token in TOKEN.findall(block):
            if token in OTHERS or not _ours(token, only_ours):
                continue
            base = next((base for base in bases if found_below(base, _as_path(token))), None)
            if base is None:
                yield token
            elif (base / token).is_dir():
                bases.append(base / token)


def _ours(token: str, only_ours: bool) -> bool:
    if DOTTED.fullmatch(token):
        return f'"{token}"' not in _probes()  # the name of a range in the trace
    return "/" in token and PATH.fullmatch(token) is not None and not (only_ours and token.split("/")[0] not in rooms())


def _as_path(token: str) -> str:
    """A dotted name as a path whose last part may be a name in a module."""
    if not DOTTED.fullmatch(token):
        return token
    parts = token.split(".")
    whole = "/".join(parts)
    inside = f"{'/'.join(parts[:-1])}.{parts[-1]}"
    return whole if found_below(ROOT, whole) else inside


@cache
def _probes() -> str:
    return "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "probes").rglob("*.py")))


def docstrings() -> Iterator[tuple[Path, str]]:
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            if ROOT / "diagnose" / "probes" not in path.parents:
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                        yield path, ast.get_docstring(node) or ""


@pytest.mark.parametrize("page", FOR_DEVELOPERS, ids=name)
def test_every_path_of_a_guide_is_there(page: Path) -> None:
    assert list(missing(text_of(page), only_ours=False)) == []


@pytest.mark.parametrize("page", FOR_USERS, ids=name)
def test_every_path_of_ours_on_a_page_is_there(page: Path) -> None:
    assert list(missing(text_of(page), only_ours=True)) == []


def missing_names(text: str) -> Iterator[str]:
    """The names of a text that are said to be in a module, as in `module.NAME`, and are in none of that name."""
    for module, attribute in re.findall(r"`([a-z_]+)\.(\w+)`", text):
        token = f"{module}.{attribute}"
        if token not in OTHERS and module not in ("diagnose", "torch") and not FILE.fullmatch(token):
            called = modules_called(module)
            if called and not any(attribute in path.parts or holds(path, attribute) for path in called):
                yield token


@pytest.mark.parametrize("page", FOR_DEVELOPERS, ids=name)
def test_every_name_of_a_module_is_there(page: Path) -> None:
    assert list(missing_names(text_of(page))) == []


def said_to_be_in(text: str) -> Iterator[tuple[str, str]]:
    """Each name that a text says is in a file, and the file: "`NAME` in `FILE`", "`A` and `B` in `FILE`",
    "`FILE` (a line in `NAME`)".
    """
    for names, file in re.findall(r"((?:`\w+`(?:, | and ))*`\w+`) (?:is |are )?in `([\w./]+/[\w.]+)`", text):
        yield from ((each, file) for each in re.findall(r"\w+", names.replace(" and ", " ")))
    for file, inside in re.findall(r"`([\w./]+/[\w.]+)` \(([^)]*)\)", text):
        yield from ((each, file) for each in re.findall(r"`(\w+)`", inside))


def not_in(text: str) -> Iterator[str]:
    """The names of a text that are not in the file in which they are said to be."""
    for word, file in said_to_be_in(text):
        paths = [base / f"{file}{ending}" for base in (ROOT, *PACKAGES) for ending in ("", ".py")]
        if not any(path.is_file() and holds(path, word) for path in paths):
            yield f"{word}: not in {file}"


@pytest.mark.parametrize("page", FOR_DEVELOPERS, ids=name)
def test_every_name_that_a_guide_places_in_a_file_is_there(page: Path) -> None:
    assert list(not_in(text_of(page))) == []


def test_each_change_names_its_files_and_its_names_are_in_them() -> None:
    table = re.search(r"\| Change \| Files \| Which \|\n.*?\n\n", text_of(ROOT / "CONTRIBUTING.md"), re.DOTALL)
    assert table is not None
    for row in table[0].strip().split("\n")[2:]:
        change, _, which = row.strip("| ").split(" | ")
        named = re.findall(r"`([\w.*/]+/[\w.*/]*)`", which)
        files = [path for token in named for path in there(token)]
        constants = re.findall(r"`([A-Z][A-Z_]+)`", which)

        assert files or "its command" in which, change
        assert [word for word in constants if not any(holds(path, word) for path in files)] == [], change


@pytest.mark.long
def test_every_path_of_a_docstring_is_there() -> None:
    gone = [
        f"{name(path)}: {token}"
        for path, text in docstrings()
        for token in (*missing(text, only_ours=False, beside=path.parent), *missing_names(text))
    ]

    assert gone == []


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("`judge/verdict.py`, `rules/NAME.toml`, `ranks/replay/`, `trace/nsight/`: `database`", []),
        ("`report/views/`: `sections.py`", []),
        ("`compare/side`", ["compare/side"]),
        ("`patch/promises.record`, `commands/ledger/option.record`", ["patch/promises.record"]),
        ("`diagnose.attribution.leading.NEAR`, `diagnose.compare`", ["diagnose.compare"]),
        ("`runs/llama/`, `/tmp/x`", ["runs/llama/"]),
    ],
)
def test_a_path_that_is_not_there_is_named(text: str, gone: list[str]) -> None:
    assert list(missing(text, only_ours=False)) == gone
    assert "runs/llama/" not in list(missing(text, only_ours=True))


def test_a_name_that_is_elsewhere_is_named() -> None:
    assert list(not_in("`NEAR` and `WAITS` in `attribution/leading.py`")) == []
    assert list(not_in("`diagnose/attribution/leading.py` (`NEAR`)")) == []
    assert list(not_in("`NEAR` in `judge/verdict.py`, which imports it")) == ["NEAR: not in judge/verdict.py"]
    assert list(not_in("`ODD_SHARE` in `attribution/leading`")) == ["ODD_SHARE: not in attribution/leading"]
    assert list(not_in("`probes/protocol.py` (a line in `HOOKZ`)")) == ["HOOKZ: not in probes/protocol.py"]
    assert list(missing_names("`errors.WrongUsage`, `errors.NoSuch`")) == ["errors.NoSuch"]


def test_the_place_to_which_a_room_went_is_there() -> None:
    table = EARLIER.search((ROOT / "docs" / "design.md").read_text(encoding="utf-8"))
    assert table is not None
    places = [row.split(" | ")[1] for row in table[0].split("\n|")[3:]]
    named = [token for place in places for token in TOKEN.findall(place) if "/" in token]

    assert "diagnose/predict/memory/" in named
    assert [token for token in named if not there(token, (ROOT, ROOT / "diagnose" / "commands"))] == []
