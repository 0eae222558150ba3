"""What torch's own analyzer (`torchfrtrace`) says of the ten kinds of dumps, beside what is said here."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kinds_of_hangs as kinds
import pytest
from needs import needs
from recorded_calls import answer, written

pytestmark = pytest.mark.capture

KINDS: list[tuple[str, Any, str, str]] = [  # dumps, what torch says, what is said here
    ("missing rank", kinds.MISSING, "missing ranks: {2}", "Rank 2 has not made call 7"),
    ("other order", kinds.OTHER_ORDER, "Culprit rank 2; Error type: COLLECTIVE_TYPE_MISMATCH", "in different orders"),
    ("other size", kinds.OTHER_SIZE, "Culprit rank 2; Error type: SIZE_OR_SYNTAX_MISMATCH", "number of elements"),
    ("other operation", kinds.OTHER_OPERATION, "COLLECTIVE_TYPE_MISMATCH", "disagree about the operation"),
    ("other type", kinds.OTHER_TYPE, "COLLECTIVE_DTYPE_MISMATCH", "type of the tensors"),
    ("other group", kinds.OTHER_GROUP, "missing ranks: {0, 1}", "rank 2 in group 2 (mesh_tp)"),
    ("left the loop", kinds.LEFT_THE_LOOP, "Culprit rank 3; Error type: COLLECTIVE_TYPE_MISMATCH", "different places"),
    ("slow", kinds.SLOW, "COLLECTIVE_STATE_MISMATCH", "none is missing"),
    ("partial", kinds.PARTIAL, "AssertionError: Missing dump files from ranks {1, 3}", "Rank 2 has not made call 7"),
    ("old version", kinds.OLD, "KeyError: 'pg_config'", "Rank 1 has not made call 4"),
]


@pytest.fixture
def torch_says() -> Iterator[Any]:
    """Runs torch's analyzer on a folder; what it logs, and the error that it ends with."""
    needs("torch")
    from torch.distributed.flight_recorder import fr_trace

    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler, logger = Kept(), logging.getLogger("Flight Recorder")
    logger.addHandler(handler)

    def says(folder: Path) -> str:
        lines.clear()
        try:
            fr_trace.main([str(folder)])
        except Exception as error:
            lines.append(f"{type(error).__name__}: {error}")
        return "\n".join(lines)

    yield says
    logger.removeHandler(handler)


@pytest.mark.parametrize(("dumps", "torch", "ours"), [row[1:] for row in KINDS], ids=[row[0] for row in KINDS])
def test_both_are_asked(dumps: Any, torch: str, ours: str, torch_says: Any, tmp_path: Path) -> None:
    assert torch in torch_says(written(tmp_path, dumps))
    assert ours in answer(tmp_path, dumps).headline


def test_the_page_shows_what_each_says() -> None:
    page = (Path(__file__).parents[2] / "docs" / "hang.md").read_text(encoding="utf-8")
    table = [line for line in page.splitlines() if line.startswith(tuple(f"| {row[0]} |" for row in KINDS))]

    assert table == [f"| {name} | `{torch}` | {ours} |" for name, _, torch, ours in KINDS]


def test_a_hostile_dump_runs_in_torchs_analyzer_and_not_here(torch_says: Any, tmp_path: Path) -> None:
    made = tmp_path / "made"
    dumps = kinds.hostile(str(made))

    answer(tmp_path / "dumps", dumps)
    assert not made.exists()

    torch_says(tmp_path / "dumps")
    assert made.exists()


def test_gloos_dumps_list_no_groups_which_torchs_analyzer_needs(torch_says: Any) -> None:
    shipped = Path(__file__).parents[2] / "sample_traces" / "dumps" / "hang-missing-rank"

    assert "KeyError" in torch_says(shipped)
    assert os.listdir(shipped)
