"""Logs whose steps count samples, or may."""

from collections.abc import Sequence

from msgspec.structs import replace

from diagnose.errors import WrongUsage
from diagnose.series.tracks import Series, Track


def counting_samples(series: Series, samples_per_step: int) -> Series:
    """The series of a log whose steps count samples, so many of them in an optimizer step.

    Raises:
        WrongUsage: rows are closer than one step's samples, so the log does not count them.
    """
    closest = min((track.covers for track in series.tracks), default=float(samples_per_step))
    if closest < samples_per_step:
        raise WrongUsage(
            f"--samples-per-step {samples_per_step}: rows of the log are {closest:,.0f} apart, so it counts no samples"
        )
    tracks = tuple(track.counting(float(samples_per_step)) for track in series.tracks)
    assumed = apart_notes(series)
    return replace(series, tracks=tracks, notes=tuple(note for note in series.notes if note not in assumed))


def apart_notes(series: Series) -> list[str]:
    """A note on what rows that are several steps apart stand for, where neither the log nor its writer shows it."""
    apart = _apart(series.tracks)
    if apart <= 1 or series.written_by:
        return []
    return [
        f"rows are {apart:,} steps apart, and each stands for so many steps; if the log counts samples, say how many an"
        f" optimizer step has: --samples-per-step {apart}"
    ]


def _apart(tracks: Sequence[Track]) -> int:
    """The distance of rows; 1 if the log is known to count samples."""
    if any(track.counts_per_step > 1 for track in tracks):
        return 1
    return round(max((track.covers for track in tracks), default=1.0))
