"""In which order a schedule's actions come on each rank, and what follows from that by counting."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from torch.distributed.pipelining import schedules

Action = tuple[int, str, int]  # stage, F, B, I or W, micro-batch
Order = list[list[Action]]  # by rank
CLASSES = {
    "interleaved": schedules.ScheduleInterleaved1F1B,
    "interleaved-zero-bubble": schedules.ScheduleInterleavedZeroBubble,
    "zbv": schedules.ScheduleZBVZeroBubble,
    "dualpipev": schedules.ScheduleDualPipeV,
}
LETTERS = {"FORWARD": "F", "FULL_BACKWARD": "B", "BACKWARD_INPUT": "I", "BACKWARD_WEIGHT": "W"}


def order(schedule: str, ranks: int, microbatches: int, virtual: int) -> Order:
    """GPipe and 1F1B by their definition, the others as PyTorch plans them."""
    if schedule == "gpipe":
        return [[(rank, letter, n) for letter in "FB" for n in range(microbatches)] for rank in range(ranks)]
    if schedule == "1f1b":
        return [_one_forward_one_backward(rank, ranks, microbatches) for rank in range(ranks)]
    return [_planned(CLASSES[schedule], rank, ranks, microbatches, virtual) for rank in range(ranks)]


def _one_forward_one_backward(rank: int, ranks: int, microbatches: int) -> list[Action]:
    ahead = min(ranks - rank, microbatches)
    actions = [(rank, "F", n) for n in range(ahead)]
    for n in range(microbatches):
        actions.append((rank, "B", n))
        if ahead + n < microbatches:
            actions.append((rank, "F", ahead + n))
    return actions


def _planned(schedule: Any, rank: int, ranks: int, microbatches: int, virtual: int) -> list[Action]:
    rounds = max(1, microbatches // ranks)
    sizes = SimpleNamespace(
        pp_group_size=ranks,
        n_local_stages=virtual,
        num_stages=ranks * virtual,
        number_of_rounds=rounds,
        microbatches_per_round=microbatches // rounds,
        _n_microbatches=microbatches,
    )
    planned = [action for action in schedule._calculate_single_rank_operations(sizes, rank) if action]
    single = [part for action in planned for part in action.sub_actions or [action]]
    return [(part.stage_index, LETTERS[part.computation_type.name], part.microbatch_index) for part in single]


def busy_share(order: Order, cost: Callable[[str], float]) -> list[float]:
    """Each rank's busy time by the whole time, when every action begins as soon as what it needs is there."""
    last = max(stage for actions in order for stage, _, _ in actions)
    ends: dict[Action, float] = {}
    now = [0.0] * len(order)
    left = [list(actions) for actions in order]
    while any(left):
        rank = next(r for r, actions in enumerate(left) if actions and all(n in ends for n in _needs(actions[0], last)))
        action = left[rank].pop(0)
        now[rank] = max([now[rank], *(ends[need] for need in _needs(action, last))]) + cost(action[1])
        stage, letter, microbatch = action
        ends[stage, "I" if letter == "B" else letter, microbatch] = now[rank]
    return [sum(cost(letter) for _, letter, _ in actions) / max(now) for actions in order]


def _needs(action: Action, last: int) -> list[Action]:
    stage, letter, microbatch = action
    if letter == "F":
        return [(stage - 1, "F", microbatch)] if stage else []
    if letter == "W":
        return [(stage, "I", microbatch)]
    return [(stage, "F", microbatch), *([(stage + 1, "I", microbatch)] if stage < last else [])]


def in_flight(actions: list[Action], virtual: int) -> float:
    """The most micro-batches whose activations a rank holds at once; a stage's are its part of one."""
    held = most = 0
    for _, letter, _ in actions:
        held += {"F": 1, "B": -1, "I": 0, "W": -1}[letter]
        most = max(most, held)
    return most / virtual
