"""In which order a schedule's actions come on each rank, and what follows from that by counting."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from torch.distributed.pipelining import schedules

Action = tuple[int, str, int]  # stage, F, B, I or W, micro-batch
Together = tuple[Action, ...]  # mostly one; DualPipeV has two of which nothing is sent before both are done
Plan = list[list[Together]]  # by rank
CLASSES = {
    "interleaved": schedules.ScheduleInterleaved1F1B,
    "interleaved-zero-bubble": schedules.ScheduleInterleavedZeroBubble,
    "zbv": schedules.ScheduleZBVZeroBubble,
    "dualpipev": schedules.ScheduleDualPipeV,
}
LETTERS = {"FORWARD": "F", "FULL_BACKWARD": "B", "BACKWARD_INPUT": "I", "BACKWARD_WEIGHT": "W"}


def plan(schedule: str, ranks: int, microbatches: int, virtual: int) -> Plan:
    """GPipe and 1F1B by their definition, the others as PyTorch plans them."""
    if schedule == "gpipe":
        return [[((rank, letter, n),) for letter in "FB" for n in range(microbatches)] for rank in range(ranks)]
    if schedule == "1f1b":
        return [_one_forward_one_backward(rank, ranks, microbatches) for rank in range(ranks)]
    return [_planned(CLASSES[schedule], rank, ranks, microbatches, virtual) for rank in range(ranks)]


def order(of_rank: list[Together]) -> list[Action]:
    """A rank's actions, one after the other."""
    return [action for together in of_rank for action in together]


def _one_forward_one_backward(rank: int, ranks: int, microbatches: int) -> list[Together]:
    ahead = min(ranks - rank, microbatches)
    actions = [(rank, "F", n) for n in range(ahead)]
    for n in range(microbatches):
        actions.append((rank, "B", n))
        if ahead + n < microbatches:
            actions.append((rank, "F", ahead + n))
    return [(action,) for action in actions]


def _planned(schedule: Any, rank: int, ranks: int, microbatches: int, virtual: int) -> list[Together]:
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
    return [tuple(_action(part) for part in action.sub_actions or [action]) for action in planned]


def _action(planned: Any) -> Action:
    return planned.stage_index, LETTERS[planned.computation_type.name], planned.microbatch_index


def busy_share(plan: Plan, cost: dict[str, float]) -> list[float]:
    """Each rank's busy time by the whole time, when everything begins as soon as what it needs is there."""
    last = max(stage for of_rank in plan for stage, _, _ in order(of_rank))
    ends: dict[Action, float] = {}
    now, left = [0.0] * len(plan), [list(of_rank) for of_rank in plan]
    while any(left):
        rank, needed = next(
            (rank, needed)
            for rank, of_rank in enumerate(left)
            if of_rank and (needed := _needs(of_rank[0], last)) <= ends.keys()
        )
        together = left[rank].pop(0)
        now[rank] = max([now[rank], *(ends[need] for need in needed)]) + sum(cost[letter] for _, letter, _ in together)
        ends |= dict.fromkeys(_results(together), now[rank])
    return [sum(cost[letter] for _, letter, _ in order(of_rank)) / max(now) for of_rank in plan]


def _needs(together: Together, last: int) -> set[Action]:
    return {need for action in together for need in _needed_by(action, last)} - set(_results(together))


def _needed_by(action: Action, last: int) -> list[Action]:
    stage, letter, microbatch = action
    if letter == "F":
        return [(stage - 1, "F", microbatch)] if stage else []
    if letter == "W":
        return [(stage, "I", microbatch)]
    return [(stage, "F", microbatch), *([(stage + 1, "I", microbatch)] if stage < last else [])]


def _results(together: Together) -> list[Action]:
    """A whole backward gives what the one down to the input does."""
    return [(stage, "I" if letter == "B" else letter, microbatch) for stage, letter, microbatch in together]


def in_flight(of_rank: list[Together], virtual: int) -> float:
    """The most micro-batches whose activations a rank holds at once; a stage's are its part of one."""
    held = most = 0
    for _, letter, _ in order(of_rank):
        held += {"F": 1, "B": -1, "I": 0, "W": -1}[letter]
        most = max(most, held)
    return most / virtual
