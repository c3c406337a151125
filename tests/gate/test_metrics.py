import pytest

from tests import lanes
from tests.measures.test_every_measure import JOB, RICH
from tracekit.analysis import Analysis, measure_columns, measure_names
from tracekit.gate.metrics import HEADLINES, KEYED_HEADLINES, full_names, metrics_of
from tracekit.read.load import load

DRAWING = """
    step      000000001111111122222222  incomplete=2
    0/main    a.......b.......c.......
    0/7       .CCC.....CCCC....CC.....  by=abc
    0/20      ..NNN.....N.............  bytes=800
    0/9       ......M.................  bytes=4000
    1/7       .CC......CC......CC.....
    1/20      ..NNN.....N.............  bytes=800
"""


def metrics(drawing=DRAWING):
    return metrics_of(Analysis(lanes.run(drawing)))


def values(name, drawing=DRAWING):
    return metrics(drawing)[name].values


def test_a_value_for_each_complete_step_mean_over_the_ranks():
    assert values("breakdown.step_ns") == (8000, 8000)
    assert values("breakdown.compute_ns") == (2500, 3000)  # 3 and 2 us, 4 and 2 us


def test_a_step_in_which_nothing_happens_counts_as_nothing():
    assert values("copies.copy_ns[host_to_device]") == (500, 0)  # 1 us on one of two ranks


def test_calls_are_told_apart_by_group_and_operation():
    assert values("volume.bytes[default,all_reduce]") == (800, 800)
    assert metrics()["collectives.busbw_gbs[default,all_reduce]"].better == "up"


def test_kernels_and_copies_are_counted_in_the_step_that_launched_them():
    # device work without a launch counts by its start: rank 0 has a kernel and a call each step, and one copy
    assert values("counts.kernels") == (2, 2)
    assert values("counts.copies") == (0.5, 0)


def test_peaks_are_the_highest_of_any_rank():
    assert values(
        "memory.peak_allocated_bytes",
        """
        step      00001111
        0/7       CC..CC..
        0/memory  1.2..3..
        1/7       CC..CC..
        1/memory  1.5..2..
        """,
    ) == (5, 5)  # 5 is still held when step 1 begins


@pytest.mark.parametrize("drawing", [RICH, JOB])
def test_every_column_whose_direction_is_named_is_a_metric(drawing):
    found = {name.partition("[")[0] for name in metrics(drawing)}
    analysis = Analysis(lanes.run(drawing))
    for measure in measure_names():
        try:
            rows = analysis[measure]
        except Exception:
            continue
        for column, told in measure_columns(measure).items():
            if told.better and column in rows and rows[column].notna().any():
                assert f"{measure}.{column}" in found


def test_every_name_that_people_use_is_a_column():
    for metric in (*HEADLINES.values(), *KEYED_HEADLINES.values()):
        measure, _, column = metric.partition(".")
        assert measure == "counts" or column in measure_columns(measure)


def test_full_names():
    known = ["breakdown.step_ns", "exposed.exposed_ns[data]", "bandwidth.busbw_gbs[a]", "bandwidth.busbw_gbs[b]"]
    assert full_names("step", known) == ["breakdown.step_ns"]
    assert full_names("exposed_comm[data]", known) == ["exposed.exposed_ns[data]"]
    assert full_names("busbw", known) == known[2:]
    assert full_names("no", known) == []


def test_a_run_from_files_gives_the_same(tmp_path):
    lanes.kineto(DRAWING.replace("  incomplete=2", ""), tmp_path)
    assert metrics_of(Analysis(load(tmp_path)))["breakdown.compute_ns"].values[:2] == (2500, 3000)
