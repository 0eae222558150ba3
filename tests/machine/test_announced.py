"""What libraries announce becomes findings with their own remedies; a message is known by its words alone."""

import logging
import warnings
from pathlib import Path

import pytest
from machine.announcing_jobs import CASES, FALLBACK, SILENT
from machine.compiled_jobs import job
from remedies.single_gpu_jobs import analysed

from diagnose.probes import announced
from diagnose.probes.announcements import ANNOUNCEMENTS, BY_KEY, KERNELS

each = pytest.mark.parametrize("name", CASES)


@each
def test_the_message_is_found_with_the_librarys_remedy(name: str, tmp_path: Path) -> None:
    severity, record, says, do = CASES[name]
    finding = next(f for f in analysed(tmp_path, job(), record).findings if f.rule == name)

    assert finding.severity == severity
    assert says in finding.says
    assert do in finding.do


@each
def test_without_a_message_it_is_silent_and_without_a_record_not_judged(name: str, tmp_path: Path) -> None:
    (tmp_path / "silent").mkdir()
    (tmp_path / "untold").mkdir()
    silent, untold = analysed(tmp_path / "silent", job(), SILENT), analysed(tmp_path / "untold", job())

    assert name not in {f.rule for f in silent.findings} | {n.rule for n in silent.not_judged}
    assert name in {n.rule for n in untold.not_judged}


def test_the_headline_names_the_package(tmp_path: Path) -> None:
    finding = next(f for f in analysed(tmp_path, job(), FALLBACK).findings if f.rule == "reference-kernels")

    assert finding.action == "install flash-linear-attention"


TEXTS = {
    "fast-path": (
        "The fast path is not available because one of the required library is not installed. Falling back to torch "
        "implementation. To install follow https://github.com/fla-org/flash-linear-attention#installation and "
        "https://github.com/Dao-AILab/causal-conv1d",
        ["flash-linear-attention", "causal-conv1d"],
    ),
    "reference-implementation": (
        "`causal_conv1d_fn` is falling back to its reference PyTorch implementation because `causal_conv1d` is not "
        "installed. This is correct but much slower; install `causal_conv1d` for the optimized kernel.",
        ["causal-conv1d"],
    ),
    "flash-attention-package": (
        "`flash-attention` package not found, consider installing for better performance: not there.",
        ["flash-attn"],
    ),
}


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are read in this test alone."""
    monkeypatch.setattr(announced, "_announced", {})
    monkeypatch.setattr(warnings.WarningMessage, "__init__", warnings.WarningMessage.__init__)
    monkeypatch.setattr(logging.LogRecord, "__init__", logging.LogRecord.__init__)
    monkeypatch.setattr(announced, "at_exit", lambda *_: None)
    announced.watch()


@pytest.mark.parametrize("key", TEXTS)
@pytest.mark.usefixtures("watched")
def test_the_packages_are_those_of_the_text(key: str) -> None:
    text, packages = TEXTS[key]
    logging.getLogger("transformers.models.made_up").error(text)

    [row] = announced.facts()
    assert (row["message"], row["packages"]) == (key, packages)


@pytest.mark.usefixtures("watched")
def test_a_message_of_another_logger_is_not_the_librarys() -> None:
    logging.getLogger("of.the.job").error(TEXTS["fast-path"][0])

    assert announced.facts() == []


def test_each_message_has_one_key_and_a_remedy_or_packages() -> None:
    assert len(BY_KEY) == len(ANNOUNCEMENTS)
    assert all(each.remedy or each.about == KERNELS for each in ANNOUNCEMENTS)
