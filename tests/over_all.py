"""A quick question asked of hundreds of rows: one test over all, which names those that fail.

A test for each costs more than its answer: pytest's own work, three times where it runs in several processes.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

Test = Callable[..., None]
LONGEST = 80


def over_all(names: str, values: Iterable[Any]) -> Callable[[Test], Test]:
    """In the place of `pytest.mark.parametrize`, for a test that leaves nothing behind; `names` are its parameters."""
    parameters = [name.strip() for name in names.split(",")]
    rows = [tuple(value) if len(parameters) > 1 else (value,) for value in values]

    def of(test: Test) -> Test:
        @functools.wraps(test)
        def asked_of_all(**given: Any) -> None:
            assert rows, "there is nothing to ask"
            failed = [why for row in rows if (why := _failure(test, dict(zip(parameters, row, strict=True)), given))]
            assert not failed, f"{len(failed)} of {len(rows)}:\n" + "\n".join(failed)

        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in parameters]
        asked_of_all.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return asked_of_all

    return of


def _failure(test: Test, row: dict[str, Any], given: dict[str, Any]) -> str:
    """Which row fails and why; "" where it passes."""
    try:
        test(**row, **given)
    except Exception as error:  # each row is asked, whatever became of another
        asked = {name: repr(value)[:LONGEST] for name, value in row.items()}
        return f"{asked}: {type(error).__name__}: {error}"
    return ""
