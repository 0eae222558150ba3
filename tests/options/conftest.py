"""Real jobs that the tests of options share, whichever of pytest's workers runs them."""

import os
from pathlib import Path

import pytest

# what is imported before is not rewritten
pytest.register_assert_rewrite(
    "options.rows", "options.of_run", "options.of_tune", "options.of_data", "options.of_trigger"
)

from options.inputs import Inputs  # noqa: E402
from options.jobs import Jobs  # noqa: E402
from options.tables import JOBS  # noqa: E402


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of all workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "jobs-of-options"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def jobs(shared: Path) -> Jobs:
    """The jobs by name; each runs once."""
    return Jobs(JOBS, shared)


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory, jobs: Jobs) -> Inputs:
    """What command lines read, by name."""
    return Inputs(tmp_path_factory.mktemp("inputs"), jobs)
