"""The compiled pass over nested events under the sanitizers of addresses and of undefined behaviour."""

from pathlib import Path

import pytest
from sanitized import sanitized_tries

SCRIPT = Path(__file__).parent / "nested_events.py"
SOURCE = SCRIPT.parents[1] / "diagnose" / "roofline" / "native" / "nests.c"

pytestmark = pytest.mark.slow


def test_nothing_is_read_or_written_beyond_its_place(tmp_path: Path) -> None:
    done = sanitized_tries(SOURCE, SCRIPT, 10_000, tmp_path)

    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert "both find the same" in done.stdout


@pytest.mark.parametrize(
    ("checked", "unchecked"),
    [
        ("if (up[at] >= at)", "if (0)"),
        ("arrays[0].len == count * bytes[0]", "1"),
        ("arrays[1].len == count * bytes[1]", "1"),
    ],
)
def test_each_check_keeps_the_pass_within_its_arrays(checked: str, unchecked: str, tmp_path: Path) -> None:
    text = SOURCE.read_text()
    assert checked in text
    source = tmp_path / SOURCE.name
    source.write_text(text.replace(checked, unchecked))

    done = sanitized_tries(source, SCRIPT, 1_000, tmp_path)

    assert done.returncode != 0
    assert "AddressSanitizer" in done.stderr
