import pytest

from tracekit import axes


@pytest.mark.parametrize(
    ("group", "axis"),
    [
        ("dp 0-3", "data"),
        ("mesh_dp_shard", "data"),
        ("DATA_PARALLEL_GROUP", "data"),
        ("TENSOR_MODEL_PARALLEL_GROUP", "tensor"),
        ("PIPELINE_MODEL_PARALLEL_GROUP", "pipeline"),
        ("mesh_pp:7", "pipeline"),
        ("cp", "context"),
        ("EXPERT_MODEL_PARALLEL_GROUP", "expert"),
    ],
)
def test_names_of_groups(group, axis):
    assert axes.name_of(group) == axis


@pytest.mark.parametrize(
    "group", ["default_pg", "0", "all", "EMBEDDING_GROUP", "MODEL_PARALLEL_GROUP", "mesh_dp_cp", "EXPERT_DATA_PARALLEL"]
)
def test_names_that_tell_none_or_several(group):
    assert axes.name_of(group) is None
