import pandas as pd
import pytest

from tests import lanes
from tracekit.transfers import group_sizes, shared_calls, speeds
from tracekit.waiting import with_waits

DRAWING = """
    0/20 NNNN......  bytes=4000
    0/21 .....NNNNN  op=send peer=1 group=pp
    1/20 ..NN......  bytes=4000
    1/21 ......NN..  op=recv peer=0 group=pp bytes=600
    1/20 ......N...  match=none
"""


def test_a_row_for_each_matched_call():
    rows = shared_calls(with_waits(lanes.run(DRAWING)))
    assert rows.astype(object).to_dict("records") == [
        {"group": "default", "op": "all_reduce", "ranks": 2, "bytes": 4000, "wait_ns": 2000, "transfer_ns": 4000,
         "time_ns": 2000, "link": "inside a host"},
        {"group": "pp", "op": "send", "ranks": 2, "bytes": 600, "wait_ns": 1000, "transfer_ns": 6000,
         "time_ns": 2000, "link": "inside a host"},
    ]  # fmt: skip


def test_a_groups_size_is_what_the_file_tells_else_who_shows_the_call():
    run = lanes.run("0/20 N.. size=8\n1/20 N.. size=8\n0/21 ..N group=x\n1/21 ..N group=x\n0/22 N.. group=y")
    sizes = group_sizes(run.calls)
    assert [None if pd.isna(size) else size for size in sizes] == [8, None, 2, 8, 2]


def test_bandwidth_of_calls_of_known_size_and_time():
    calls = pd.DataFrame({
        "kind": ["a", "a", "a", "b"], "op": "all_reduce", "ranks": pd.array([4] * 4, "Int64"),
        "bytes": pd.array([8000, 4000, None, None], "Int64"),
        "time_ns": pd.array([2000, 4000, 1000, 1000], "Int64"),
    })  # fmt: skip
    rows = speeds(calls, ["kind"])
    assert rows.loc["a"].to_list() == [2.0, 3.0, pytest.approx((6 + 1.5) / 2)]
    assert "b" not in rows.index
