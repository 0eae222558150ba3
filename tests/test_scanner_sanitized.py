"""The compiled reader under the sanitizers of addresses and of undefined behaviour."""

import shutil
from pathlib import Path

import pytest
from sanitized import sanitized_tries

TESTS = Path(__file__).parent
NATIVE = TESTS.parent / "diagnose" / "trace" / "native"
SOURCE = NATIVE / "scanner.c"
SCRIPT = TESTS / "scanned_texts.py"


@pytest.mark.slow
def test_nothing_is_read_or_written_beyond_its_place(tmp_path: Path) -> None:
    done = sanitized_tries(SOURCE, SCRIPT, 10_000, tmp_path)

    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert "both readers agree" in done.stdout


@pytest.mark.slow
def test_texts_that_find_no_place_are_asked_for_again(tmp_path: Path) -> None:
    done = sanitized_tries(SOURCE, SCRIPT, 2_000, tmp_path, "-DMOST_HELD=300", "-DMOST_PROBES=1")

    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert "both readers agree" in done.stdout


@pytest.mark.slow
def test_a_processor_without_instructions_for_sixteen_bytes(tmp_path: Path) -> None:
    done = sanitized_tries(SOURCE, SCRIPT, 2_000, tmp_path, "-U__SSE2__")

    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert "both readers agree" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bound", "none"), [("end - at >= 8", "end - at >= 1"), ("text->end - text->at < 8", "text->end == text->at")]
)
def test_a_read_beyond_the_end_of_the_text_is_found(bound: str, none: str, tmp_path: Path) -> None:
    native = shutil.copytree(NATIVE, tmp_path / "native")
    text = (native / "text.h").read_text()
    assert bound in text
    (native / "text.h").write_text(text.replace(bound, none))

    done = sanitized_tries(native / SOURCE.name, SCRIPT, 500, tmp_path)

    assert done.returncode != 0
    assert "AddressSanitizer" in done.stderr
