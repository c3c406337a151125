"""What all measures have in common."""

from pathlib import Path

import pytest

from tests import lanes
from tracekit.analysis import Analysis, measure_module, measure_names
from tracekit.errors import NotMeasured
from tracekit.model import NO_TIME, Column

EVERY = pytest.mark.parametrize("name", measure_names())
UNITS = {"", "1", "ns", "bytes", "GB/s"}
RICH = """
    step      ..00000000001111112222....  incomplete=2
    0/main    abcd.e.SS.DDD.GG.fg.......
    0/7       C.CCC.CC!CC....CC..CC.CC..  by=abcd-efg
    0/20      ..NNN..NN....N......NN....  group=dp
    0/21      ...NN...............N.N...  group=tp op=all_gather
    0/9       .MM..MM.........MMM.......  bytes=4000
    0/memory  1.2..3...4....5...........
    1/7       ..........................
"""
JOB = """
    step    0000000000001111
    0/main  AA........................  op=forward:0:0
    0/main  ......AAA.................  op=backward:0:0
    0/main  a.....b...................
    0/7     CC....CCC.................  by=ab
    0/20    .........NN...............  group=dp-first bytes=8 size=2
    0/21    ..N.......................  group=pp-0 op=send peer=2 bytes=8
    0/21    .....N....................  group=pp-0 op=recv peer=2 bytes=8
    1/main  AA........................  op=forward:0:0
    1/main  ......AAA.................  op=backward:0:0
    1/main  a.....b...................
    1/7     CC....CCC.................  by=ab
    1/20    ..........N...............  group=dp-first bytes=8 size=2
    1/21    ..N.......................  group=pp-1 op=send peer=3 bytes=8
    1/21    .....N....................  group=pp-1 op=recv peer=3 bytes=8
    2/main  ...A......................  op=forward:1:0
    2/main  ....A.....................  op=backward:1:0
    2/main  ...ab.....................
    2/7     ...Cc.....................  by=ab
    2/20    .....NNN..................  group=dp-last bytes=8 size=2
    2/21    NNN.......................  group=pp-0 op=recv peer=0 bytes=8
    2/21    .....N....................  group=pp-0 op=send peer=0 bytes=8
    3/main  ...A......................  op=forward:1:0
    3/main  ....A.....................  op=backward:1:0
    3/main  ...ab.....................
    3/7     ...Cc.....................  by=ab
    3/20    ......NN..................  group=dp-last bytes=8 size=2
    3/21    NNN.......................  group=pp-1 op=recv peer=1 bytes=8
    3/21    .....N....................  group=pp-1 op=send peer=1 bytes=8
"""
"""Two pipelines of two stages each, as two replicas, for measures that compare ranks."""
ACROSS_RANKS = {
    *(
        "bandwidth",
        "blame",
        "collectives",
        "exposed",
        "exposed_calls",
        "layout",
        "links",
        "microbatches",
        "pace",
        "pipeline",
    ),
    *("places", "ranks", "stages", "volume", "waits"),
}
ALONE = pytest.mark.parametrize("name", [name for name in measure_names() if name not in ACROSS_RANKS])


def drawing_for(name):
    return JOB if name in ACROSS_RANKS else RICH


def answer(drawing, name):
    return Analysis(lanes.run(drawing))[name]


@EVERY
def test_its_docstring_begins_with_a_question(name):
    first, _, rest = measure_module(name).__doc__.partition("\n")
    assert first.endswith("?")
    assert rest.strip()


@EVERY
def test_its_columns_have_units(name):
    columns = measure_module(name).COLUMNS
    assert all(isinstance(column, Column) and column.unit in UNITS for column in columns.values())
    assert all(column.unit == "ns" for key, column in columns.items() if key.endswith("_ns"))
    assert all(column.unit == "1" for key, column in columns.items() if key.endswith("_frac"))
    assert all(column.unit == "bytes" for key, column in columns.items() if key.split("_")[-1] == "bytes")


@EVERY
def test_it_has_a_test_file_of_its_name(name):
    assert (Path(__file__).parent / f"test_{name}.py").is_file()


@EVERY
def test_its_docstring_names_each_of_its_numbers(name):
    module = measure_module(name)
    numbers = [key for key, column in module.COLUMNS.items() if column.unit and not key.startswith("peak_")]
    assert [key for key in numbers if f"`{key}`" not in module.__doc__] == []


@EVERY
def test_it_gives_the_columns_that_it_declares(name):
    rows = answer(drawing_for(name), name)
    assert list(rows) == list(measure_module(name).COLUMNS)
    assert len(rows)


@ALONE
def test_several_windows_of_a_rank_are_told_apart(name):
    windows = "\n".join(line.replace("0/", f"0.{n}/") for n in (0, 1) for line in RICH.splitlines() if "0/" in line)
    rows = answer(RICH.splitlines()[1] + "\n" + windows, name)
    halves = [rows[rows["window"] == n].drop(columns="window").reset_index(drop=True) for n in (0, 1)]
    assert halves[0].equals(halves[1])
    assert halves[0].equals(answer("\n".join(line for line in RICH.splitlines() if "1/7" not in line), name))


@EVERY
def test_no_unknown_time_or_step_reaches_a_result(name):
    numbers = answer(drawing_for(name), name).select_dtypes("number")
    assert not (numbers == NO_TIME).any(axis=None)
    assert not (numbers < 0).any(axis=None)


@EVERY
def test_a_run_without_anything_is_not_measured(name):
    with pytest.raises(NotMeasured, match="the run has no "):
        answer("0/7 ....", name)


@ALONE
def test_a_rank_without_anything_changes_no_other(name):
    alone, beside = (answer(drawing, name) for drawing in (RICH.replace("1/7", "0/6"), RICH))
    assert alone.equals(beside[beside["rank"] == 0].reset_index(drop=True))


@EVERY
def test_it_changes_nothing_that_it_was_handed(name):
    run = lanes.run(drawing_for(name))
    before = {key: frame.copy() for key, frame in run.sources[0, 0].tables.items()}
    small = {key: getattr(run, key).copy() for key in ("ranks", "steps", "calls", "notes")}
    Analysis(run)[name]
    assert all(frame.equals(before[key]) for key, frame in run.sources[0, 0].tables.items())
    assert all(frame.equals(getattr(run, key)) for key, frame in small.items())
