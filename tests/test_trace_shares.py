"""One file divided among processes: the trace is that of one process, bit for bit, wherever the cuts fall."""

import gzip
import json
from pathlib import Path

import pytest
from trace_files import OPERATOR, assert_same, saved, small_job

from diagnose.errors import UserError
from diagnose.trace import Loading, Trace, load, loading, processes, read, source
from diagnose.trace.reader import read_part, trace_of
from diagnose.trace.shares import Share, Unsplittable, shares_of, text_bytes

pytestmark = pytest.mark.usefixtures("either_reader")

MORE = {"displayTimeUnit": "ms", "deviceProperties": [{"id": 0, "name": "a"}, {"id": 1, "name": "b"}], "traceName": "t"}


def in_shares(path: Path, *cuts: int) -> list[Share]:
    return [Share(begin, end) for begin, end in zip([0, *cuts], [*cuts, None], strict=True)]


def divided(path: Path, *cuts: int) -> Trace | None:
    """The trace read in shares, None where a cut makes it unsplittable: then it is read in one piece."""
    try:
        return trace_of([read_part(path, share) for share in in_shares(path, *cuts)])
    except (Unsplittable, UserError):
        return None


@pytest.mark.long
@pytest.mark.parametrize("indent", [None, 1], ids=["one line", "indented"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
def test_two_shares_with_the_cut_anywhere(indent: int | None, mark: bytes, tmp_path: Path) -> None:
    path = saved(tmp_path / "t.json", mark + json.dumps(small_job().json() | MORE, indent=indent).encode())
    whole = read(path)
    cuts = range(1, path.stat().st_size + 100, 97)
    found = [trace for cut in cuts if (trace := divided(path, cut)) is not None]
    assert len(found) > len(cuts) / 2
    for trace in found:
        assert_same(trace, whole)


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
@pytest.mark.parametrize("number", [2, 3, 8])
def test_shares_of_about_equal_size(name: str, number: int, tmp_path: Path) -> None:
    text = json.dumps(small_job().json(), indent=2).encode()
    path = saved(tmp_path / name, gzip.compress(text) if name.endswith("gz") else text)
    assert text_bytes(path) == len(text)
    parts = [read_part(path, share) for share in shares_of(path, number)]
    assert_same(trace_of(parts), read(path))
    assert max(len(part.trace) for part in parts) <= 2 * len(read(path)) / number + 1


def test_a_wrong_guess_of_the_size_costs_only_balance(tmp_path: Path) -> None:
    path = saved(tmp_path / "t.json", small_job().json())
    size = path.stat().st_size
    for cuts in [(10 * size,), (size // 2, 10 * size, 11 * size), (3000, 3001, 3002)]:
        trace = divided(path, *cuts)
        assert trace is not None
        assert_same(trace, read(path))


def test_a_share_that_is_missing_or_comes_twice_is_told(tmp_path: Path) -> None:
    path = saved(tmp_path / "t.json", small_job().json())
    first, second, third = (read_part(path, share) for share in in_shares(path, 3000, 6000))
    for parts in ([first, third], [first, second], [first, second, second, third], [second, third]):
        with pytest.raises(Unsplittable):
            trace_of(parts)


@pytest.mark.long
@pytest.mark.parametrize("damage", [b'"dur": inf', b'"dur": "x', b"}}}"], ids=["inf", "open string", "braces"])
@pytest.mark.parametrize("at", [0.2, 0.9])
def test_damage_is_read_as_in_one_piece(damage: bytes, at: float, tmp_path: Path) -> None:
    text = json.dumps(small_job().json()).encode()
    where = text.index(b'"dur"', int(at * len(text)))
    path = saved(tmp_path / "t.json", text[:where] + damage + text[where + 5 :])
    assert_same(load(path, Loading(jobs=3)), read(path))
    assert read(path).loss


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_a_file_that_is_cut_off_is_read_in_shares(name: str, tmp_path: Path) -> None:
    text = json.dumps(small_job().json()).encode()
    path = saved(tmp_path / name, gzip.compress(text)[:-200] if name.endswith("gz") else text[: len(text) * 3 // 4])
    parts = [read_part(path, share) for share in in_shares(path, len(text) // 4)]
    assert_same(trace_of(parts), read(path))
    assert read(path).loss.truncated


def test_arguments_that_are_written_otherwise_and_mean_the_same_are_kept_apart(tmp_path: Path) -> None:
    """No tensor has a size below zero: what remains of each is the same, and each has its number."""
    events = [OPERATOR | {"args": {"Input Dims": [[-1 - number % 7]]}} for number in range(60)]
    whole = read(path := saved(tmp_path / "t.json", events))
    assert whole.shapes == 7 * ((b"[[]]", b"", b""),)
    for number in (2, 5):
        parts = [read_part(path, share) for share in shares_of(path, number)]
        assert_same(trace_of(parts), whole)


@pytest.mark.parametrize("at", [0, 30, 59])
@pytest.mark.parametrize("by", [2, 5])
def test_arguments_that_cannot_be_are_counted_once_wherever_they_stand(at: int, by: int, tmp_path: Path) -> None:
    events = [OPERATOR | {"args": {"Input Dims": [[4, number % 3]]}} for number in range(60)]
    events[at] = OPERATOR | {"args": {"Input Dims": "x"}}
    whole = read(path := saved(tmp_path / "t.json", events))
    assert whole.loss.kinds == {"unreadable-arguments": 1}
    assert_same(trace_of([read_part(path, share) for share in shares_of(path, by)]), whole)


@pytest.mark.long
def test_arguments_that_cannot_be_are_handed_over_as_they_are_written(tmp_path: Path) -> None:
    events = [OPERATOR | {"args": {"Input Dims": [[-1 - number % 7]], "Input type": "\u00e9"}} for number in range(60)]
    path = saved(tmp_path / "t.json", json.dumps(events, ensure_ascii=False))
    assert_same(load(path, Loading(jobs=3)), read(path))


@pytest.mark.long
@pytest.mark.parametrize("code", [processes._START, "import os; os.abort()", "raise MemoryError"])
def test_processes_and_their_deaths(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_START", code)
    path = saved(tmp_path / "t.json", small_job().json())
    assert_same(load(path, Loading(jobs=3)), read(path))


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_two_cores_read_what_one_does_and_start_no_process(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps(small_job().json() | MORE, indent=1).encode()
    path = saved(tmp_path / name, gzip.compress(text) if name.endswith("gz") else text)
    monkeypatch.setattr(processes, "_START", "raise SystemExit('a process was started')")
    monkeypatch.setattr(source, "BLOCK_BYTES", 500)
    seen: list[tuple[int, int]] = []

    trace = load(path, Loading(jobs=2, watch=lambda _, done, size: seen.append((done, size))))

    assert_same(trace, read(path))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


@pytest.mark.parametrize(("name", "ahead"), [("t.json", False), ("t.json.gz", True)])
def test_a_thread_of_its_own_scans_what_has_to_be_unpacked(
    name: str, ahead: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps(small_job().json()).encode()
    path = saved(tmp_path / name, gzip.compress(text) if name.endswith("gz") else text)
    asked: list[bool] = []
    monkeypatch.setattr(loading, "reader_in_use", lambda: "compiled")
    monkeypatch.setattr(loading, "read", lambda path, watch, ahead: asked.append(ahead) or read(path, ahead=ahead))

    load(path, Loading(jobs=2))

    assert asked == [ahead]


def test_a_foreign_file_is_refused_in_the_same_words(tmp_path: Path) -> None:
    path = saved(tmp_path / "t.json", {"nodes": 3000 * [1]})
    messages = []
    for jobs in (1, 2):
        with pytest.raises(UserError) as error:
            load(path, Loading(jobs=jobs))
        messages.append(error.value.message)
    assert messages[0] == messages[1]


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    path = saved(tmp_path / "t.json", small_job().json())
    seen: list[tuple[int, int]] = []
    load(path, Loading(jobs=3, watch=lambda _, done, size: seen.append((done, size))))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)
