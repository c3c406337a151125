import json

import numpy as np
import pandas as pd
import pytest

from tracekit import charts
from tracekit.charts import Part
from tracekit.errors import NotMeasured

HOSTILE = "<img src=x onerror=alert(1)> $x$ [a](javascript:b) & \u202e"


def rows(**columns):
    return pd.DataFrame(columns)


def all_text(figure):
    return figure.to_json()


def test_a_label_is_neither_html_nor_latex():
    shown = charts.label(HOSTILE, 200)
    assert not set("<>$\u202e") & set(shown)
    assert shown.startswith("&lt;img src=x onerror=alert(1)&gt; &#36;x&#36;")
    assert "&amp;" in shown


def test_a_long_label_is_cut():
    assert len(charts.label("k" * 10_000)) == charts.LONGEST_LABEL


def test_parts_are_stacked_in_the_unit_that_suits_them():
    table = rows(rank=[0, 1], a_ns=[3_000_000, 1_000_000], b_ns=[1_000_000, 2_000_000])
    figure = charts.parts(table, [Part("a_ns", "first", "compute"), Part("b_ns", "second", "wait")])
    assert figure.layout.barmode == "stack"
    assert figure.layout.yaxis.title.text == "ms"
    assert [bar.name for bar in figure.data] == ["first", "second"]
    assert figure.data[0].y.tolist() == [3.0, 1.0]
    assert list(figure.data[1].customdata) == ["1,000,000 ns", "2,000,000 ns"]
    assert [bar.marker.color for bar in figure.data] == [charts.BLUE, charts.PURPLE]


def test_parts_without_a_colour_of_their_own_get_different_ones():
    table = rows(rank=[0], a_ns=[1], b_ns=[1])
    figure = charts.parts(table, [Part("a_ns", "a", "?"), Part("b_ns", "b", "?")])
    assert figure.data[0].marker.color != figure.data[1].marker.color


def test_bars_have_hostile_names_escaped():
    figure = charts.bars([HOSTILE], [5_000], "ns", "time")
    assert "<img" not in all_text(figure)
    assert figure.layout.xaxis.title.text == "µs"
    assert list(figure.data[0].x) == [5.0]


def test_bars_side_by_side_share_a_scale_and_a_name():
    figure = charts.beside([HOSTILE], {"held": [2048], "sent": [1024]}, "bytes", "volume")
    assert "<img" not in all_text(figure)
    assert [(bar.name, list(bar.x)) for bar in figure.data] == [("held", [2.0]), ("sent", [1.0])]
    assert figure.layout.xaxis.title.text == "volume, KiB"


def test_nothing_to_draw_is_not_an_empty_chart():
    nothing = rows(rank=[], a_ns=[])
    with pytest.raises(NotMeasured):
        charts.parts(nothing, [Part("a_ns", "a", "compute")])
    with pytest.raises(NotMeasured):
        charts.bars([], [], "ns", "time")
    with pytest.raises(NotMeasured):
        charts.sizes(rows(bytes=pd.array([None], "Int64"), op=["send"]))


def test_heat_keeps_the_order_asked_for_and_shows_what_is_missing():
    table = rows(rank=[0, 0, 1], step=[3, 4, 3], wait_ns=[1000, 2000, 3000])
    figure = charts.heat(table, "step", "rank", "wait_ns", "ns", "waits", {1: "second", 0: "first"})
    heat = figure.data[0]
    assert list(heat.x) == ["3", "4"]
    assert list(figure.layout.yaxis.ticktext) == ["second", "first"]
    assert heat.z[0][0] == 3.0
    assert np.isnan(heat.z[0][1])
    assert heat.customdata[0][1] == "not measured"
    assert heat.customdata[1][1] == "2,000 ns"


def test_heat_of_one_rank_has_room_for_the_numbers_of_its_shades():
    figure = charts.heat(rows(rank=[0], step=[0], wait_ns=[1]), "step", "rank", "wait_ns", "ns", "waits")
    assert figure.layout.height >= 240
    assert figure.data[0].colorbar.nticks <= 6


def test_heat_of_512_ranks_stays_readable():
    ranks = np.arange(512)
    figure = charts.heat(rows(rank=ranks, step=0 * ranks, wait_ns=ranks), "step", "rank", "wait_ns", "ns", "waits")
    assert len(figure.layout.yaxis.ticktext) <= 32
    assert figure.layout.height <= 720


def test_sizes_are_classes_of_powers_of_two():
    figure = charts.sizes(rows(bytes=pd.array([1024, 1500, 2048, 0], "Int64"), op=["send"] * 4))
    [bar] = figure.data
    assert list(bar.text) == ["1 KiB", "2 KiB"]
    assert bar.y.tolist() == [2, 1]


def test_bandwidth_has_a_mark_per_size_and_the_expected_line():
    table = rows(group=["g", "g"], op=["all_reduce"] * 2, link=["inside a host"] * 2, calls=[2, 1], bytes=[2048, 4096],
                 busbw_gbs=pd.array([1.0, None], "Float64"))  # fmt: skip
    figure = charts.bandwidth(table, 5.0)
    [mark] = figure.data
    assert (list(mark.x), list(mark.y)) == ([1024.0], [1.0])
    assert [line.y0 for line in figure.layout.shapes] == [5.0]


def test_gantt_has_a_bar_per_action_at_its_time():
    table = rows(rank=[0, 1], action=["forward", "backward"], microbatch=[0, 0], start_ns=[1000, 3000],
                 end_ns=[2000, 6000], step=[0, 0], stage=[0, 1])  # fmt: skip
    figure = charts.gantt(table, 1000, {0: "stage 0", 1: "stage 1"})
    backward, forward = figure.data
    assert (list(forward.base), list(forward.x), list(forward.y)) == ([0.0], [1.0], [0])
    assert (list(backward.base), list(backward.x), list(backward.y)) == ([2.0], [3.0], [1])


def test_spans_stand_in_their_rows_and_carry_the_call():
    table = rows(row=[0, 1], kind=["compute", "comm"], name=[HOSTILE, "n"], start_ns=[0, 2000], end_ns=[1000, 5000],
                 match=[-1, 7])  # fmt: skip
    figure = charts.spans(table, 0, ["rank 0 compute", "rank 0 comm"])
    comm = next(one for one in figure.data if one.name == "comm")
    assert (list(comm.base), list(comm.x)) == ([0.002], [0.003])  # ms
    assert list(comm.customdata[0]) == ["3,000 ns", "7"]
    assert "<img" not in all_text(figure)


def test_busy_bins_have_the_colour_of_their_kind():
    table = rows(row=[0, 0], kind=["comm", "comm"], time_ns=[0, 1000], length_ns=[1000, 1000], busy_frac=[0.0, 0.5])
    [heat] = charts.busy(table, 0, ["rank 0 comm", "rank 1 comm"]).data
    assert heat.z.tolist()[0] == [0.0, 0.5]
    assert len(heat.z) == 2  # a row of its own for each, else they would be as high as they are apart
    assert heat.colorscale[-1][1] == charts.VERMILION


def test_json_can_stand_inside_a_script():
    text = charts.figure_json(charts.bars(["</script><script>alert(1)</script>"], [1.0], "1", "number"))
    assert not set("<>&") & set(text)
    assert "&lt;/script&gt;" in json.loads(text)["data"][0]["text"][0]


@pytest.mark.parametrize(("largest", "unit", "factor", "name"), [
    (2_000_000, "ns", 1e6, "ms"), (3 << 30, "bytes", float(1 << 30), "GiB"), (0.5, "frac", 0.01, "%"),
    (float("nan"), "ns", 1e3, "µs"), (7, "GB/s", 1.0, "GB/s"),
])  # fmt: skip
def test_scale(largest, unit, factor, name):
    assert charts.scale(largest, unit) == (factor, name)


def test_lines_have_one_colour_per_kind():
    table = rows(run=[0, 1, 0], value=[1.0, 2.0, 3.0], axis=["data", "data", "tensor"])
    data, tensor = charts.lines(table, "run", "value", "axis", "GB/s", "speed").data
    assert (data.line.color, tensor.line.color) == (charts.ORANGE, charts.PURPLE)
    assert list(data.y) == [1.0, 2.0]
