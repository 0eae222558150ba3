"""Which installations of HolisticTraceAnalysis are refused, by what importlib.metadata says is installed."""

from importlib.metadata import PackageNotFoundError

import pytest

from diagnose.commands.hta import installed
from diagnose.errors import UserError


@pytest.fixture
def with_installed(monkeypatch: pytest.MonkeyPatch):
    """Makes it look as if these distributions, and no others, are installed."""

    def pretend(**versions: str) -> None:
        def version(name: str) -> str:
            if name not in versions:
                raise PackageNotFoundError(name)
            return versions[name]

        monkeypatch.setattr("importlib.metadata.version", version)

    return pretend


def test_without_it_the_error_names_the_extra(with_installed) -> None:
    with_installed(pandas="3.1.1")

    with pytest.raises(UserError) as refused:
        installed.require()

    assert refused.value.do == 'pip install ".[hta]" in a checkout of diagnose'


def test_both_names_at_once_are_refused(with_installed) -> None:
    with_installed(HolisticTraceAnalysis="0.5.0", traceinsight="0.6.1", pandas="2.3.3")

    with pytest.raises(UserError) as refused:
        installed.require()

    assert "overwrite each other's files" in refused.value.why
    assert refused.value.do.startswith("pip uninstall -y HolisticTraceAnalysis traceinsight")


@pytest.mark.parametrize("name", ["HolisticTraceAnalysis", "traceinsight"])
def test_one_name_is_enough(with_installed, name: str) -> None:
    with_installed(**{name: "0.6.1"})

    installed.require()


@pytest.mark.parametrize(
    ("hta", "pandas", "runs"),
    [
        ({"HolisticTraceAnalysis": "0.5.0"}, "3.1.1", False),
        ({"HolisticTraceAnalysis": "0.5.0"}, "2.3.3", True),
        ({"traceinsight": "0.6.1"}, "3.1.1", True),
    ],
)
def test_the_critical_path_of_0_5_needs_pandas_2(with_installed, hta: dict[str, str], pandas: str, runs: bool) -> None:
    with_installed(**hta, pandas=pandas)

    installed.require()  # all else runs
    if runs:
        installed.require_critical_path()
    else:
        with pytest.raises(UserError, match="fails with pandas 3"):
            installed.require_critical_path()
