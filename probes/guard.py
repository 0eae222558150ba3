"""What keeps a probe from hurting the job: errors end in one line on stderr, never in the training loop."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def say(line: str) -> None:
    """Print one line on stderr; a closed stderr is no reason to fail."""
    try:
        print(f"diagnose: {line}".splitlines()[0], file=sys.stderr, flush=True)
    except Exception:
        return


def told(error: BaseException) -> str:
    """The error in one line."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]


def guarded(call: Callable[[], object], doing: str, failed: Callable[[str], object] | None = None) -> bool:
    """Run `call`; whatever it raises is said once and handed to `failed`. True when nothing was raised."""
    try:
        call()
    except Exception as error:
        reason = f"{doing}: {told(error)}"
        say(reason)
        if failed is not None:
            quietly(lambda: failed(reason))
        return False
    return True


def quietly(call: Callable[[], object]) -> object:
    """What `call` returns; None when it raises: for facts that may be missing."""
    try:
        return call()
    except Exception:
        return None


@contextmanager
def silent() -> Iterator[None]:
    """A job that turns warnings into errors does not mean the probe's; a probe's are nobody's business."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
