import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.compare import Part, account_of, difference


def changed(base, new):
    return difference(*(account_of(Analysis(lanes.run(drawing))) for drawing in (base, new)))


def parts(told):
    return [(part.kind, part.name, part.how, part.changed_ns) for part in told.parts if part.changed_ns]


def test_a_longer_kernel():
    told = changed("0/7 CC.CC.  name=a", "0/7 CCC.CC  name=a")
    assert parts(told) == [("compute", "a", "paired", 1000.0)]
    assert told.changed_ns == 1000
    [part] = [one for one in told.parts if one.kind == "compute"]
    assert (part.by_calls_ns, part.by_each_ns) == (0.0, 1000.0)


def test_one_more_call():
    told = changed("0/7 CC..CC  name=a", "0/7 CC.CCccCC  name=a")
    [part] = [one for one in told.parts if one.kind == "compute"]
    assert (part.base.calls, part.new.calls, part.by_calls_ns, part.by_each_ns) == (2, 4, 4000.0, 0.0)


def test_which_of_many_calls():
    told = changed("0/7 C.C.C.C.C.C  name=a", "0/7 C.C.C.CCC.C.C  name=a")
    assert told.parts[0].nth == (4,)


def test_what_only_one_has():
    told = changed(
        """
        0/7 CC......  name=a
        0/7 ...CCC..  name=b
        0/7 .......C  name=c
        """,
        """
        0/7 CC......  name=a
        0/7 ......CC  name=d
        """,
    )
    assert [(part.name, part.how) for part in told.unpaired] == [("b", "gone"), ("d", "new"), ("c", "gone")]
    assert sum(part.changed_ns for part in told.parts) == pytest.approx(told.changed_ns)


def test_another_name_at_the_same_place_is_a_successor():
    told = changed(
        """
        0/7 CC.........  name=a
        0/7 ...CC......  name=ampere_gemm
        0/7 ......CC...  name=b
        """,
        """
        0/7 CC.........  name=a
        0/7 ...CCCC....  name=volta_gemm
        0/7 ........CC.  name=b
        """,
    )
    assert ("compute", "ampere_gemm → volta_gemm", "renamed", 2000.0) in parts(told)
    assert not told.unpaired


def test_another_size_of_the_same_call_is_a_successor():
    told = changed("0/20 NN..  bytes=800", "0/20 NNNN  bytes=1600")
    [part] = told.parts
    assert (part.name, part.shape, part.how) == ("all_reduce default", "800 B → 1600 B", "renamed")


def test_the_same_kernel_at_two_sizes_is_two_parts():
    told = changed(
        """
        0/7 CC......  name=gemm shape=grid8
        0/7 ....C...  name=gemm shape=grid4
        """,
        """
        0/7 CC......  name=gemm shape=grid8
        0/7 ....CCC.  name=gemm shape=grid4
        """,
    )
    assert [(part.shape, part.how, part.changed_ns) for part in told.parts if part.kind == "compute"] == [
        ("grid4", "paired", 2000.0),
        ("grid8", "paired", 0.0),
    ]


def test_shapes_that_fit_nobody_are_paired_by_name_alone():
    told = changed(
        """
        0/7 CC......  name=gemm shape=grid8
        0/7 ....C.C.  name=gemm shape=grid4
        """,
        "0/7 CC.CC.CC  name=gemm shape=grid6",
    )
    [part] = [one for one in told.parts if one.kind == "compute"]
    assert (part.shape, part.how, part.base.calls, part.new.calls) == ("2 shapes → grid6", "renamed", 3, 3)
    assert part.changed_ns == 2000.0


def test_ranks_whose_own_time_grew_stand_first():
    base = """
        0/7  CC......
        0/20 ..NN....
        1/7  CC......
        1/20 ..NN....
    """
    slow = """
        0/7  CC......
        0/20 ..NNNNNN
        1/7  CCCCCC..
        1/20 ......NN
    """
    told = changed(base, slow)
    assert [(one.rank, one.changed("own_ns")) for one in told.ranks] == [(1, 4000.0), (0, 0.0)]
    assert told.by_kind()["compute"] == 2000.0  # the mean of the ranks
    assert told.by_kind()["comm"] == 2000.0


def test_other_world_sizes_are_means_over_their_own_ranks():
    told = changed("0/7 CC", "0/7 CCCC\n1/7 CCCC\n2/7 CCCC")
    assert (told.changed_ns, [one.rank for one in told.ranks]) == (2000.0, [0])


def test_a_part_that_never_ran_has_no_length():
    assert Part("compute", "a").each_ns == 0
