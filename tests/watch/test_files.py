"""The page and the metrics of a view: what they hold, and what happens where they cannot be written."""

import json
import re
from pathlib import Path

import pytest
from armed_folders import armed_folder
from click.testing import CliRunner, Result
from needs import needs

from diagnose.cli import main
from diagnose.commands.watch.files import Files
from diagnose.commands.watch.glances import Glances
from diagnose.commands.watch.lines import one_line
from diagnose.commands.watch.prometheus import exposition
from diagnose.errors import UserError

SAMPLE = re.compile(r'(diagnose_[a-z_]+)\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (-?[\d.e+-]+)')
UNITS = ("_seconds", "_ratio", "_total", "_per_second", "_steps", "_stalls", "_state", "_bytes", "_hertz", "_watts")


def watch(*words: object) -> Result:
    return CliRunner().invoke(main, ["watch", *map(str, words)])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return armed_folder(tmp_path / "run", windows=[], ranks=2)


def test_each_metric_is_declared_once_before_its_samples_with_its_unit(run: Path) -> None:
    text = exposition(Glances(run).take(), "run")
    declared, sampled = [], []
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            declared.append(line.split()[2])
        elif not line.startswith("# HELP "):
            found = SAMPLE.fullmatch(line)
            assert found, line
            assert found[1] == declared[-1]
            sampled.append((found[1], found[2]))

    assert len(set(declared)) == len(declared) == text.count("# HELP ")
    assert len(set(sampled)) == len(sampled)
    assert set(declared) == {name for name, _ in sampled}
    assert all(name.endswith(UNITS) for name in declared)
    assert all((name.endswith("_total")) == (f"# TYPE {name} counter" in text) for name in declared)
    assert 'diagnose_rank_steps_total{run="run",rank="1",host="n1"} 40\n' in text
    assert 'diagnose_step_seconds{run="run"} 0.01\n' in text


def seen(run: Path, rank: int) -> None:
    """What a rank reads of itself and its GPU, as its log has it."""
    held = {"held": {"rss": 2 << 30, "device": 5 << 30}, "goodput": [9 * 10**9, 10**10], "step": 40}
    of_gpu = {"gauges": {"sm_clock_mhz": 1500 + rank, "power_w": 600}, "step": 40, "t": 2.5}
    with (run / f"rank{rank}.steps").open("a") as log:
        log.writelines(json.dumps(line) + "\n" for line in (held, of_gpu))


def test_memory_clock_and_goodput_are_of_each_rank_and_the_view_has_the_worst(run: Path) -> None:
    for rank in range(2):
        seen(run, rank)
    view = Glances(run).take()
    text = exposition(view, "run")

    for metric in (
        "goodput_ratio{} 0.9", "host_memory_bytes{} 2147483648", "device_memory_peak_bytes{} 5368709120",
        "sm_clock_hertz{} 1501000000", "power_watts{} 600",
    ):  # fmt: skip
        assert f"diagnose_rank_{metric}\n".replace("{}", '{run="run",rank="1",host="n1"}') in text
    said = one_line(view)
    assert "goodput 90.0 % of the time so far; memory 2.0 GiB (host), 5.0 GiB (device, at most so far)" in said
    assert "gpu clock 1,500 MHz, power 600 W" in said


def test_each_view_is_a_line_of_otlp_with_the_metrics_of_the_other_form(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"resourceMetrics":[')  # as a full disk leaves it
    for _ in range(2):
        assert watch(run, "--once", "--otlp", file).exit_code == 0
    cut, *lines = file.read_text().splitlines()
    (told,) = json.loads(lines[1])["resourceMetrics"]
    found = {metric["name"]: metric for metric in told["scopeMetrics"][0]["metrics"]}

    assert (cut, len(lines)) == ('{"resourceMetrics":[', 2)
    attributes = {each["key"]: each["value"]["stringValue"] for each in told["resource"]["attributes"]}
    assert attributes == {"service.name": "diagnose", "diagnose.run": "run"}
    assert len(found) == exposition(Glances(run).take(), "run").count("# TYPE ")
    assert all(re.fullmatch(r"diagnose(\.[a-z_]+)+", name) for name in found)
    (point,) = found["diagnose.step.duration"]["gauge"]["dataPoints"]
    assert (point["asDouble"], found["diagnose.step.duration"]["unit"]) == (pytest.approx(0.01), "s")
    counted = found["diagnose.rank.steps"]["sum"]
    assert (counted["isMonotonic"], counted["aggregationTemporality"]) == (True, 2)
    assert [point["asDouble"] for point in counted["dataPoints"]] == [40, 40]


def test_the_readers_of_both_forms_take_every_field(run: Path, tmp_path: Path) -> None:
    needs("google", "opentelemetry", "prometheus_client")
    from google.protobuf.json_format import Parse
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
    from prometheus_client.parser import text_string_to_metric_families

    seen(run, 0)
    assert watch(run, "--once", "--otlp", tmp_path / "metrics.jsonl").exit_code == 0
    (told,) = Parse((tmp_path / "metrics.jsonl").read_text(), MetricsData()).resource_metrics  # refuses unknown fields
    points = {
        metric.name: getattr(metric, metric.WhichOneof("data")).data_points for metric in told.scope_metrics[0].metrics
    }
    families = {each.name: each for each in text_string_to_metric_families(exposition(Glances(run).take(), "run"))}

    assert [point.as_double for point in points["diagnose.rank.steps"]] == [40, 40]
    assert all(point.time_unix_nano > 0 for each in points.values() for point in each)
    assert families["diagnose_rank_steps"].type == "counter"
    assert [sample.value for sample in families["diagnose_rank_steps"].samples] == [40, 40]
    assert len(families) == len(points)


def test_what_is_unknown_is_no_metric(run: Path) -> None:
    text = exposition(Glances(run).take(), "run")

    assert not re.search("mfu|data_wait|tokens|samples_per|remaining|planned|waited_for", text)


def test_a_name_of_a_run_ends_no_label(run: Path) -> None:
    text = exposition(Glances(run).take(), 'a"b\\c\nd')

    assert 'diagnose_steps_total{run="a\\"b\\\\c\\nd"} 40\n' in text


def test_the_page_needs_nothing_else_and_says_what_the_line_says(run: Path, tmp_path: Path) -> None:
    done = watch(run, "--page", tmp_path / "view.html")
    page = (tmp_path / "view.html").read_text()

    assert (done.exit_code, done.stderr) == (0, "")
    assert re.findall(r"https?://|<script|src=|url\(", page) == []
    assert "default-src 'none'" in page
    assert "ended: all ranks: the process ended" in page
    assert "1: step 40, 10.0 ms per step, ended" in page
    assert "10.0 ms at the end, 10.0 ms usual" in done.stdout


def test_the_page_escapes_what_a_log_says(run: Path, tmp_path: Path) -> None:
    for rank in range(2):
        log = run / f"rank{rank}.steps"
        log.write_text(log.read_text().replace("the process ended", "<b>over</b>"))
    watch(run, "--once", "--page", tmp_path / "view.html")

    assert "&lt;b&gt;over&lt;/b&gt;" in (tmp_path / "view.html").read_text()


@pytest.mark.parametrize("option", ["--page", "--prometheus", "--otlp"])
@pytest.mark.parametrize("more", [(), ("--once",)])
def test_a_file_that_cannot_be_written_is_said_at_once(
    option: str, more: tuple[str, ...], run: Path, tmp_path: Path
) -> None:
    done = watch(run, option, tmp_path / "none" / "file", *more)

    assert done.exit_code == UserError.exit_code
    assert done.stderr.startswith("Error: cannot write the view: ")


def test_a_file_that_fails_later_is_said_once_and_tried_again(
    run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    to, view = tmp_path / "view.txt", Glances(run).take()
    files = Files({to: one_line})

    files.write(view)
    to.unlink()
    to.mkdir()
    files.write(view)
    files.write(view)
    said = capfd.readouterr().err
    to.rmdir()
    files.write(view)

    assert said.count("view.txt is not written: Is a directory; it is tried again\n") == 1
    assert to.read_text() == one_line(view)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "view.txt"]
