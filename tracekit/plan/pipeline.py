"""How much of a pipeline's time is bubble, by arithmetic.

With p ranks, m micro-batches and v stages on each rank, all stages alike and transfers free, every rank still waits
while the first micro-batch comes in and the last one leaves. Two shares are in use: of the makespan (from the first
forward to the last backward) and of the ideal time (what the work alone takes); x of the one is x / (1 - x) of the
other.

| schedule | of the makespan | of the ideal time | source |
|---|---|---|---|
| gpipe, 1f1b | (p-1) / (m+p-1) | (p-1) / m | Huang et al. 2019 (GPipe); Narayanan et al. 2021 (Megatron-LM), 2.2.1 |
| interleaved, looped-bfs | (p-1) / (vm+p-1) | (p-1) / (vm) | Narayanan et al. 2021, 2.2.2; Lamy-Poirier 2023 |
| zero-bubble, interleaved-zero-bubble, zbv, dualpipev | (p-1) / (3vm+p-1) | (p-1) / (3vm) | Qi et al. 2023, 2024 |

Zero bubble splits a backward in two, the gradient of the input and that of the weights. The figures hold where forward,
input gradient and weight gradient take the same time; of the ramp only p-1 forwards are left (`zero-bubble` is the
paper's ZB-H1, whose bubble is (p-1)(F + I - W) for any times). The paper's "zero" counts each rank's own time between
its first and last work, which lets ranks begin and end a step apart; here all ranks share one window.
"""

from __future__ import annotations

GPIPE, ONE_F_ONE_B, LOOPED_BFS, INTERLEAVED = "gpipe", "1f1b", "looped-bfs", "interleaved"
ZERO_BUBBLE, INTERLEAVED_ZERO_BUBBLE, ZBV, DUALPIPEV = "zero-bubble", "interleaved-zero-bubble", "zbv", "dualpipev"

WAITS_PER_MICROBATCH = {
    **dict.fromkeys((GPIPE, ONE_F_ONE_B, LOOPED_BFS, INTERLEAVED), 1),
    **dict.fromkeys((ZERO_BUBBLE, INTERLEAVED_ZERO_BUBBLE, ZBV, DUALPIPEV), 3),
}
"""How many times a micro-batch's work on one stage is what a rank waits for each rank beside it: all of that work, or
with zero bubble one part of three."""


def bubble_of_ideal(schedule: str, ranks: int, microbatches: int, stages_per_rank: int = 1) -> float:
    """The bubble as a share of the ideal time; KeyError for a schedule that has no known figure."""
    return (ranks - 1) / _waits(schedule, microbatches, stages_per_rank)


def bubble_of_makespan(schedule: str, ranks: int, microbatches: int, stages_per_rank: int = 1) -> float:
    """The bubble as a share of the makespan; KeyError for a schedule that has no known figure."""
    return (ranks - 1) / (_waits(schedule, microbatches, stages_per_rank) + ranks - 1)


def _waits(schedule: str, microbatches: int, stages_per_rank: int) -> int:
    return WAITS_PER_MICROBATCH[schedule] * stages_per_rank * microbatches


def zero_bubble_ns(ranks: int, forward_ns: float, input_ns: float, weight_ns: float, *, in_flight: int = 1) -> float:
    """The bubble of Qi et al.'s hand-made schedules for any times of a stage, in the unit of the times.

    `in_flight` is 1 for ZB-H1 (as many micro-batches in flight as 1F1B) and 2 for ZB-H2 (about twice as many).
    """
    return max(0.0, (ranks - 1) * (forward_ns + input_ns - in_flight * weight_ns))
