import pytest

from tracekit.errors import AmbiguousRanks, Unreadable
from tracekit.read.ranks import Claim, assign, rank_in_name
from tracekit.read.tables import Identity


def claim(name, rank=None, world_size=None, device="GPU", span=(0, 10)):
    return Claim(name, Identity(rank, world_size, None, None, device, *span, events=1, dropped=0))


def places(*claims):
    """Rank and window of each claim, None where it is no rank's."""
    found, _ = assign(claims)
    return [(found[at].rank, found[at].window) if at in found else None for at in range(len(claims))]


def notes(*claims):
    return [(note.code, note.severity, note.rank) for note in assign(claims)[1]]


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank0.json", 0), ("rank_12.json.gz", 12), ("rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz", 34),
        ("trace_rank3.json", 3), ("Rank7.json", 7), ("RANK_7.json", 7), ("rank=5.json", 5), ("rank.5.json", 5),
        ("worker0_step_12.1694128201545.pt.trace.json.gz", 0), ("worker-3.json", 3),
        ("Baseline - 12-11 - 8ad3d-rank7-chrome-trace.json.gz", 7), ("global_rank4.json", 4), ("local_rank2.json", 2),
        ("global_rank11_local_rank3.json", 11), ("step_100_rank_2.json", 2), ("t11_cut_rank0.json", 0), ("r3.json", 3),
        ("gpu5.json", 5), ("proc_2.json", 2), ("profile_6.json", 6), ("rank0of8.json", 0), ("world8_rank3.json", 3),
        ("/data/rank5/trace.json", 5), ("/data/rank5/rank6.json", 6), ("a.zip!job/rank3.json", 3),
        ("C:\\runs\\rank4.json", 4),
        ("profile_trace/iteration_20/rank3_trace.json", 3),  # torchtitan
        ("profiling/traces/iteration_20/rank3_trace.json.gz", 3),
        ("a/torch_profile/rank-13.json.gz", 13),  # Megatron-LM
        ("traces/profile_6.json", 6),  # Accelerate
        ("memory://job/rank9.json", 9), ("rank000007.json", 7),
    ],
)  # fmt: skip
def test_ranks_in_names(name, rank):
    assert rank_in_name(name) == rank


@pytest.mark.parametrize(
    "name",
    [
        "fit-job-0-run_training_batch.1694128201545.pt.trace.json",  # Lightning, which tells the rank in its host alone
        "trace.json", "frank3.json", "prank3.json", "ranking3.json", "rank.json", "ranks8.json", "coworker.json",
        "ip-172-31-16-248.us-east-2.compute.internal_19488.1698954910154219890.pt.trace.json.gz", "step_12.json",
        "9c44bd29b3f0_1375.1724066820235157909.pt.trace.json.gz", "gpus8.json", "error3.json", "",
        "/data/rank5/deep/er/trace.json", "rank12345678901234567890.json", "3.json",
    ],
)  # fmt: skip
def test_names_without_a_rank(name):
    assert rank_in_name(name) is None


def test_metadata_first():
    assert places(claim("rank3.json", rank=5, world_size=8)) == [(5, 0)]


def test_then_the_name():
    assert places(claim("rank3.json"), claim("rank4.json")) == [(3, 0), (4, 0)]
    assert notes(claim("rank3.json"), claim("rank4.json")) == []


def test_then_the_only_file_is_rank_0():
    assert places(claim("trace.json")) == [(0, 0)]
    assert notes(claim("trace.json")) == [("assumed-rank", "info", 0)]


def test_else_unassigned_with_a_reason():
    found, told = assign([claim("trace.json"), claim("rank1.json")])
    assert {at: place.rank for at, place in found.items()} == {1: 1}
    [note] = told
    assert (note.code, note.severity) == ("unassigned-file", "warning")
    assert "trace.json" in note.message
    assert "neither in its metadata nor in its name" in note.message


def test_if_nothing_is_any_ranks_the_reasons_are_told():
    with pytest.raises(Unreadable, match=r"(?s)a\.json.*b\.json"):
        assign([claim("a.json"), claim("b.json")])


@pytest.mark.parametrize("rank", [8, 9, -1])
def test_a_rank_outside_the_world_is_taken_from_the_name(rank):
    wrong = claim("rank3.json", rank=rank, world_size=8)
    others = [claim(f"rank{n}.json", n, 8) for n in range(8) if n != 3]
    assert places(wrong, *others)[0] == (3, 0)
    assert notes(wrong, *others) == [("wrong-rank", "warning", 3)]


def test_a_rank_outside_the_world_without_another_is_unassigned():
    _, told = assign([claim("trace.json", 8, 8), claim("rank0.json", 0, 1)])
    assert ("unassigned-file", "warning") in [(note.code, note.severity) for note in told]
    assert any("rank 8 of 8" in note.message for note in told)


def test_a_rank_without_a_world_size_is_believed():
    assert places(claim("a.json", 7)) == [(7, 0)]


# Windows


def test_files_of_one_rank_at_other_times_are_windows():
    assert places(claim("a.json", 0, span=(0, 10)), claim("b.json", 0, span=(10, 20))) == [(0, 0), (0, 1)]


def test_windows_are_numbered_by_time_not_by_name():
    assert places(claim("a.json", 0, span=(50, 60)), claim("b.json", 0, span=(0, 10))) == [(0, 1), (0, 0)]


def test_windows_of_all_ranks_are_the_same():
    claims = [claim(f"{rank}-{at}.json", rank, span=(at + rank, at + 10 + rank)) for at in (0, 100) for rank in (0, 1)]
    assert places(*claims) == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_a_rank_without_the_second_window():
    claims = [
        claim("a", 0),
        claim("b", 1),
        claim("c", 0, span=(100, 110)),
        claim("d", 0, span=(200, 210)),
        claim("e", 1, span=(200, 210)),
    ]
    assert places(*claims) == [(0, 0), (1, 0), (0, 1), (0, 2), (1, 2)]


def test_windows_that_no_numbers_fit_are_each_ranks_own():
    claims = [claim("a", 0, span=(0, 10)), claim("b", 0, span=(20, 30)), claim("c", 1, span=(5, 25))]
    assert places(*claims) == [(0, 0), (0, 1), (1, 0)]


def test_two_overlapping_files_that_claim_one_rank():
    with pytest.raises(AmbiguousRanks) as error:
        assign([claim("one.json", 3, span=(0, 10)), claim("other.json", 3, span=(9, 20)), claim("x.json", 0)])
    assert "one.json" in str(error.value)
    assert "other.json" in str(error.value)
    assert "rank 3" in str(error.value)
    assert error.value.exit_code == 2


def test_a_file_beside_its_own_copy():
    with pytest.raises(AmbiguousRanks, match=r"rank0\.json and .*rank0\.json\.gz"):
        assign([claim("rank0.json", 0), claim("rank0.json.gz", 0)])


# Missing ranks, and helpers


@pytest.mark.parametrize(
    ("present", "told"), [((0, 1, 3), "no file of rank 2"), ((1,), "no file of ranks 0, 2-3"), ((0, 1, 2, 3), None)]
)
def test_missing_ranks_are_noted(present, told):
    _, found = assign([claim(f"rank{rank}.json", rank, 4) for rank in present])
    missing = [note for note in found if note.code == "missing-rank"]
    assert len(missing) == (told is not None)
    if told:
        assert missing[0].message.startswith(told)
        assert missing[0].count == 4 - len(present)


def test_world_sizes_that_differ_are_noted():
    assert ("world-size", "warning", None) in notes(claim("rank0.json", 0, 2), claim("rank1.json", 1, 4))


def test_files_without_device_work_beside_others_are_no_ranks():
    helper, rank = claim("rank7_loader.json", device="cpu"), claim("rank0.json", 0, 1)
    assert places(helper, rank) == [None, (0, 0)]
    assert notes(helper, rank) == [("helper-file", "info", None)]


def test_a_rank_whose_device_shows_nothing_is_a_rank_and_noted():
    assert places(claim("a.json", 1, 2, device="cpu"), claim("b.json", 0, 2)) == [(1, 0), (0, 0)]
    assert notes(claim("a.json", 1, 2, device="cpu"), claim("b.json", 0, 2)) == [("no-device-work", "warning", 1)]


def test_a_helper_that_carries_the_rank_of_its_master():
    """A child process inherits its rank: the file that shows the device's work is the rank."""
    assert places(claim("child.json", 0, 1, device="cpu"), claim("master.json", 0, 1)) == [None, (0, 0)]


def test_where_no_file_has_device_work_all_are_ranks():
    assert places(claim("rank0.json", device="cpu"), claim("rank1.json", device="cpu")) == [(0, 0), (1, 0)]
