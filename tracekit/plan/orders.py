"""In which order each rank of a pipeline does its actions, by schedule.

GPipe and 1F1B by their definition (Huang et al. 2019; Narayanan et al. 2019), the others as PyTorch plans them
(`torch.distributed.pipelining.schedules`), so that an order here is one that jobs run. Stage s is on rank s mod p;
with `zbv` and `dualpipev` rank r has stages r and 2p-1-r, a V. What DualPipeV does together, a forward and a backward,
stands one after the other here, as PyTorch runs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tracekit.errors import WrongUse
from tracekit.plan import pipeline
from tracekit.plan.schedule import BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, FORWARD, Action

V_SHAPED = (pipeline.ZBV, pipeline.DUALPIPEV)


def orders(schedule: str, ranks: int, microbatches: int, stages_per_rank: int = 1) -> list[list[Action]]:
    """Each rank's actions, in order; WrongUse where the schedule has no known order or the numbers do not fit it."""
    if schedule not in _MAKERS:
        raise WrongUse(f"no order of actions is known for schedule {schedule!r}; there are {', '.join(_MAKERS)}")
    _check(schedule, ranks, microbatches)
    return [_MAKERS[schedule](place, ranks, microbatches, stages_per_rank) for place in range(ranks)]


def stages_of(schedule: str, place: int, ranks: int, stages_per_rank: int = 1) -> list[int]:
    """The stages that the rank at a place of the pipeline holds."""
    if schedule in V_SHAPED:
        return [place, 2 * ranks - 1 - place]
    return [place + lap * ranks for lap in range(stages_per_rank)]


def place_of(schedule: str, stage: int, ranks: int) -> int:
    """The place of the rank that holds a stage."""
    return min(stage, 2 * ranks - 1 - stage) if schedule in V_SHAPED else stage % ranks


def _check(schedule: str, ranks: int, microbatches: int) -> None:
    least = {pipeline.ZBV: 2 * ranks - 1, pipeline.DUALPIPEV: 2 * ranks}.get(schedule, 1)
    if microbatches < least:
        raise WrongUse(f"schedule {schedule} on {ranks} ranks needs {least} micro-batches at least, not {microbatches}")
    rounds = max(1, microbatches // ranks)
    if schedule in (pipeline.INTERLEAVED, pipeline.INTERLEAVED_ZERO_BUBBLE) and microbatches % rounds:
        raise WrongUse(f"{microbatches} micro-batches do not divide by {rounds}, their rounds over {ranks} ranks")


class _Acting:
    """A rank's actions as they come; each kind counts its micro-batches by stage."""

    def __init__(self) -> None:
        self.done: list[Action] = []
        self._count: Counter[tuple[str, int]] = Counter()
        self._owed: list[tuple[int, int]] = []

    def act(self, kind: str, stage: int) -> None:
        """The action with the stage's next micro-batch; a backward's input half owes its weight half."""
        counted = BACKWARD_INPUT if kind == BACKWARD else kind
        microbatch = self._count[counted, stage]
        self._count[counted, stage] += 1
        self.done.append(Action(kind, stage, microbatch))
        if kind == BACKWARD_INPUT:
            self._owed.append((stage, microbatch))

    def weight(self) -> None:
        """The oldest weight half that is owed, if any is."""
        if self._owed:
            self.done.append(Action(BACKWARD_WEIGHT, *self._owed.pop(0)))

    def pay(self) -> list[Action]:
        """All actions, after the weight halves still owed."""
        while self._owed:
            self.weight()
        return self.done


def _gpipe(place: int, ranks: int, microbatches: int, stages_per_rank: int) -> list[Action]:
    stages = [place + lap * ranks for lap in range(stages_per_rank)]
    forwards = [Action(FORWARD, stage, number) for stage in stages for number in range(microbatches)]
    return forwards + [Action(BACKWARD, stage, number) for stage in reversed(stages) for number in range(microbatches)]


def _one_f_one_b(place: int, ranks: int, microbatches: int, _: int) -> list[Action]:
    acting = _Acting()
    ahead = min(ranks - place, microbatches)
    for _ in range(ahead):
        acting.act(FORWARD, place)
    for number in range(microbatches):
        acting.act(BACKWARD, place)
        if ahead + number < microbatches:
            acting.act(FORWARD, place)
    return acting.done


def _interleaved(place: int, ranks: int, microbatches: int, stages_per_rank: int) -> list[Action]:
    return _in_rounds(place, ranks, microbatches, stages_per_rank, hops=2, split=False)


def _zero_bubble(place: int, ranks: int, microbatches: int, stages_per_rank: int) -> list[Action]:
    return _in_rounds(place, ranks, microbatches, stages_per_rank, hops=1, split=True)


def _in_rounds(
    place: int, ranks: int, microbatches: int, stages_per_rank: int, *, hops: int, split: bool
) -> list[Action]:
    """Forwards ahead, then one forward and one backward in turn, by rounds over the rank's stages.

    With `split` backwards are done in halves: the weights' half follows once so many micro-batches as the rank's place
    are past, and fills the end.
    """
    in_round = microbatches // max(1, microbatches // ranks)
    total = stages_per_rank * microbatches
    ahead = min((stages_per_rank - 1) * in_round + hops * (ranks - 1 - place), total)
    acting = _Acting()
    for nth in range(total + ahead):
        if nth < total:
            acting.act(FORWARD, place + nth // in_round % stages_per_rank * ranks)
        if nth >= ahead:
            lap = stages_per_rank - 1 - (nth - ahead) // in_round % stages_per_rank
            acting.act(BACKWARD_INPUT if split else BACKWARD, place + lap * ranks)
            if split and nth - ahead >= place:
                acting.weight()
    return acting.pay()


def _zbv(place: int, ranks: int, microbatches: int, _: int) -> list[Action]:
    there, back = place, 2 * ranks - 1 - place
    acting = _Acting()

    def acted(*kinds_and_stages: tuple[str, int]) -> None:
        for kind, stage in kinds_and_stages:
            acting.act(kind, stage)

    whole_there, whole_back = ([(BACKWARD_INPUT, stage), (BACKWARD_WEIGHT, stage)] for stage in (there, back))
    ahead = 2 * ranks - 1 - place
    for nth in range(ahead):
        acted(*([(FORWARD, back)] if nth >= ahead - place else []), (FORWARD, there))
    for _ in range(ranks - place):
        acted((FORWARD, back), *whole_back)
    for nth in range(microbatches - ranks):
        acted(*([(FORWARD, there)] if ahead + nth < microbatches else []), *whole_there, (FORWARD, back), *whole_back)
    for _ in range(place):
        acted((BACKWARD_INPUT, there), (BACKWARD_INPUT, back))
    for _ in range(ranks - place):
        acted(*whole_there)
    acted(*[(BACKWARD_WEIGHT, back)] * place, *[(BACKWARD_WEIGHT, there)] * place)
    return acting.done


def _dualpipev(place: int, ranks: int, microbatches: int, _: int) -> list[Action]:
    there, back = place, 2 * ranks - 1 - place
    acting = _Acting()
    behind = ranks - place - 1
    for _ in range(2 * behind):
        acting.act(FORWARD, there)
    for _ in range(place + 1):
        acting.act(FORWARD, there)
        acting.act(FORWARD, back)
    for _ in range(behind):
        acting.act(BACKWARD_INPUT, back)
        acting.weight()
        acting.act(FORWARD, back)
    for _ in range(microbatches - 2 * ranks + place + 1):
        acting.act(FORWARD, there)
        acting.act(BACKWARD, back)
        acting.act(FORWARD, back)
        acting.act(BACKWARD, there)
    for _ in range(behind):
        acting.act(BACKWARD, back)
        acting.act(FORWARD, back)
        acting.act(BACKWARD, there)
    halves = _halves(place)
    for kind_back, kind_there in halves:
        acting.act(kind_back, back)
        acting.act(kind_there, there)
    for _ in range(behind):
        acting.weight()
        acting.act(halves[-1][1], there)
    for _ in range(place + 1):
        acting.weight()
    return acting.done


def _halves(place: int) -> list[tuple[str, str]]:
    """Of DualPipeV's last pairs of backwards which are split: from the middle on, half a pair later on even places."""
    middle = (place + 1) // 2
    first = [nth > middle or (nth == middle and place % 2 == 1) for nth in range(place + 1)]
    second = [nth >= middle for nth in range(place + 1)]
    kind = {True: BACKWARD_INPUT, False: BACKWARD}
    return [(kind[one], kind[other]) for one, other in zip(first, second, strict=True)]


_MAKERS: dict[str, Callable[[int, int, int, int], list[Action]]] = {
    pipeline.GPIPE: _gpipe,
    pipeline.LOOPED_BFS: _gpipe,
    pipeline.ONE_F_ONE_B: _one_f_one_b,
    pipeline.INTERLEAVED: _interleaved,
    pipeline.ZERO_BUBBLE: _zero_bubble,
    pipeline.INTERLEAVED_ZERO_BUBBLE: _zero_bubble,
    pipeline.ZBV: _zbv,
    pipeline.DUALPIPEV: _dualpipev,
}
