"""How much of a pipeline's time is bubble, by arithmetic.

With p ranks, m micro-batches and v stages on each rank, all stages alike and transfers free, every rank still waits
while the first micro-batch comes in and the last one leaves. Two shares are in use: of the makespan (from the first
forward to the last backward) and of the ideal time (what the work alone takes); x of the one is x / (1 - x) of the
other.

| schedule | of the makespan | of the ideal time | source |
|---|---|---|---|
| gpipe, 1f1b | (p-1) / (m+p-1) | (p-1) / m | Huang et al. 2019 (GPipe); Narayanan et al. 2021 (Megatron-LM), 2.2.1 |
| interleaved, looped-bfs | (p-1) / (vm+p-1) | (p-1) / (vm) | Narayanan et al. 2021, 2.2.2; Lamy-Poirier 2023 |
| zero-bubble, zero-bubble-h2, interleaved-zero-bubble, zbv, dualpipev | (p-1) / (3vm+p-1) | (p-1) / (3vm) | Qi et al. \
2023, 2024 |

Zero bubble splits a backward in two, the gradient of the input and that of the weights. The figures hold where forward,
input gradient and weight gradient take the same time; of the ramp only p-1 forwards are left (`zero-bubble` is the
paper's ZB-H1, whose bubble is (p-1)(F + I - W) for any times). The paper's "zero" (ZB-H2, ZB-V) counts each rank's own
time between its first and last work, which lets ranks begin and end a step apart; here all ranks share one window, as
they must where they wait for each other between steps. `bubble_of_own_window` gives the papers' figure.
"""

from __future__ import annotations

GPIPE, ONE_F_ONE_B, LOOPED_BFS, INTERLEAVED = "gpipe", "1f1b", "looped-bfs", "interleaved"
ZERO_BUBBLE, INTERLEAVED_ZERO_BUBBLE, ZBV, DUALPIPEV = "zero-bubble", "interleaved-zero-bubble", "zbv", "dualpipev"
ZERO_BUBBLE_H2 = "zero-bubble-h2"

SPLIT_BACKWARD = (ZERO_BUBBLE, ZERO_BUBBLE_H2, INTERLEAVED_ZERO_BUBBLE, ZBV, DUALPIPEV)
WAITS_PER_MICROBATCH = {
    **dict.fromkeys((GPIPE, ONE_F_ONE_B, LOOPED_BFS, INTERLEAVED), 1),
    **dict.fromkeys(SPLIT_BACKWARD, 3),
}
"""How many times a micro-batch's work on one stage is what a rank waits for each rank beside it: all of that work, or
with zero bubble one part of three."""
SCHEDULES = tuple(WAITS_PER_MICROBATCH)


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


def bubble_of_own_window(schedule: str, ranks: int, microbatches: int, stages_per_rank: int = 1) -> float:
    """The bubble as a share of the ideal time where each rank counts from its own first work to its own last.

    0 for ZB-H2 and ZB-V with forward, input and weight gradient alike, if steps may follow each other without a wait
    for all ranks (Qi et al. 2023, section 4: the optimizer's checks are made afterwards). Others as `bubble_of_ideal`.
    """
    if schedule in (ZERO_BUBBLE_H2, ZBV):
        return 0.0
    return bubble_of_ideal(schedule, ranks, microbatches, stages_per_rank)


def dualpipev_ns(ranks: int, together_ns: float, backward_ns: float, weight_ns: float) -> float:
    """DualPipeV's bubble as its authors give it: (p-1)(F&B + B - 3W), of two stages on each of p ranks.

    `together_ns` is a forward and a backward of one stage run together, `backward_ns` the whole backward, `weight_ns`
    the weights' part of it. Source: DeepSeek, DualPipe's README, with its PP stages on p = PP/2 ranks.
    """
    return max(0.0, (ranks - 1) * (together_ns + backward_ns - 3 * weight_ns))


def in_flight(schedule: str, ranks: int, microbatches: int, stages_per_rank: int = 1, *, place: int = 0) -> int:
    """How many forwards a rank holds activations of at most, counted in stages times micro-batches.

    `place` is the rank's place in the pipeline; the first holds most. GPipe holds all m; 1F1B at most p, one less on
    each further rank; interleaved pv + p - 1 stages (Narayanan et al. 2021, 2.2; Korthikanti et al. 2022, 4.3: 1 +
    (p-1)/(pv) times 1F1B's bytes). ZB-H1 p and ZB-V 2p stages, as much as 1F1B; ZB-H2 2p - 1 (Qi et al. 2023, 2024).
    DualPipeV 2p + 1 (its README). KeyError for a schedule that is not known.
    """
    all_of_them = microbatches * stages_per_rank
    of_interleaved = 2 * (ranks - place - 1) + (stages_per_rank - 1) * ranks + 1
    held = {
        GPIPE: all_of_them,
        LOOPED_BFS: all_of_them,
        ONE_F_ONE_B: ranks - place,
        INTERLEAVED: of_interleaved,
        INTERLEAVED_ZERO_BUBBLE: of_interleaved,
        ZERO_BUBBLE: ranks,
        ZERO_BUBBLE_H2: 2 * ranks - 1,
        ZBV: 2 * ranks,
        DUALPIPEV: 2 * ranks + 1,
    }[schedule]
    return min(all_of_them, held)
