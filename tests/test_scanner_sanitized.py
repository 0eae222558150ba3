"""The compiled reader under the sanitizers of addresses and of undefined behaviour."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
NATIVE = TESTS.parent / "diagnose" / "trace" / "native"
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-std=c11", "-fPIC", "-shared")


def sanitized_tries(native: Path, tries: int, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Odd traces read by that source, built with the sanitizers of addresses and of undefined behaviour."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("needs gcc")
    module, include = folder / "_scanner.so", f"-I{sysconfig.get_paths()['include']}"
    build = [gcc, *SANITIZED, *options, include, str(native / "scanner.c"), "-o", str(module)]
    if subprocess.run(build, capture_output=True).returncode:
        pytest.skip("needs Python's headers, and gcc's sanitizers")
    asked = subprocess.run([gcc, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    env = os.environ | {"LD_PRELOAD": asked.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    command = [sys.executable, str(TESTS / "scanned_texts.py"), str(tries), "--module", str(module)]
    return subprocess.run(command, capture_output=True, text=True, env=env)


@pytest.mark.slow
def test_nothing_is_read_or_written_beyond_its_place(tmp_path: Path) -> None:
    done = sanitized_tries(NATIVE, 10_000, tmp_path)

    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert "both readers agree" in done.stdout


@pytest.mark.slow
def test_texts_that_find_no_place_are_asked_for_again(tmp_path: Path) -> None:
    done = sanitized_tries(NATIVE, 2_000, tmp_path, "-DMOST_HELD=300", "-DMOST_PROBES=1")

    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert "both readers agree" in done.stdout


@pytest.mark.slow
def test_a_processor_without_instructions_for_sixteen_bytes(tmp_path: Path) -> None:
    done = sanitized_tries(NATIVE, 2_000, tmp_path, "-U__SSE2__")

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

    done = sanitized_tries(native, 500, tmp_path)

    assert done.returncode != 0
    assert "AddressSanitizer" in done.stderr
