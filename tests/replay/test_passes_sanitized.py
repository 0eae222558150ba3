"""The compiled loop over the items under the sanitizers of addresses and of undefined behaviour."""

from pathlib import Path

import pytest
from sanitized import sanitized_tries

SCRIPT = Path(__file__).parents[1] / "passed_items.py"
SOURCE = SCRIPT.parents[1] / "diagnose" / "predict" / "replay" / "native" / "loop.c"

pytestmark = pytest.mark.slow


def test_nothing_is_read_or_written_beyond_its_place(tmp_path: Path) -> None:
    done = sanitized_tries(SOURCE, SCRIPT, 10_000, tmp_path)

    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert "both loops agree" in done.stdout


@pytest.mark.parametrize(
    ("checked", "unchecked"),
    [
        ("number >= 0 && number < size", "1"),
        ("stream >= step->streams || ", ""),
        ("if (owner >= step->items)", "if (0)"),
        ("entries(&of[each]) != entries(&of[BEFORE])", "0"),
        ("entries(&of[CLOCKS]) == entries(&of[NEXT]) + 2", "1"),
        ("entries(&of[FIRST]) == entries(&of[NEXT]) + 1", "1"),
    ],
)
def test_each_check_keeps_the_loop_within_its_arrays(checked: str, unchecked: str, tmp_path: Path) -> None:
    text = SOURCE.read_text()
    assert checked in text
    source = tmp_path / SOURCE.name
    source.write_text(text.replace(checked, unchecked))

    done = sanitized_tries(source, SCRIPT, 1_000, tmp_path)

    assert done.returncode != 0
    assert "AddressSanitizer" in done.stderr
