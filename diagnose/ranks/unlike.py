"""Differences between ranks that are taken for one job, in what ranks of one job have in common."""

from collections.abc import Mapping, Sequence

from diagnose.ranks.digest import RankDigest
from diagnose.trace.record import CaptureRecord

MODEL = "model"
SHOWN = 3


def shared_setup(record: CaptureRecord) -> dict[str, str]:
    """A rank's model and batches by its record, in words by name."""
    class_, parameters = record.text("model.class"), record.number("model.parameters")
    shapes, batches = record.get("batch.shapes"), record.number("loading.passes.batches")
    told = {
        MODEL: f"{class_} of {parameters:,.0f} parameters" if class_ and parameters is not None else "",
        "batch": ", ".join(f"{name} of {len(sizes)} dimensions" for name, sizes in sorted(shapes.items()))
        if isinstance(shapes, dict)
        else "",
        "batches in a pass": "" if batches is None else f"{batches:,.0f}",
    }
    return {name: text for name, text in told.items() if text}


def unlike(ranks: Sequence[RankDigest]) -> dict[str, str]:
    """How models, batches and the number of recorded steps differ, in words by name, as far as all ranks have them."""
    told = [{**rank.setup, "recorded steps": f"{rank.steps:,}"} for rank in ranks]
    common = [name for name in told[0] if all(name in setup for setup in told)]
    values = {name: {rank.rank: setup[name] for rank, setup in zip(ranks, told, strict=True)} for name in common}
    return {name: _spoken(name, of) for name, of in values.items() if len(set(of.values())) > 1}


def _spoken(name: str, of_rank: Mapping[int, str]) -> str:
    """The values with the first rank of each."""
    first: dict[str, int] = {}
    for rank, value in of_rank.items():
        first.setdefault(value, rank)
    listed = [f"{value} on rank {rank}" for value, rank in first.items()]
    return f"{name}: {', '.join(listed[:SHOWN])}{', ...' if len(listed) > SHOWN else ''}"
