import pytest

from tracekit.errors import WrongUse
from tracekit.plan.orders import orders, place_of, stages_of
from tracekit.plan.pipeline import bubble_of_makespan
from tracekit.plan.schedule import Action, makespan, recognised

LETTERS = {"forward": "F", "backward": "B", "backward_input": "I", "backward_weight": "W"}


def spelled(order):
    return " ".join(f"{action.stage}{LETTERS[action.kind]}{action.microbatch}" for action in order)


def test_gpipe_by_hand():
    assert [spelled(order) for order in orders("gpipe", 2, 2)] == ["0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1"]


def test_1f1b_by_hand():
    assert [spelled(order) for order in orders("1f1b", 2, 3)] == ["0F0 0F1 0B0 0F2 0B1 0B2", "1F0 1B0 1F1 1B1 1F2 1B2"]


def test_interleaved_by_hand():
    first, second = orders("interleaved", 2, 2, 2)
    assert spelled(first) == "0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1"
    assert spelled(second) == "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1"


def test_stages_in_a_line_and_in_a_v():
    assert stages_of("interleaved", 1, 4, 2) == [1, 5]
    assert stages_of("zbv", 1, 4, 2) == [1, 6]
    assert [place_of("interleaved", stage, 2) for stage in range(4)] == [0, 1, 0, 1]
    assert [place_of("zbv", stage, 2) for stage in range(4)] == [0, 1, 1, 0]


KNOWN = [
    ("gpipe", 1), ("1f1b", 1), ("looped-bfs", 2), ("interleaved", 2), ("zero-bubble", 1),
    ("interleaved-zero-bubble", 2), ("zbv", 2), ("dualpipev", 2),
]  # fmt: skip


@pytest.mark.parametrize(("schedule", "virtual"), KNOWN)
@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 4), (3, 6), (4, 8)])
def test_orders_are_what_they_are_taken_for_and_do_everything_once(schedule, virtual, ranks, microbatches):
    planned = orders(schedule, ranks, microbatches, virtual)
    assert recognised(planned) == schedule
    for place, order in enumerate(planned):
        assert len(set(order)) == len(order)
        for stage in stages_of(schedule, place, ranks, virtual):
            for number in range(microbatches):
                done = [action.kind for action in order if action[1:] == (stage, number)]
                assert done in (["forward", "backward"], ["forward", "backward_input", "backward_weight"])


def in_time(planned):
    """The actions in an order in which they can run, whose input is there."""
    done, left = set(), [list(order) for order in planned]
    last = max(action.stage for order in planned for action in order)
    while any(left):
        waiting = len(done)
        for rank, order in enumerate(left):
            while order and ready(order[0], done, last):
                action = order.pop(0)
                done.add(("gradient" if action.kind in ("backward", "backward_input") else action.kind, *action[1:]))
                yield rank, action
        assert len(done) > waiting, "each waits for another"


def ready(action, done, last):
    kind, stage, microbatch = action
    if kind == "forward":
        return stage == 0 or ("forward", stage - 1, microbatch) in done
    if kind == "backward_weight":
        return ("gradient", stage, microbatch) in done
    return ("forward", stage, microbatch) in done and (stage == last or ("gradient", stage + 1, microbatch) in done)


@pytest.mark.parametrize(("schedule", "virtual"), [one for one in KNOWN if one[0] != "dualpipev"])
def test_their_bubble_is_what_theory_says(schedule, virtual):
    cost = {"forward": 1, "backward": 2, "backward_input": 1, "backward_weight": 1}
    planned = orders(schedule, 4, 8, virtual)
    whole = makespan((rank, action, cost[action.kind]) for rank, action in in_time(planned))
    assert 1 - 3 * 8 * virtual / whole == pytest.approx(bubble_of_makespan(schedule, 4, 8, virtual))


@pytest.mark.parametrize(("schedule", "virtual"), [one for one in KNOWN if one[1] == 2 and one[0] != "looped-bfs"])
@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 4), (3, 9), (4, 8), (4, 12)])
def test_as_pytorch_plans_them(schedule, virtual, ranks, microbatches):
    pytest.importorskip("torch")
    from tests.workloads.orders import LETTERS, order, plan

    assert set(LETTERS.values()) == {"F", "B", "I", "W"}
    kinds = {"F": "forward", "B": "backward", "I": "backward_input", "W": "backward_weight"}
    theirs = [
        [Action(kinds[letter], stage, number) for stage, letter, number in order(of_rank)]
        for of_rank in plan(schedule, ranks, microbatches, virtual)
    ]
    assert orders(schedule, ranks, microbatches, virtual) == theirs


@pytest.mark.parametrize(
    ("schedule", "ranks", "microbatches", "sentence"),
    [("chimera", 2, 4, "no order"), ("zbv", 4, 6, "needs 7"), ("dualpipev", 4, 7, "needs 8"),
     ("interleaved", 3, 7, "do not divide")],
)  # fmt: skip
def test_what_cannot_be_is_refused(schedule, ranks, microbatches, sentence):
    with pytest.raises(WrongUse, match=sentence):
        orders(schedule, ranks, microbatches, 2)
