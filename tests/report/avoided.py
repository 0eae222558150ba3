"""Words that say nothing to a reader of the first lines, of a help text or of a rule."""

import re

_WORDS = (
    r"\b(told|tells|of it|what the plan has|whose|beside|lie apart|lies apart|books|cures|cured|judged|armed|bounded by"
    r"|stands? out|any step well|in all|the like)\b|\d where\b|FILE\.json|COMMAND|(?<![\d.])0\.0 %"
)
AVOIDED = re.compile(_WORDS)
AVOIDED_IN_FIRST_LINES = re.compile(rf"{_WORDS}|\btype\b(?! of)")
WEAK_BEGINNING = re.compile(r"(?:^|(?<=[.!?])\s+)(?:It|They|That|What|Of|These|This)\b")
