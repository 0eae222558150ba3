"""What `diagnose mcp` reads is in the folders that it was given, and it changes nothing."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from integrations.asked import FIT, SECRET, TRACE, refused, runs_in, told
from needs import needs

from diagnose.commands.agents.roots import Roots

needs("mcp")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return runs_in(tmp_path)


@pytest.mark.parametrize(
    "path",
    [
        "../elsewhere", "../elsewhere/{}.json.gz", "{0}/../../elsewhere", "/etc/passwd", "/dev/stdin", "/", "~", "-",
        "*", "file:///etc/passwd", "s3://bucket/run", "", "a\0b", "\ud800", "x" * 100_000, "--html=x", "../" * 40_000,
    ],
)  # fmt: skip
def test_a_path_that_leads_out_is_refused_in_words(path: str, root: Path) -> None:
    asked = path.format(SECRET) if "{" in path else path
    if asked == "":
        shutil.rmtree(root)
        root.mkdir()

    text = refused(root, path=asked)

    assert "do:" in text or "why:" in text
    assert "Traceback" not in text
    assert "defect" not in text
    assert len(text) < 2_000


def test_a_link_that_leads_out_is_not_followed(root: Path) -> None:
    (root / "link.json.gz").symlink_to(root.parent / "elsewhere" / f"{SECRET}.json.gz")
    (root / "linked").symlink_to(root.parent / "elsewhere")
    (root / "folder").mkdir()
    (root / "folder" / "rank0.json.gz").symlink_to(root.parent / "elsewhere" / f"{SECRET}.json.gz")

    for path in ("link.json.gz", "linked", f"linked/{SECRET}.json.gz"):
        assert "outside the folders that may be read" in refused(root, path=path)
    assert "leads out of the folders" in refused(root, path="folder")
    assert "outside" in refused(root, "compare", before=TRACE, after="link.json.gz")
    assert "outside" in refused(root, "fit", **FIT, calibrate="../elsewhere/x.json")
    (root.parent / "elsewhere" / "config.json").write_text("{}")
    assert "outside" in refused(root, "fit", **{**FIT, "model": "../elsewhere"})


@pytest.mark.parametrize(
    "model", ["{}/config.json", "../elsewhere", "{}/llama-3.1-8b", "~/config.json", "elsewhere", "llama-3.1-8b"]
)
def test_an_answer_is_the_same_whether_or_not_a_model_lies_outside(
    model: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    monkeypatch.chdir(tmp_path)
    asked = {**FIT, "model": model.format(tmp_path / "elsewhere")}
    without = told(root, "fit", **asked)
    for folder in ("elsewhere", "elsewhere/llama-3.1-8b", "llama-3.1-8b"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "config.json").write_text("{}")

    assert told(root, "fit", **asked) == without


def test_a_link_within_the_folders_is_followed(root: Path) -> None:
    (root / "latest.json.gz").symlink_to(root / TRACE)

    assert told(root, "analyze", path="latest.json.gz")[0].startswith("## diagnose: **data-bound**")


def test_a_pipe_is_refused_at_once(root: Path) -> None:
    os.mkfifo(root / "pipe.json")

    assert "neither a file nor a folder" in refused(root, path="pipe.json")


def test_a_report_that_a_program_would_export_is_refused(root: Path) -> None:
    (root / "run.nsys-rep").write_bytes(b"report")

    assert "nsys export --type=sqlite run.nsys-rep" in refused(root, path="run.nsys-rep")


def test_nothing_is_written(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    before = states(tmp_path)

    for name, arguments in (
        ("analyze", {"path": TRACE}), ("plan", {"path": "."}), ("compare", {"before": TRACE, "after": TRACE}),
    ):  # fmt: skip
        assert not told(root, name, **arguments)[1]

    assert states(tmp_path) == before


def states(folder: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(folder.rglob("*"))}


def test_what_is_confined_can_neither_write_nor_start_anything(root: Path) -> None:
    attempts: tuple[Callable[[], object], ...] = (
        lambda: (root / "new").write_text("x"),
        lambda: (root / "new").mkdir(),
        lambda: (root / TRACE).unlink(),
        lambda: os.system("true"),
    )

    for attempt in attempts:
        with Roots([root]).confined(), pytest.raises(PermissionError):
            attempt()
    (root / "new").write_text("afterwards")
