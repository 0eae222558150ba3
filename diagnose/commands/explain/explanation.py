"""An explanation: one name with its mechanism, and the numbers of a run in it."""

import msgspec


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of one name, in the order in which it is read; a part that is empty is left out.

    Attributes:
        name: as it is typed.
        kind: rule, class, cause, fact or word.
        title: the name in one clause.
        mechanism: how it comes about.
        formula: what it is computed from.
        yours: the same with the numbers of the run.
        see_it: where it shows.
        do: what to change; with a run, what applies to that run.
        wrong_if: when the explanation does not hold.
        thresholds: from where on it is reported.
        source: where the mechanism is described.
        related: other names.
    """

    name: str
    kind: str
    title: str
    mechanism: str
    formula: str = ""
    yours: tuple[str, ...] = ()
    see_it: str = ""
    do: tuple[str, ...] = ()
    wrong_if: str = ""
    thresholds: tuple[str, ...] = ()
    source: str = ""
    related: tuple[str, ...] = ()
