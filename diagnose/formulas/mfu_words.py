"""Words for an MFU: whether it is what training large transformers in half precision usually reaches."""

LEAST_PARAMETERS = 1e8  # smaller models have matrices too small for these words
MFU_WORDS = ((0.30, "low"), (0.50, "usual"), (0.55, "good"), (0.65, "at the practical ceiling"))  # below each bound
ABOVE = "more than real jobs reach, so check the count"


def word_of(mfu: float) -> str:
    """The word for the share of the peak that model FLOPs reach."""
    return next((word for below, word in MFU_WORDS if mfu < below), ABOVE)


def mfu_word(mfu: float, parameters: float, in_half: bool) -> str:
    """The word for an MFU; "" for a model or a precision that the words are not about."""
    return word_of(mfu) if parameters >= LEAST_PARAMETERS and in_half else ""


def mfu_scale(mfu: float = 0.0) -> str:
    """The better ends of the scale: what is usual, if `mfu` is below that, and the practical ceiling; "" from there."""
    ends = {word: (low, high) for (low, _), (high, word) in zip(((0.0, ""), *MFU_WORDS), MFU_WORDS, strict=False)}
    named = {"usual": "usual", "at the practical ceiling": "the practical ceiling"}
    better = [
        f"{100 * ends[word][0]:.0f}-{100 * ends[word][1]:.0f} % is {name}"
        for word, name in named.items()
        if mfu < ends[word][0]
    ]
    return ", ".join(better)
