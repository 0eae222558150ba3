"""Words for an MFU: whether it is what training large transformers in half precision usually reaches."""

_WORDS = ((0.30, "low"), (0.50, "usual"), (0.55, "good"), (0.65, "near the practical ceiling"))
_ABOVE = "more than is practical: check the count"
_LEAST_PARAMETERS = 1e8  # smaller models have matrices too small for these words


def mfu_word(mfu: float, parameters: float, in_half: bool) -> str:
    """The word for the share of the peak that model FLOPs reach; "" for a model or a precision that it is not about."""
    if parameters < _LEAST_PARAMETERS or not in_half:
        return ""
    return next((word for below, word in _WORDS if mfu < below), _ABOVE)


def mfu_scale() -> str:
    """Sentence of what is usual and what is near the ceiling."""
    ends = [0.0, *(below for below, _ in _WORDS)]
    spans = {word: f"{100 * low:.0f} to {100 * below:.0f} %" for low, (below, word) in zip(ends, _WORDS, strict=False)}
    return ", ".join(f"{spans[word]} is {word}" for word in (_WORDS[1][1], _WORDS[-1][1]))
