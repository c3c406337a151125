import pandas as pd
import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured

MIB = 1 << 20


def rows(run, *columns):
    table = Analysis(run)["bandwidth"][list(columns)].astype(object)
    return table.where(table.notna(), None).values.tolist()


def two_ranks(cells, *options):
    return "\n".join(f"{rank}/{20 + lane} {cells} {option}" for rank in (0, 1) for lane, option in enumerate(options))


def test_size_classes():
    sizes = [8, 65535, 65536, MIB, 300 * MIB]
    lines = [f"{rank}/20 {'..' * nth}N  bytes={size}" for nth, size in enumerate(sizes) for rank in (0, 1)]
    assert rows(lanes.run("\n".join(lines)), "from_bytes", "to_bytes", "calls", "bytes") == [
        [0, 65536, 2, 65543],
        [65536, MIB, 1, 65536],
        [MIB, 16 * MIB, 1, MIB],
        [256 * MIB, None, 1, 300 * MIB],
    ]


def test_speed_of_the_sum_and_of_the_median_call():
    # all-reduces of two ranks: bus bandwidth is 8, 8 and 2 bytes a nanosecond
    drawing = two_ranks("N.n.NNNN", "bytes=8000")
    assert rows(lanes.run(drawing), "algbw_gbs", "busbw_gbs", "busbw_median_gbs") == [[4.0, 4.0, 8.0]]


def test_inside_a_host_and_between_hosts():
    drawing = """
        0/20 NN..  group=near bytes=4000
        1/20 NN..  group=near bytes=4000
        1/21 ..NN  group=far bytes=2000
        2/21 ..NN  group=far bytes=2000
    """
    run = lanes.run(drawing)
    run.ranks["host"] = ["a", "a", "b"]
    assert rows(run, "group", "link", "busbw_gbs") == [
        ["far", "between hosts", 1.0],
        ["near", "inside a host", 2.0],
    ]


@pytest.mark.parametrize(
    ("hosts", "link"), [((None, "a"), "unknown"), (("", ""), "unknown"), (("a", "b"), "between hosts")]
)
def test_hosts_that_are_not_told(hosts, link):
    run = lanes.run(two_ranks("NN", "bytes=8"))
    run.ranks["host"] = pd.array(list(hosts), "str")
    assert rows(run, "link") == [[link]]


@pytest.mark.parametrize(
    ("drawing", "why"),
    [("0/20 NN bytes=8", "no second rank"), (two_ranks("NN", ""), "no matched call whose size")],
)
def test_nothing_to_measure_is_a_sentence(drawing, why):
    with pytest.raises(NotMeasured, match=why):
        rows(lanes.run(drawing))
