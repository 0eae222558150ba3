"""The one session of this process: asked for by the hooks, made from the environment or in code."""

from __future__ import annotations

from .config import Config, from_environment
from .guard import guarded
from .hand_over import in_forked_children
from .recording.run_time import run_time
from .session import Session

_session: Session | None = None
_asked = False


def session() -> Session | None:
    """The process's session, built from PYTHON_DIAGNOSE on first use; None when nothing is to be captured."""
    global _session, _asked
    if not _asked:
        _asked = True
        guarded(_build, "no capture")
    return _session


def configure(config: Config) -> Session:
    """A session for in-code use, in the place of the environment's; one that is capturing stays."""
    global _session, _asked
    _asked = True
    if _session is None or _session.phase == "done":
        _session = Session(config)
        _forget_in_children()
    return _session


def _build() -> None:
    global _session
    config = from_environment()
    if config is not None:
        _session = Session(config) if config.armed is None else _timing(config)
        run_time.watch()
        _forget_in_children()


def _timing(config: Config) -> Session:
    from .timing.session import TimingSession  # which needs more of the system than one window does

    return TimingSession(config)


def _forget() -> None:
    global _session, _asked
    _session, _asked = None, True
    run_time.forget()


def _forget_in_children() -> None:
    """Forget the session in forked children: a DataLoader worker is no training process."""
    in_forked_children(_forget, "a forked process goes on with the capture")
