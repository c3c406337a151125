import pytest

from tracekit.errors import WrongUse
from tracekit.plan.hardware import preset
from tracekit.plan.layout import AXES, Layout, check_model
from tracekit.plan.transformer import Transformer

CUBE = Layout(data=2, tensor=2, pipeline=2)


@pytest.mark.parametrize(
    ("axis", "groups"),
    [("tensor", [[0, 1], [2, 3], [4, 5], [6, 7]]), ("data", [[0, 2], [1, 3], [4, 6], [5, 7]]),
     ("pipeline", [[0, 4], [1, 5], [2, 6], [3, 7]])],
)  # fmt: skip
def test_tensor_ranks_are_neighbours_and_stages_lie_farthest_apart(axis, groups):
    assert CUBE.groups(axis) == groups


def test_context_lies_between_tensor_and_data_and_shares_gradients_with_it():
    layout = Layout(data=2, tensor=2, context=2)
    assert layout.groups("context") == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert layout.groups("data") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert layout.groups("gradients") == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_experts_are_shared_out_along_data():
    layout = Layout(data=4, expert=2)
    assert layout.groups("expert") == [[0, 1], [2, 3]]
    assert layout.groups("expert_data") == [[0, 2], [1, 3]]


@pytest.mark.parametrize("axis", AXES)
def test_every_axis_puts_every_rank_into_one_group(axis):
    layout = Layout(data=4, tensor=2, pipeline=3, context=2, expert=2)
    groups = layout.groups(axis)
    assert sorted(rank for group in groups for rank in group) == list(range(layout.ranks))
    assert {len(group) for group in groups} == {layout.size(axis)}
    assert groups[0] == layout.group(axis)


def test_which_groups_stay_inside_a_node():
    layout = Layout(data=4, tensor=4, pipeline=2)
    cluster = preset("a100-80gb", 32)
    inside = {axis: layout.inside_node(axis, cluster) for axis in ("tensor", "data", "pipeline", "context")}
    assert inside == {"tensor": True, "data": False, "pipeline": False, "context": True}
    assert not Layout(tensor=3, data=4).inside_node("tensor", cluster)  # ranks 6 7 8 lie on two nodes


def test_samples_of_a_step():
    assert Layout(data=8, micro_batch=8, microbatches=2).batch == 128


@pytest.mark.parametrize(
    ("wrong", "numbers"),
    [({"data": 6, "expert": 4}, "expert 4 .* data 6"), ({"tensor": 0}, "tensor .* 0"), ({"zero_stage": 4}, "4"),
     ({"schedule": "chimera"}, "chimera"), ({"checkpointing": "some"}, "some"),
     ({"schedule": "1f1b", "stages_per_rank": 2}, "1 stage per rank, not 2"),
     ({"schedule": "zbv", "stages_per_rank": 1}, "2 stages per rank, not 1"),
     ({"schedule": "interleaved", "pipeline": 4, "microbatches": 9, "stages_per_rank": 2}, "9 do not divide by 2")],
)  # fmt: skip
def test_layouts_that_cannot_be_say_both_numbers(wrong, numbers):
    with pytest.raises(WrongUse, match=numbers):
        Layout(**wrong)


MODEL = Transformer(layers=10, hidden=64, heads=8, sequence=16, vocabulary=32)


@pytest.mark.parametrize(
    ("layout", "said"),
    [(Layout(tensor=3), "8 heads do not divide by tensor 3"), (Layout(context=3), "16 tokens .* context 3"),
     (Layout(pipeline=8), "10 layers .* 8 stages"), (Layout(data=2, expert=2), "1 experts .* expert 2")],
)  # fmt: skip
def test_models_that_cannot_be_split_so(layout, said):
    with pytest.raises(WrongUse, match=said):
        check_model(layout, MODEL)


def test_stages_need_not_be_alike():
    check_model(Layout(pipeline=4), MODEL)  # 3, 3, 3 and 1 layers
