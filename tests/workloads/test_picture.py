import gzip
import json

import pytest

from workloads import launch, picture
from workloads.errors import WrongUse


def span(name, start, end, cat="user_annotation"):
    return {"ph": "X", "name": name, "cat": cat, "ts": float(start), "dur": float(end - start)}


def written(folder, rank, *spans):
    events = [span("ProfilerStep#2", 0, 100), *spans, span("aten::mm", 200, 300, "cpu_op")]
    with gzip.open(folder / f"rank{rank}.json.gz", "wt") as file:
        json.dump({"baseTimeNanoseconds": 7_000, "traceEvents": events}, file)


def lanes(folder):
    return [line[9:].rstrip(".") for line in picture.draw(folder).splitlines()[1:]]


def test_each_letter_is_a_percent_of_the_step(tmp_path):
    written(
        tmp_path,
        0,
        span("forward microbatch=0", 0, 5),
        span("aten::mm", 1, 4, "cpu_op"),
        span("backward microbatch=0", 5, 12),
        span("aten::mm", 5, 8, "cpu_op"),
        span("activation checkpoint: recompute layer=0", 8, 10),
        span("aten::mm", 8, 10, "cpu_op"),
        span("wait:recv group=0", 11, 13),
        span("aten::add", 14, 15, "cpu_op"),
        span("gloo:all_reduce", 6, 9),
        span("gloo:send", 12, 13),
    )
    written(tmp_path, 1, span("PP:1W0", 0, 3), span("aten::mm", 0, 3, "cpu_op"), span("gloo:recv", 2, 4))
    assert lanes(tmp_path) == [".FFF.BBBff.ww.o", "......RRR...>", "WWW", "..<<"]


def test_a_short_span_shows_where_nothing_else_does(tmp_path):
    written(tmp_path, 0, span("gloo:all_gather", 3.2, 3.3), span("gloo:broadcast", 5, 7), span("gloo:send", 5.1, 5.2))
    assert lanes(tmp_path) == ["", "...G.CC"]


def test_a_folder_without_traces_is_refused(tmp_path):
    with pytest.raises(WrongUse, match=r"no rank0\.json\.gz in"):
        picture.draw(tmp_path)


def test_the_command_prints_it(tmp_path, capsys):
    written(tmp_path, 0)
    assert launch.main(["picture", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("one character is 0.0 ms\nrank 0")
