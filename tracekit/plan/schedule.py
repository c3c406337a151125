"""Pipeline schedules as orders of actions: which one an order is, and how long it takes.

An action is what one stage does with one micro-batch: forward, backward, or a backward's halves (the gradient of the
input, that of the weights). `recognised` tells a schedule by the order of actions on each rank; `makespan` replays an
order with given durations, each action as early as its rank and the stage before it allow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tracekit.plan import pipeline

FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT = "forward", "backward", "backward_input", "backward_weight"
GIVES_GRADIENT = (BACKWARD, BACKWARD_INPUT)
"""What the stage before waits for."""


class Action(NamedTuple):
    """What is done, by which stage, with which micro-batch."""

    kind: str
    stage: int
    microbatch: int


Order = Sequence[Action]
"""One rank's actions, in the order in which they ran."""


def recognised(orders: Sequence[Order], *, slack: int = 0) -> str | None:
    """The schedule that the ranks' orders follow, a rank's place being its index; None if it is none of those known.

    An empty order is a rank of which nothing is known. `slack` is how many micro-batches more than 1F1B's may seem to
    be in flight, where orders are told by transfers, which run ahead.
    """
    known = [order for order in orders if order]
    stages = max((len({action.stage for action in order}) for order in known), default=0)
    if not stages or not any(_backwards(order) for order in known):
        return None
    if any(action.kind in (BACKWARD_INPUT, BACKWARD_WEIGHT) for order in known for action in order):
        return _split_backward(orders, stages)
    if all(_all_forwards_first(order) for order in known):
        return pipeline.GPIPE if stages == 1 else pipeline.LOOPED_BFS
    if stages > 1:
        return pipeline.INTERLEAVED
    lean = all(_most_in_flight(order) <= len(orders) - place + slack for place, order in enumerate(orders))
    return pipeline.ONE_F_ONE_B if lean else None


def _split_backward(orders: Sequence[Order], stages: int) -> str | None:
    """Schedules that compute a backward's halves apart: by how the stages lie, and whether all backwards are split."""
    if stages == 1:
        return pipeline.ZERO_BUBBLE
    if stages == 2 and _lies_in_a_v(orders):
        whole = any(action.kind == BACKWARD for order in orders for action in order)
        return pipeline.DUALPIPEV if whole else pipeline.ZBV
    return pipeline.INTERLEAVED_ZERO_BUBBLE


def _lies_in_a_v(orders: Sequence[Order]) -> bool:
    last = 2 * len(orders) - 1
    return all({action.stage for action in order} <= {place, last - place} for place, order in enumerate(orders))


def _backwards(order: Order) -> list[int]:
    return [nth for nth, action in enumerate(order) if action.kind in GIVES_GRADIENT]


def _all_forwards_first(order: Order) -> bool:
    backwards = _backwards(order)
    return not backwards or all(action.kind != FORWARD for action in order[backwards[0] :])


def _most_in_flight(order: Order) -> int:
    """How many micro-batches at most are forward and not yet backward."""
    held = most = 0
    for action in order:
        held += (action.kind == FORWARD) - (action.kind in GIVES_GRADIENT)
        most = max(most, held)
    return most


def makespan(actions: Iterable[tuple[int, Action, float]]) -> float:
    """How long the actions take if each begins as soon as it can: (rank, action, duration), in an order that ran.

    A forward needs the same of the stage before, a backward that of the stage after, as far as these are given.
    """
    rank_free: dict[int, float] = {}
    done: dict[Action, float] = {}
    for rank, action, duration in actions:
        needed = max((done.get(before, 0.0) for before in _needs(action)), default=0.0)
        end = max(needed, rank_free.get(rank, 0.0)) + duration
        rank_free[rank] = done[action] = end
    return max(rank_free.values(), default=0.0)


def _needs(action: Action) -> list[Action]:
    kind, stage, microbatch = action
    if kind == FORWARD:
        return [Action(FORWARD, stage - 1, microbatch)]
    if kind in GIVES_GRADIENT:
        return [Action(before, stage + 1, microbatch) for before in GIVES_GRADIENT]
    return []


def recognised_by_sends(sends: Sequence[tuple[int, int]], ranks: int) -> tuple[str, int, int] | None:
    """Schedule, micro-batches and stages per rank of a step whose sends are known: places from and to, in time order.

    What goes to the next place, or from the last to the first where there are more than two, is sent forward; all else
    is sent back. None where sends do not tell. Which of the zero-bubble schedules it was, sends do not tell.
    """
    last = ranks - 1
    counts = Counter(sends)
    laps = counts[last, 0] if ranks > 2 else 0
    microbatches = counts[0, 1] - laps
    forward = [b == a + 1 or (ranks > 2 and (a, b) == (last, 0)) for a, b in sends]
    if microbatches < 1 or counts[0, 1] % microbatches or all(forward):
        return None
    stages = counts[0, 1] // microbatches
    forwards_first = False not in forward[: _last(forward)]
    if stages == 1:
        return pipeline.GPIPE if forwards_first else pipeline.ONE_F_ONE_B, microbatches, stages
    return pipeline.LOOPED_BFS if forwards_first else pipeline.INTERLEAVED, microbatches, stages


def _last(flags: Sequence[bool]) -> int:
    return len(flags) - 1 - list(flags)[::-1].index(True)
