"""What a shell completes."""

import pytest
from click.shell_completion import BashComplete

from diagnose.cli import main
from diagnose.formulas.named_models import NAMED_MODELS


def completed(*words: str) -> list[str]:
    """What is offered for the last word."""
    *before, last = words
    return [
        item.value for item in BashComplete(main, {}, "diagnose", "_DIAGNOSE_COMPLETE").get_completions(before, last)
    ]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("explain", "unfused-a"), "unfused-attention"),
        (("explain", "memory-b"), "memory-bound"),
        (("explain", "softm"), "softmax"),
        (("explain", "data_wait_s"), "data_wait_share"),
        (("explain", "roof"), "roofline"),
        (("hardware", "h100"), "H100-SXM5-80GB"),
        (("fit", "--gpu", "A100"), "A100-SXM4-80GB"),
        (("fit", "--model", "llama-3"), "Llama-3.1-8B"),
        (("analyze", "--gpu", "V100"), "V100-SXM2-16GB"),
    ],
)
def test_names_are_completed(words: tuple[str, ...], offered: str) -> None:
    assert offered in completed(*words)


def test_all_that_is_offered_begins_with_what_is_typed() -> None:
    assert all(each.startswith("late") for each in completed("explain", "late"))
    assert len(completed("fit", "--model", "")) == len(NAMED_MODELS)
