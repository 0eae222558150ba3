"""Words for an MFU: whether it is what training large transformers in half precision usually reaches."""

_WORDS = ((0.30, "low"), (0.50, "usual"), (0.55, "good"), (0.65, "near the practical ceiling"))
_ABOVE = "more than is practical: check the count"
_LEAST_PARAMETERS = 1e8  # smaller models have matrices too small for these words


def mfu_word(mfu: float, parameters: float, in_half: bool) -> str:
    """The word for the share of the peak that model FLOPs reach; "" for a model or a precision that it is not about."""
    if parameters < _LEAST_PARAMETERS or not in_half:
        return ""
    return next((word for below, word in _WORDS if mfu < below), _ABOVE)
