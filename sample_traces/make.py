"""Regenerate the sample traces: `python sample_traces/make.py [names...]`, all of them without names."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests"), str(HERE)]

import hangs  # noqa: E402
import snapshots  # noqa: E402
import synthetic  # noqa: E402

CAPTURED = ("cpu-healthy", "cpu-slow-loader", "cpu-python-host", "gloo-healthy", "gloo-slow-rank")


def main() -> None:
    """Write the named traces beside this file; the captured ones need torch and take some seconds."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "names", nargs="*", help="of " + ", ".join([*CAPTURED, *synthetic.MADE, *hangs.MADE, *snapshots.MADE])
    )
    parser.add_argument("--into", type=Path, default=HERE, help="folder to write to (default: %(default)s)")
    options = parser.parse_args()
    known = [*CAPTURED, *synthetic.MADE, *hangs.MADE, *snapshots.MADE]
    if unknown := set(options.names) - set(known):
        parser.error(f"no such trace: {', '.join(sorted(unknown))}")
    for name in options.names or known:
        for path in _write(name, options.into):
            print(f"{path.stat().st_size:8} {path}")


def _write(name: str, into: Path) -> list[Path]:
    into.mkdir(parents=True, exist_ok=True)
    if name in synthetic.MADE:
        return synthetic.make(name, into)
    if name in snapshots.MADE:
        return snapshots.make(name, into)
    if name in hangs.MADE:
        return hangs.make(name, into)
    from captured import capture

    return capture(name, into)


if __name__ == "__main__":
    main()
