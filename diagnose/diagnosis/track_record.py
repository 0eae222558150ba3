"""Track records of a rule's earlier predictions."""

import msgspec


class TrackRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a rule's predictions, by the user's own record of them; of all rules if `rule` is "".

    `promises` is the number of predictions tested, `inside` the number measured inside the predicted range.
    `achieved_of_predicted` is the median of the achieved speedup over the middle of the range (1 is as predicted),
    `newest` the UTC date of the last one.
    """

    rule: str
    promises: int
    inside: int
    achieved_of_predicted: float
    newest: str
