"""What a name means, however it is spelled."""

import pytest
from explain_answers import explain, known, named, rules
from over_all import over_all

from diagnose.attribution.causes import CAUSES
from diagnose.metrics import REGISTRY

WORDS = ["mfu", "roofline", "iron law", "operator dispatch", "memory-bound", "confidence", "late rank",
         "profiler overhead", "fragmentation", "fp16 against bf16"]  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
def test_each_word_is_one_of_the_known(word: str) -> None:
    assert named(word).kind in ("word", "class")
    assert named(word).id == word.replace(" ", "-")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("MFU", "mfu"), ("model flops utilisation", "mfu"), ("the roofline", "roofline"), ("roof-lines", "roofline"),
        ("ridge point", "roofline"), ("Iron Law", "iron-law"), ("iron-laws", "iron-law"), ("O/(R·eta)", "iron-law"),
        ("dispatch", "operator-dispatch"), ("operators dispatch", "operator-dispatch"),
        ("memory bound", "memory-bound"),
        ("memory", "memory-bound"), ("data", "data-bound"), ("late ranks", "late-rank"), ("late_rank", "late-rank"),
        ("doubts", "confidence"), ("profiling overhead", "profiler-overhead"), ("fragmented", "fragmentation"),
        ("fp16 vs bf16", "fp16-against-bf16"), ("fp16/bf16", "fp16-against-bf16"),
        ("bf16 or fp16", "fp16-against-bf16"),
        ("data wait", "data-wait"), ("DATA_WAIT", "data-wait"), ("exposed transfer", "exposed-communication"),
        ("softmax", "softmax"), ("copies to the device", "copy-HtoD"), ("data wait share", "data_wait_share"),
        ("debug_build", "debug_build"), ("debug build", "debug-build"), ("graph break", "graph-breaks"),
    ],
)  # fmt: skip
def test_spellings_mean_the_same(typed: str, meant: str) -> None:
    assert named(typed).id == meant


def test_each_own_name_means_itself() -> None:
    assert {str(each): str(named(each.id)) for each in known() if named(each.id) != each} == {}
    assert {each.id for each in known() if each.kind == "rule"} == {*rules()}
    assert {each.id for each in known() if each.kind == "fact"} == {*REGISTRY} - {*rules()}


@over_all("cause", CAUSES)
def test_a_cause_is_known_by_its_name_and_by_its_label(cause: str) -> None:
    assert named(cause).kind in ("cause", "rule", "word")
    assert named(CAUSES[cause].label).kind in ("cause", "rule", "word")


def test_several_words_need_no_quotes() -> None:
    assert explain("late", "rank").stdout == explain("late rank").stdout


@pytest.mark.parametrize(("typed", "near"), [("mfuu", "mfu (word)"), ("unfused-atention", "unfused-attention (rule)")])
def test_an_unknown_name_has_the_three_nearest_of_all_kinds(typed: str, near: str) -> None:
    done = explain(typed)

    assert done.exit_code == 2
    assert near in done.stderr
    assert sum(done.stderr.count(f"({kind})") for kind in ("word", "class", "rule", "cause", "fact")) == 3
