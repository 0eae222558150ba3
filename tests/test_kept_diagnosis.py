"""A diagnosis is given again only while nothing has changed that it can depend on."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from diagnose import analysis
from diagnose.analysis import cached
from diagnose.analysis.options import Options
from diagnose.diagnosis import Diagnosis
from diagnose.errors.defects import NOT_JUDGED
from diagnose.trace import Loading

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "sample_traces" / "cpu-slow-loader.json.gz"
CACHED = Loading(cache=True)
LISTENING = """
import os, sys
from diagnose import analysis
read, listens = [], False
def heard(event, given):
    if listens and event in ("open", "os.listdir", "os.scandir") and isinstance(given[0], str):
        read.append(os.path.abspath(given[0]))
sys.addaudithook(heard)
listens = True
analysis.analyze(sys.argv[1])
listens = False
print(*dict.fromkeys(read), sep="\\n")
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of this test, in which answers of any size are kept, of files that were written just now too."""
    monkeypatch.setenv("DIAGNOSE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cached, "LEAST_BYTES", 0)
    monkeypatch.setattr(cached, "SETTLED_AFTER_NS", -(10**9))
    return tmp_path / "cache"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace in a folder of its own."""
    (tmp_path / "run").mkdir()
    return Path(shutil.copy(SAMPLE, tmp_path / "run" / "trace.json.gz"))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are analysed from here on."""
    from diagnose.analysis import job

    seen, examined = list[str](), job.examined
    monkeypatch.setattr(job, "examined", lambda path, options: seen.append(str(path)) or examined(path, options))
    return seen


def asked(path: Path, **options: object) -> Diagnosis:
    return analysis.analyze(path, options=Options(**{"loading": CACHED, **options}))  # type: ignore[arg-type]


def test_the_second_answer_is_the_first(trace: Path, made: list[str]) -> None:
    first, second = asked(trace), asked(trace)

    assert made == [str(trace)]
    assert second.to_json() == first.to_json() == asked(trace, loading=Loading()).to_json()


def test_a_folder_is_one_place(trace: Path, made: list[str]) -> None:
    assert asked(trace.parent) == asked(trace.parent)
    assert made == [str(trace.parent)]


def written_to(trace: Path) -> None:
    content, times = trace.read_bytes(), trace.stat()
    trace.write_bytes(content)
    os.utime(trace, ns=(times.st_atime_ns, times.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "the trace, with its size and time as they were": written_to,
    "another trace in its place": lambda trace: os.replace(shutil.copy(trace, trace.parent / "new"), trace),
    "a file more": lambda trace: (trace.parent / "capture-rank0.json").write_text("{}"),
    "a log beside it": lambda trace: (trace.parent / "steps.csv").write_text("step,step_time\n1,0.5\n"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changed_in_the_folder_is_looked_at(
    change: Callable[[Path], object], trace: Path, made: list[str]
) -> None:
    asked(trace)
    time.sleep(0.02)  # a file system counts its time in ticks
    change(trace)
    asked(trace)

    assert len(made) == 2


def test_a_page_that_is_written_beside_the_trace_changes_nothing(trace: Path, made: list[str]) -> None:
    asked(trace)
    (trace.parent / "report.html").write_text("<html>")
    asked(trace)

    assert len(made) == 1


@pytest.mark.parametrize("option", [{"seq_len": 128.0}, {"tokens_per_step": 512.0}, {"rank": 0}])
def test_other_options_are_another_place(option: dict[str, object], trace: Path, made: list[str]) -> None:
    asked(trace)
    asked(trace, **option)
    asked(trace, **option)

    assert len(made) == 2


@pytest.mark.parametrize("loading", [Loading(), Loading(cache=True, memory_bytes=2 << 30)])
def test_nothing_is_kept_where_the_traces_are_not(loading: Loading, trace: Path, cache: Path) -> None:
    asked(trace, loading=loading)

    assert not list(cache.glob("*.diagnosis"))


def test_other_code_gives_another_answer(trace: Path, made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked(trace)
    code = cached._code()
    some = next(iter(code))
    monkeypatch.setattr(cached, "_code", lambda: code | {some: (*code[some][:-1], code[some][-1] - 1)})
    asked(trace)

    assert len(made) == 2


def test_code_and_rules_are_known_by_their_files() -> None:
    """All that this process has loaded of the package, by whatever links it is reached."""
    known = {os.path.realpath(path) for path in cached._code()}
    modules = [module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "diagnose"]

    assert {os.path.realpath(file) for file in modules if file} <= known
    assert any("probes" in path for path in known)
    assert {"gpus.csv", "data-wait.toml"} <= {Path(path).name for path in known}


def test_code_that_was_edited_under_a_running_process_keeps_nothing(
    trace: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached, "IMPORTED_NS", 0)
    asked(trace)

    assert not list(cache.glob("*.diagnosis"))


def test_what_was_written_just_now_is_not_kept(trace: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached, "SETTLED_AFTER_NS", 10**12)
    monkeypatch.setattr(cached, "IMPORTED_NS", time.time_ns() + 10**15)
    asked(trace)

    assert not list(cache.glob("*.diagnosis"))


def test_a_defect_is_not_kept(trace: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    diagnosis = asked(trace, loading=Loading())
    place = cached.Kept.of(trace, Options(loading=CACHED))
    assert place is not None
    because = msgspec.structs.replace(diagnosis.not_judged[0], because=f"{NOT_JUDGED}a rule")
    place.keep(msgspec.structs.replace(diagnosis, not_judged=(because,)))
    assert not list(cache.glob("*.diagnosis"))

    place.keep(diagnosis)
    assert len(list(cache.glob("*.diagnosis"))) == 1


@pytest.mark.parametrize("name", ["checkpoint-500", "step-12"])
def test_nothing_is_kept_where_an_analysis_looks_into_other_folders(name: str, trace: Path, cache: Path) -> None:
    if name == "step-12":
        trace = trace.parent.rename(trace.parent.parent / name) / trace.name
    else:
        (trace.parent / name).mkdir()
    asked(trace)

    assert not list(cache.glob("*.diagnosis"))


def test_traces_below_the_folder_are_looked_for_again(trace: Path, cache: Path) -> None:
    asked(trace.parent.parent)

    assert not list(cache.glob("*.diagnosis"))


@pytest.mark.parametrize("spoilt", [b"", b"{}", None])
def test_a_spoilt_entry_is_none(spoilt: bytes | None, trace: Path, cache: Path, made: list[str]) -> None:
    first = asked(trace)
    (entry,) = cache.glob("*.diagnosis")
    content = entry.read_bytes()
    entry.write_bytes(content[:-5] + b"#" + content[-4:] if spoilt is None else spoilt)

    assert asked(trace) == first
    assert len(made) == 2


def test_an_entry_that_others_may_write_to_is_not_believed(trace: Path, cache: Path, made: list[str]) -> None:
    asked(trace)
    (entry,) = cache.glob("*.diagnosis")
    entry.chmod(0o666)
    asked(trace)

    assert len(made) == 2


def test_the_trace_itself_counts_whatever_it_is_called(trace: Path, cache: Path) -> None:
    asked(trace.rename(trace.with_name("trace.md")))

    assert not list(cache.glob("*.diagnosis"))


def test_a_name_that_is_no_text_changes_nothing(trace: Path, made: list[str]) -> None:
    Path(os.fsdecode(os.fsencode(trace.parent) + b"/\xff\xfe.txt")).touch()

    assert asked(trace) == asked(trace)
    assert len(made) == 1


def test_a_log_that_could_not_be_read_for_once_keeps_nothing(
    trace: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise OSError(5, "Input/output error")

    (trace.parent / "steps.csv").write_text("step,step_time\n1,0.5\n")
    monkeypatch.setattr("diagnose.series.sources._logs", failing)
    asked(trace)
    assert not list(cache.glob("*.diagnosis"))


def test_a_record_that_cannot_be_read_keeps_nothing(trace: Path, cache: Path) -> None:
    (trace.parent / "capture-rank0.json").write_text("{")
    asked(trace)

    assert not list(cache.glob("*.diagnosis"))


def test_a_report_that_another_program_exports_is_no_place(trace: Path) -> None:
    assert cached.Kept.of(trace.rename(trace.with_name("run.nsys-rep")), Options(loading=CACHED)) is None


def test_answers_that_were_not_asked_for_longest_go(trace: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnose.trace.cache_folder._MOST_NOTES", 2)
    for tokens in (1.0, 2.0, 3.0):
        asked(trace, tokens_per_step=tokens)
        time.sleep(0.02)

    assert len(list(cache.glob("*.diagnosis"))) == 2
    assert cached.Kept.of(trace, Options(loading=CACHED, tokens_per_step=1.0)).diagnosis() is None  # type: ignore[union-attr]


@pytest.mark.parametrize("path", ["cpu-slow-loader.json.gz", "gloo-slow-rank", "synthetic-straggler"])
def test_an_analysis_reads_nothing_but_what_it_is_known_by(path: str) -> None:
    at = ROOT / "sample_traces" / path
    words = [sys.executable, "-c", LISTENING, str(at)]
    told = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT / "tests").stdout.splitlines()
    folder = at if at.is_dir() else at.parent
    libraries = [os.path.realpath(place) for place in sys.path if "python" in place] + [sys.prefix, sys.base_prefix]
    own = [str(folder), str(ROOT / "diagnose"), str(ROOT / "rules"), *libraries, "/proc", "/sys", "/dev", "/tmp"]

    assert any(line.startswith(str(at)) for line in told)
    assert [line for line in told if not line.startswith(tuple(own))] == []
    assert not [line for line in told if line.startswith(f"{folder}/") and "/" in line.removeprefix(f"{folder}/")]
