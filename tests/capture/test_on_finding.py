"""`diagnose run --on-finding`: what the command of a user gets of real jobs, how often it starts, and its failures."""

import contextlib
import json
import os
import re
import shlex
import shutil
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from armed_folders import armed_folder
from capture.command_runs import PATIENCE_S, WRITES, Start, ended, script
from capture.test_hang_stacks import STARTS
from needs import needs

from diagnose.commands.run import on_finding
from diagnose.commands.run.answer import RunFinding
from diagnose.commands.run.live_findings import RunFindings
from diagnose.commands.run.on_finding import MOST_WAITING, FindingCommand

SAMPLES = Path(__file__).parents[2] / "sample_traces"
DOCS = Path(__file__).parents[2] / "docs"
TRAINS = """
import os, torch
print("parent", os.getppid(), flush=True)
torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.AdamW(model.parameters())
for batch, in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(400, 64)), batch_size=4):
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
TWO_RANKS = f"""
{WRITES}
def of_sample(rank):
    write(rank, 2)
    shutil.copy({str(SAMPLES / "gloo-slow-rank")!r} + f"/rank{{rank}}.json.gz", out)
for rank in (1, 0):
    of_sample(rank)
"""
KEEPS = "cat >> found.jsonl"


def found(folder: Path) -> list[dict[str, Any]]:
    """The findings that the command has kept, each by its schema."""
    file = folder / "found.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    for line in lines:
        jsonschema.validate(line, RunFinding.schema())
    return lines


def finding(number: int) -> RunFinding:
    return RunFinding(kind="stall", about=f"step {number}", text="a stall", do="look", run="/runs/a", step=number)


def living(group: int) -> list[str]:
    """The processes of a group that have not ended; one that has may still wait for its parent."""
    told = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of = file.read_text(errors="replace").rpartition(")")[2].split()[:3]
            told += [file.parent.name] if (int(of), state != "Z") == (group, True) else []
    return told


@pytest.fixture
def kept(tmp_path: Path) -> FindingCommand:
    """A command that appends a line with the number of findings of each start, and the findings."""
    (tmp_path / "keep.sh").write_text("cat > given; wc -l < given >> starts; cat given >> found.jsonl\n")
    return FindingCommand(f"cd '{tmp_path}' && . ./keep.sh", os.environ)


def starts(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "starts").read_text().split()]


def ran_out(command: FindingCommand) -> None:
    """The command has ended that was started last."""
    while command._running is not None:
        command.look()


@pytest.mark.capture
@pytest.mark.parametrize(("options", "window"), [((), ""), (("--arm", "--at-step", "60"), "step-60")])
def test_the_verdict_of_a_real_job_comes_from_the_process_above_it(
    options: tuple[str, ...], window: str, start: Start, tmp_path: Path
) -> None:
    needs("torch")
    command = f"{KEEPS}; echo $PPID >> parents; env > hooked"
    words = ("--out", "b", "--no-report", *options, "--on-finding", command)

    code, out, err = ended(start(*words, "--", script(tmp_path, TRAINS)))

    assert (code, out.split()[0]) == (0, "parent")
    (verdict,) = [one for one in found(tmp_path) if one["kind"] == "verdict"]
    assert (verdict["run"], verdict["window"], verdict["about"]) == (str(tmp_path / "b"), window, window)
    assert window or verdict["text"] in err
    assert set((tmp_path / "parents").read_text().split()) == {out.split()[1]}
    assert "PYTHON_DIAGNOSE" not in (tmp_path / "hooked").read_text()


@pytest.mark.capture
def test_a_late_rank_comes_beside_the_verdict_in_one_start(start: Start, tmp_path: Path) -> None:
    command = "cat > given; wc -l < given >> starts; cat given >> found.jsonl"

    code, _, _ = ended(start("--on-finding", command, "--", script(tmp_path, TWO_RANKS)))

    assert (code, starts(tmp_path)) == (0, [2])
    verdict, late = found(tmp_path)
    assert (verdict["kind"], verdict["rank"], verdict["text"].partition(";")[0]) == ("verdict", None, "data-bound")
    assert (late["kind"], late["rank"], late["about"]) == ("slow-rank", 1, "rank 1")
    assert late["text"] == "rank 1 is late because of its data"
    assert late["do"] == f"diagnose analyze {late['run']}"


@pytest.mark.capture
def test_a_job_that_stands_still_is_told_while_it_does(start: Start, tmp_path: Path) -> None:
    stands = f"{STARTS}\npulse.beat(3, 100_000)\nuntil(lambda: os.path.exists({str(tmp_path / 'found.jsonl')!r}))\n"
    words = ("--arm", "--hang-stacks", "1", "--out", "b", "--no-report", "--on-finding", KEEPS)

    code, _, _ = ended(start(*words, "--", script(tmp_path, stands + "sys.exit(3)")))

    assert code == 3
    (hang,) = found(tmp_path)
    assert (hang["kind"], hang["about"], hang["step"]) == ("hang", "after step 3", 3)
    assert hang["text"].startswith("no step has ended for ")
    assert hang["do"] == f"diagnose hang {tmp_path / 'b'}"


@pytest.mark.capture
def test_a_collective_that_timed_out_is_told_at_the_end(start: Start, tmp_path: Path) -> None:
    job = f"{WRITES}\nwrite(0)\nopen(os.path.join(out, 'flight-recorder-rank0'), 'wb').close()\n"

    ended(start("--on-finding", KEEPS, "--", script(tmp_path, job)))

    assert [one["text"] for one in found(tmp_path) if one["kind"] == "hang"] == ["a call of a collective timed out"]


@pytest.mark.capture
@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("echo no route >&2; exit 7", "it ended with 7: no route"),
        ("no-such-program", "it ended with 127"),
        ("kill -9 $$", "it ended with -9"),
        ("exec <&-; false", "it ended with 1"),
    ],
)
def test_its_failure_is_said_once_and_never_that_of_the_run(
    command: str, says: str, start: Start, tmp_path: Path
) -> None:
    job = f"{WRITES}\nwrite(0)\nimport sys; sys.exit(5)\n"

    code, out, err = ended(start("--no-report", "--on-finding", command, "--", script(tmp_path, job)))

    assert (code, out) == (5, "")
    assert err.count("--on-finding failed") == 1
    assert says in err
    assert err.splitlines()[-1].startswith("diagnose: data-bound; set num_workers=4")


@pytest.mark.capture
def test_a_settings_file_starts_no_command(start: Start, tmp_path: Path) -> None:
    (tmp_path / "diagnose.toml").write_text(f"[run]\non-finding = '{KEEPS}'\n")

    code, _, err = ended(start("--no-report", "--", script(tmp_path, f"{WRITES}\nwrite(0)\n")))

    assert (code, found(tmp_path)) == (0, [])
    assert "--on-finding is only taken from the command line" in err


def test_what_is_found_meanwhile_waits_and_comes_together(
    kept: FindingCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_finding, "EVERY_S", 3600.0)
    kept.tell([finding(1)])
    ran_out(kept)
    kept.tell([finding(2)])
    kept.tell([finding(2), finding(3), finding(1)])
    assert (starts(tmp_path), kept.done) == ([1], False)

    monkeypatch.setattr(on_finding, "EVERY_S", 0.0)
    kept.finish()

    assert (starts(tmp_path), kept.done) == ([1, 2], True)
    assert [one["step"] for one in found(tmp_path)] == [1, 2, 3]


def test_so_many_wait_at_most(kept: FindingCommand, tmp_path: Path) -> None:
    kept.tell(finding(number) for number in range(MOST_WAITING + 9))
    kept.finish()

    assert [one["step"] for one in found(tmp_path)] == list(range(9, MOST_WAITING + 9))


def test_one_that_takes_too_long_is_killed_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(on_finding, "LONGEST_S", 0.0)
    command = FindingCommand("sleep 600 & sleep 600", os.environ)

    command.tell([finding(1)])
    assert command._running is not None
    group = command._running[0].pid
    command.finish()

    assert command.done
    assert "it took more than 0 s and was ended" in capfd.readouterr().err
    deadline = time.monotonic() + PATIENCE_S
    while living(group) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert living(group) == []


def test_a_command_that_cannot_be_started_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    command = FindingCommand("true\0", os.environ)
    command.tell([finding(1)])

    assert command.done
    assert "--on-finding failed, which is said once: embedded null byte" in capfd.readouterr().err


def test_the_logs_of_a_job_that_runs_tell_its_stalls_and_leaks_once(kept: FindingCommand, tmp_path: Path) -> None:
    folder = armed_folder(tmp_path / "run", [])
    log = folder / "rank0.steps"
    begins, _, _ = log.read_text().splitlines()
    blocks = [{"s": 1 + 40 * n, "us": [10_000] * 40, "t": 2.0 + n} for n in range(20)]
    held = [{"step": 10 * n, "held": {"host": 10**9 + 10**7 * n}} for n in range(80)]
    long = {"what": "long", "t": 30.0, "step": 300, "after_ms": 2400, "at": "train.py:7 save", "doing": ""}
    lines = [json.loads(begins), *blocks, *held, long]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))

    logs = RunFindings(folder, kept)
    for _ in range(2):
        logs._next_s = 0.0
        logs.look()
    kept.finish()

    told = {one["kind"]: one for one in found(tmp_path)}
    assert len(found(tmp_path)) == 2
    assert (told["stall"]["step"], told["stall"]["rank"]) == (300, 0)
    assert told["stall"]["text"] == "step 300 of rank 0, 2.4 s after it began: train.py:7 save"
    assert told["leak"]["about"] == "host memory"


@pytest.mark.capture
def test_the_window_of_a_job_that_runs_is_judged_once_it_is_whole(kept: FindingCommand, tmp_path: Path) -> None:
    folder = armed_folder(tmp_path / "run", [20], "cpu-slow-loader.json.gz")
    run = RunFindings(folder, kept)

    def look() -> list[str]:
        run._next_s = 0.0
        run.look()
        ran_out(kept)
        return [f"{one['kind']} {one['window']} {one['text'].partition(';')[0]}" for one in found(tmp_path)]

    assert look() == []
    done = {"rank": 0, "world_size": 1, "trace": "rank0.json.gz"}
    (folder / "step-20" / "rank0.done").write_text(json.dumps(done))
    assert look() == look() == ["verdict step-20 data-bound"]


POSTED: list[bytes] = []


class Hook(BaseHTTPRequestHandler):
    """A webhook that keeps what is posted."""

    def do_POST(self) -> None:
        POSTED.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def webhook() -> Iterator[str]:
    POSTED.clear()
    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/services/x"
    server.shutdown()
    server.server_close()


@pytest.mark.capture
@pytest.mark.skipif(not (shutil.which("jq") and shutil.which("curl")), reason="needs jq and curl")
def test_the_recipes_of_the_page_append_and_post(webhook: str, start: Start, tmp_path: Path) -> None:
    shutil.copy(DOCS / "recipes" / "findings-to-webhook.sh", tmp_path)
    page = (DOCS / "integrations.md").read_text(encoding="utf-8")
    commands = re.findall(r"^.*diagnose run --on-finding (.+) -- train\.py$", page, re.MULTILINE)
    job = script(tmp_path, TWO_RANKS)

    for command in commands:
        code, _, err = ended(start("--on-finding", *shlex.split(command), "--", job, env={"WEBHOOK": webhook}))
        assert (code, "--on-finding" in err) == (0, False), err

    kinds = [json.loads(line)["kind"] for line in (tmp_path / "findings.jsonl").read_text().splitlines()]
    (message,) = map(json.loads, POSTED)
    first, second = message.pop("text").split("\n")
    assert (kinds, message) == (["verdict", "slow-rank"], {})
    assert (first[:20], second) == ("verdict: data-bound;", "slow-rank: rank 1 is late because of its data")
