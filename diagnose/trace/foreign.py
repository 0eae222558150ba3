"""What a file is that is no profiler trace, said so that the user knows what to pass instead."""

from pathlib import Path

from diagnose.errors import UserError

_KNOWN = (
    (b"speedscope.app/file-format-schema", "a speedscope profile"),
    (b'"speedscope"', "a speedscope profile"),
    (b"rocprofiler", "a rocprof result"),
    (b'"nodes"', "an execution trace (Chakra), not a profiler trace"),
    (b'"segments"', "a CUDA memory snapshot"),
    (b'"device_traces"', "a CUDA memory snapshot"),
)


def explain_foreign(path: Path, text: bytes) -> UserError:
    """The error for a file in which no `traceEvents` array was found."""
    if not text.strip():
        return UserError("the file is empty", where=path, do="check that the capture ended and the disk was not full")
    head = text[: 1 << 20]
    kind = next((name for mark, name in _KNOWN if mark in head), None)
    if kind is None:
        kind = "JSON without a traceEvents array" if head.lstrip()[:1] == b"{" else "no JSON trace"
    return UserError(
        "not a PyTorch profiler trace",
        where=path,
        why=f"it looks like {kind}",
        do="pass what torch.profiler's export_chrome_trace wrote (.json or .json.gz), or the folder that holds it",
    )
