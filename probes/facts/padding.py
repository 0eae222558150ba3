"""Padding of every batch from the beginning of the loop to the end of its window, as sums."""

from __future__ import annotations

import sys
from typing import Any

MOST_LENGTHS = 2000  # different ones of samples that are kept


class PaddingSums:
    """Sums over the `attention_mask` of batches in host memory. A device is never waited for."""

    def __init__(self) -> None:
        self.batches = 0
        self._tokens = self._padded = self._beyond_longest = self._most_beyond = 0
        self._shares = self._lengths = (0.0, 0.0)
        self._squares = (0.0, 0.0, 0.0)  # of padded tokens, of these times all, of all
        self._samples: dict[int, int] = {}  # by their tokens without padding

    def note(self, mask: Any) -> None:
        """Count a mask; one on a device, or one that is not samples x tokens, is left out.

        Counted by NumPy: an operator of torch would stand in traces that the job takes, and in what it counts.
        """
        torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
        if numpy is None or type(mask) is not torch.Tensor or mask.device.type != "cpu":
            return
        if mask.dim() != 2 or not mask.numel():
            return
        real = numpy.count_nonzero(mask.numpy(), axis=1)
        samples, length = mask.shape
        tokens, longest = samples * length, int(real.max())
        padded = tokens - int(real.sum())
        self._shares = self._widened(self._shares, padded / tokens)
        self._lengths = self._widened(self._lengths, length)
        self.batches += 1
        squares = (padded * padded, padded * tokens, tokens * tokens)
        self._squares = tuple(a + b for a, b in zip(self._squares, squares))  # noqa: B905
        self._tokens += tokens
        self._padded += padded
        self._beyond_longest += samples * (length - longest)
        self._most_beyond = max(self._most_beyond, length - longest)
        for each in real.tolist():
            if each in self._samples or len(self._samples) < MOST_LENGTHS:
                self._samples[each] = self._samples.get(each, 0) + 1

    def _widened(self, between: tuple[float, float], value: float) -> tuple[float, float]:
        return (min(between[0], value), max(between[1], value)) if self.batches else (value, value)

    @property
    def share(self) -> float | None:
        """Tokens that are padding, of those of all batches; None if none was seen."""
        return self._padded / self._tokens if self._tokens else None

    @property
    def share_error(self) -> float | None:
        """Standard error of the share, a ratio of two sums over batches; None of a single batch."""
        share = self.share
        if share is None or self.batches < 2:
            return None
        padded, both, tokens = self._squares
        off = max(padded - 2 * share * both + share * share * tokens, 0.0)
        return float((off * self.batches / (self.batches - 1)) ** 0.5 / self._tokens)

    def facts(self) -> dict[str, object] | None:
        """The record's `padding`: counts of tokens, and the least and the most of a batch; None if none was seen."""
        if not self.batches:
            return None
        return {
            "batches": self.batches,
            "tokens": self._tokens,
            "padded_tokens": self._padded,
            "beyond_longest_tokens": self._beyond_longest,
            "share_error": self.share_error,
            "least_share": self._shares[0],
            "most_share": self._shares[1],
            "least_length": int(self._lengths[0]),
            "most_length": int(self._lengths[1]),
            "most_beyond_longest": self._most_beyond,
            "samples_by_tokens": [[tokens, self._samples[tokens]] for tokens in sorted(self._samples)],
        }
