"""Shared options, a cache for the tests alone, and no net under what fails."""

import contextlib
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

with contextlib.suppress(ImportError):  # not in the environments of .ci/slow, which have pytest alone
    from hypothesis import HealthCheck, settings

    settings.register_profile(  # a busy machine makes no example wrong, and the same tree is tried with the same ones
        "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True, database=None
    )
    settings.load_profile("patient")


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands under test keep nothing in the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DIAGNOSE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        with contextlib.suppress(ImportError):  # what a test changes in this process, no file tells
            patch.setattr("diagnose.analysis.cached.LEAST_BYTES", 1 << 62)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_ledger_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands under test neither append to the user's own promises nor quote them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DIAGNOSE_LEDGER", "off")
        patch.setenv("DIAGNOSE_DATA_DIR", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="session", autouse=True)
def without_the_last_net() -> Iterator[None]:
    """A defect inside one metric, rule or section fails the test, in this process and in those it starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DIAGNOSE_DEFECTS", "raise")
        yield


@pytest.fixture(scope="session", autouse=True)
def interrupts_are_heard() -> None:
    """A shell starts what runs in its background deaf to interrupts, and all commands under test would be so too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test of a GPU is skipped where torch sees none; a test of two where it sees one."""
    needed = 2 if item.get_closest_marker("two_gpus") else 1 if item.get_closest_marker("gpu") else 0
    if needed and (seen := gpus()) < needed:
        pytest.skip(f"needs {needed} GPU{'s' if needed > 1 else ''}: torch sees {seen or 'none'}")


@cache
def gpus() -> int:
    """How many GPUs torch sees; none where it is missing."""
    try:
        import torch
    except ImportError:
        return 0
    return int(torch.cuda.device_count())


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """`diagnose run` ends deaf to signals; called within this process, all that is started later would be deaf too."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    before = {number: signal.getsignal(number) for number in numbers}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module", params=["compiled", "reference"])
def either_reader(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each test of the module once with the compiled reader of events, where it is installed, and once without."""
    from diagnose.trace import scanning

    if request.param == "compiled" and scanning._scanner is None:
        pytest.skip("the compiled reader is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DIAGNOSE_READER", request.param)
        yield request.param


@pytest.fixture
def threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who stops a thread beside waits until it has ended, however long a busy machine keeps that from running."""
    from diagnose.probes.side_thread import SideThread

    stop = SideThread.stop
    monkeypatch.setattr(SideThread, "stop", lambda thread, within_s: stop(thread, within_s=300))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="write the golden files instead of comparing")


@pytest.fixture
def update_goldens(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-goldens"))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests in these folders start torch, or the processes of a job."""
    if item.path.parent.name in ("capture", "harmless"):
        item.add_marker(pytest.mark.capture)


@pytest.fixture
def all_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of one test, in which traces of any size are kept."""
    from diagnose.trace import cache

    monkeypatch.setenv("DIAGNOSE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "SMALLEST_FILE_BYTES", 0)
    monkeypatch.setattr(cache, "SMALLEST_TEXT_BYTES", 0)
    return tmp_path / "cache"
