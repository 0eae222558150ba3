"""A job's DataLoader taken apart: the next indices, their samples, their batch; and a loader with workers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from ..introspection import LOADERS_CONTEXT, own_attribute, rows

_LONGEST_WAIT_S = 60.0  # for a batch of a worker, in addition to twenty times what one takes in process


class BatchSource:
    """The batches of torch's DataLoader `loader`, made in this process, over and over if it is short.

    Attributes:
        dataset, loader: the job's own.
        is_iterable: whether the dataset gives samples in its own order.
        batched: whether samples are collated; else each item of the dataset is taken as it is.
        restarts: how often the samples began anew.
        pass_batches: batches of a pass, known when the first has ended; None for an iterable dataset.
    """

    def __init__(self, loader: Any) -> None:
        self.loader, self.dataset = loader, loader.dataset
        self.is_iterable = hasattr(type(self.dataset), "__iter__") and loader._dataset_kind == 1
        self.batched = bool(loader._auto_collation)
        self.restarts = self._given = 0
        self.pass_batches: int | None = None
        self._collate = loader.collate_fn
        self._order: Any = None
        self._samples: Any = None

    @property
    def batch_size(self) -> int:
        """Number of samples in a batch; 1 if the job's own batch sampler decides and does not state it."""
        size = own_attribute(self.loader, "batch_size") or own_attribute(
            own_attribute(self.loader, "batch_sampler"), "batch_size"
        )
        return size if type(size) is int and size > 0 else 1

    @property
    def drops_last(self) -> bool:
        """Whether a last batch that is not full is left out."""
        return bool(
            own_attribute(self.loader, "drop_last")
            or own_attribute(own_attribute(self.loader, "batch_sampler"), "drop_last")
        )

    @property
    def length(self) -> int | None:
        """Number of samples of the dataset; None if it is unknown."""
        known = rows(self.dataset)
        if known is not None or self.is_iterable:
            return known
        try:
            return len(self.dataset)
        except TypeError:
            return None

    def indices(self) -> Any:
        """The indices of the samples in the next batch; for an iterable dataset, as many entries as it has samples.

        Raises:
            StopIteration: there is not even one batch.
        """
        if self._order is None:
            self._order = iter(self.loader._index_sampler)
        try:
            indices = next(self._order)
            self._given += 1
            return indices
        except StopIteration:
            if not (self.restarts or self.is_iterable):
                self.pass_batches = self._given
            self.restarts += 1
            self._order = iter(self.loader._index_sampler)
            return next(self._order)

    def fetch(self, indices: Any) -> Any:
        """The samples, as torch's own fetchers ask for them; a single one if nothing is collated.

        Raises:
            StopIteration: the dataset has none.
        """
        if self.is_iterable:
            return [self._next() for _ in indices] if self.batched else self._next()
        if not self.batched:
            return self.dataset[indices]
        together = getattr(self.dataset, "__getitems__", None)
        return together(indices) if together else [self.dataset[index] for index in indices]

    def collate(self, samples: Any) -> Any:
        """The batch of these samples."""
        return self._collate(samples)

    def batch(self) -> Any:
        """The next batch."""
        return self.collate(self.fetch(self.indices()))

    def with_workers(self, workers: int, usual_s: float) -> Any:
        """The job's loader with so many worker processes, unchanged except that it continues the order from here.

        Args:
            workers: at least one.
            usual_s: seconds that a batch takes in process.
        """
        from torch.utils.data import DataLoader

        given = {name: own_attribute(self.loader, name) for name in ("worker_init_fn", "prefetch_factor")}
        context = own_attribute(self.loader, LOADERS_CONTEXT)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of more workers than cores: their effect is measured
            return DataLoader(
                self.dataset,
                num_workers=workers,
                collate_fn=self._collate,
                timeout=_LONGEST_WAIT_S + 20 * usual_s,
                multiprocessing_context=context,
                **given,
                **self._sampling(),
            )

    def _sampling(self) -> dict[str, Any]:
        if self.is_iterable:
            size = self.batch_size if self.batched else None
            return {"batch_size": size, "drop_last": bool(size and own_attribute(self.loader, "drop_last"))}
        order = _Onwards(self)
        return {"batch_sampler": order} if self.batched else {"batch_size": None, "sampler": order}

    def _next(self) -> Any:
        if self._samples is None:
            self._samples = iter(self.dataset)
        try:
            return next(self._samples)
        except StopIteration:
            self.restarts += 1
            self._samples = iter(self.dataset)
            return next(self._samples)


class _Onwards:
    """A sampler that continues the order from its current place, without an end."""

    def __init__(self, source: BatchSource) -> None:
        self._source = source

    def __iter__(self) -> Iterator[Any]:
        try:
            while True:
                yield self._source.indices()
        except StopIteration:
            return
