"""Ranks of one job together: the same collective on every rank, who waits, and for whom."""

from diagnose.ranks.collectives.matching import GroupMatch, Match, match
from diagnose.ranks.digest import RankDigest, digest_of
from diagnose.ranks.job import Job, JobView, join
from diagnose.ranks.missing import missing_ranks
from diagnose.ranks.stragglers.causes import RankLateness
from diagnose.ranks.stragglers.stragglers import rank_lateness_of

__all__ = [
    "GroupMatch",
    "Job",
    "JobView",
    "Match",
    "RankDigest",
    "RankLateness",
    "digest_of",
    "join",
    "match",
    "missing_ranks",
    "rank_lateness_of",
]
