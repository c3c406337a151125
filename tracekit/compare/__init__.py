"""What changed between two runs: kernels, calls, ranks, gaps; parts that add up to the difference of the steps."""

from tracekit.compare.account import Account, Part, RankPart, account_of
from tracekit.compare.difference import Changed, Difference, RankChange, difference

__all__ = ["Account", "Changed", "Difference", "Part", "RankChange", "RankPart", "account_of", "difference"]
