import numpy as np
import pandas as pd

from tests import lanes
from tracekit.actions import annotation_of, useful
from tracekit.waiting import with_waits

SPANS = (np.array([0, 10]), np.array([5, 20]))


def test_work_belongs_to_the_annotation_that_its_launch_lies_in():
    work = pd.DataFrame({"launch_ns": [0, 4, 5, 10, 19, 20, -1], "start_ns": [0, 0, 0, 0, 12, 0, 0]})
    assert annotation_of(work, *SPANS, on_cpu=False).tolist() == [0, 0, -1, 1, 1, -1, -1]
    assert annotation_of(work, *SPANS, on_cpu=True).tolist() == [0, 0, 0, 0, 1, 0, 0]
    assert annotation_of(work, np.array([]), np.array([]), on_cpu=False).tolist() == [-1] * 7


def test_collectives_launched_inside_are_useful_once_all_have_come():
    run = with_waits(
        lanes.run("""
        0/main  a..b........
        0/7     CC..........
        0/20    ..NNNN..NN..  by=ab group=tp
        1/20    ...NNN..NN..  group=tp
        """)
    )
    spans = np.array([0]), np.array([2000])
    found = useful(run.rank(0), *spans)
    assert list(zip(found.starts.tolist(), found.ends.tolist(), strict=True)) == [(0, 2000), (3000, 6000)]


def test_sends_and_receives_never_are():
    run = with_waits(lanes.run("0/main a...\n0/7 C...\n0/20 .NN. by=a op=recv"))
    assert useful(run.rank(0), np.array([0]), np.array([1000])).ends.tolist() == [1000]
