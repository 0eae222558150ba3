"""The page of `diagnose compare` in headless Chromium: a long kernel name scrolls in a box of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser, browser
from click.testing import CliRunner

from diagnose.cli import main

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")]
SAMPLES = Path(__file__).parents[2] / "sample_traces"
KERNEL = "void_at::native::vectorized_elementwise_kernel&lt;4,at::native::CUDAFunctor_add&lt;float&gt;&gt;" * 3


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("width", [400, 800, 1400])
def test_a_long_kernel_name_leaves_the_page_as_wide_as_its_window(tab: Browser, tmp_path: Path, width: int) -> None:
    file = tmp_path / "compared.html"
    sides = [str(SAMPLES / name) for name in ("cpu-slow-loader.json.gz", "cpu-healthy.json.gz")]
    CliRunner().invoke(main, ["compare", *sides, "--html", str(file)])
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('<th scope="row">', f'<th scope="row">{KERNEL}'), encoding="utf-8")

    tab.open(file, width=width)

    assert tab.complaints == []
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run("[...document.querySelectorAll('table')].every(table => table.closest('.scroll[tabindex]'))")
