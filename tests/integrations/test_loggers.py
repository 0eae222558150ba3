"""The real loggers of a Trainer, offline: the figures of a window arrive, and artifacts where they are asked for."""

import json
from pathlib import Path

import pytest
from capture.scripts import TRAINER, run
from integrations.told import RECORDING, diagnosed
from needs import needs

needs("transformers", "accelerate")
pytestmark = pytest.mark.capture

SCRIPT = (
    TRAINER
    + RECORDING
    + """
from diagnose.probes.reporting import analysis
analysis.analysed = lambda folder, begun: json.load(open(sys.argv[1] + "/sample.json"))
from diagnose.probes import DiagnoseCallback
callback = DiagnoseCallback(sys.argv[1] + "/out", steps=2, skip=2, sample_steps=0, artifacts=sys.argv[1][-1] == "a")
told(callback, report_to=["LOGGER"]).train()
"""
)


def trained(tmp_path: Path, logger: str, after: str = "", *, artifacts: bool = False, **environment: str) -> Path:
    """The folder in which the logger wrote."""
    folder = tmp_path / ("a" if artifacts else "b")
    folder.mkdir()
    (folder / "sample.json").write_text(json.dumps(diagnosed("cpu-slow-loader.json.gz")))
    done = run(SCRIPT.replace("LOGGER", logger) + after, folder, **environment)
    assert done.returncode == 0, done.stderr
    return folder


def test_tensorboard_draws_the_figures(tmp_path: Path) -> None:
    needs("tensorboard")
    trained(
        tmp_path, "tensorboard", TENSORBOARD_LOGGING_DIR=str(tmp_path / "log")
    )  # below the output before transformers 5
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (written,) = {path.parent for path in tmp_path.rglob("events.out.tfevents.*")}
    events = EventAccumulator(str(written))
    events.Reload()
    (drawn,) = events.Scalars("train/diagnose/data_percent")
    assert round(drawn.value, 1) == 47.1


@pytest.mark.parametrize("artifacts", [False, True])
def test_wandb_gets_figures_and_its_artifact_on_request(tmp_path: Path, artifacts: bool) -> None:
    needs("wandb")
    folder = trained(
        tmp_path,
        "wandb",
        "import wandb\nwandb.finish()\n",
        artifacts=artifacts,
        WANDB_MODE="offline",
        WANDB_SILENT="true",
        WANDB_DIR=str(tmp_path),
        WANDB_CACHE_DIR=str(tmp_path / "cache"),
        WANDB_DATA_DIR=str(tmp_path / "data"),
    )

    (log,) = folder.parent.glob("wandb/offline-run-*/*.wandb")
    written = log.read_bytes()
    assert b"train/diagnose/data_percent" in written
    assert (b"diagnose/line" in written) is artifacts
    assert (b"diagnosis" in written) is artifacts


@pytest.mark.parametrize("artifacts", [False, True])
def test_mlflow_gets_figures_and_its_artifact_on_request(tmp_path: Path, artifacts: bool) -> None:
    needs("mlflow")
    uri = (tmp_path / "runs").as_uri()
    trained(tmp_path, "mlflow", artifacts=artifacts, MLFLOW_TRACKING_URI=uri, MLFLOW_ALLOW_FILE_STORE="true")

    metrics = list(tmp_path.glob("runs/*/*/metrics/diagnose/data_percent"))
    documents = [json.loads(path.read_text()) for path in tmp_path.glob("runs/*/*/artifacts/diagnose-step-3.json")]
    assert len(metrics) == 1
    assert [document["figures"]["diagnose/window_step"] for document in documents] == [3] * artifacts


def test_a_document_goes_to_the_runs_that_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins of both, since neither needs to be installed; one that fails keeps nothing from the other."""
    import sys
    from types import SimpleNamespace

    from diagnose.probes.reporting import figures
    from diagnose.probes.reporting import report as artifacts

    sent: dict[str, object] = {}
    mlflow = SimpleNamespace(
        active_run=lambda: "a run",
        set_tag=lambda name, value: sent.update({name: value}),
        log_dict=lambda document, name: sent.update({name: document}),
    )
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace())
    document = figures.document(diagnosed("cpu-slow-loader.json.gz"))
    artifacts.send(document)

    assert sent == {"diagnose.line": document["line"], "diagnose-step-3.json": document}
    sent.clear()
    mlflow.active_run = lambda: None  # type: ignore[assignment,return-value]
    artifacts.send(document)
    assert sent == {}
