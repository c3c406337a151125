"""Every page on a simulated run, a single-rank run and one without any work."""

import pkgutil
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("streamlit", reason="the extra 'app' is not installed")

from streamlit.testing.v1 import AppTest

from app import shell, views
from tests.app import made

VIEWS = [one.name for one in pkgutil.iter_modules(views.__path__)]
ORDER = [
    "Overview", "Timeline", "Overlap", "Communication", "Pipeline", "Stragglers", "What if", "Memory", "Host",
    "Kernels", "Compare", "History", "Plan", "Learn", *(["HTA"] if find_spec("hta") else []),
]  # fmt: skip


def page(view, path):
    import importlib

    from app import shell
    from tests.app import made

    shell.guarded(importlib.import_module(f"app.views.{view}"), made.analysis_at(path))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    made_folders = {}
    for kind in ("simulated", "single", "empty"):
        (root / kind).mkdir()
        made_folders[kind] = str(made.folder_of(kind, root / kind))
    return made_folders


def shown(view, path):
    return AppTest.from_function(page, default_timeout=120, args=(view, path)).run()


@pytest.mark.parametrize("kind", ["simulated", "single", "empty"])
@pytest.mark.parametrize("view", VIEWS)
def test_the_page_shows_what_is_known_and_says_what_is_not(view, kind, folders, monkeypatch, tmp_path):
    monkeypatch.setenv("TRACEKIT_APP_ROOT", str(tmp_path))
    test = shown(view, folders[kind])
    assert not test.exception
    assert len(test.main)
    if kind == "empty" and view in ("overlap", "communication", "pipeline", "kernels", "memory"):
        assert "Not measured" in " ".join(str(one.proto.body) for one in test.get("html"))


def test_pages_stand_in_their_order_and_have_what_the_frame_needs():
    found = shell.all_views()
    assert [view.TITLE for view in found] == ORDER
    assert all(callable(view.show) and (view.__doc__ or "").strip() for view in found)


def test_the_overview_has_the_verdict_of_the_command_line(folders):
    from tracekit.report.overview import overview

    test = shown("overview", folders["simulated"])
    html = " ".join(str(one.proto.body) for one in test.get("html"))
    told = overview(made.analysis_at(folders["simulated"]))
    assert told.verdict[0] in html
    assert all(one.title in html for one in told.findings)


def test_choosing_what_to_mend_changes_the_step(folders):
    test = shown("what_if", folders["simulated"])
    before = len(test.metric)
    test.multiselect(key="mend").set_value(["host"]).run()
    assert not test.exception
    assert len(test.metric) == before + 1
    assert test.metric[-1].label == "Step with these mended"


def test_a_step_becomes_the_timelines_window(folders):
    test = shown("timeline", folders["simulated"])
    whole = test.number_input(key="to").value
    test.selectbox(key="timeline_step").set_value(0).run()
    next(one for one in test.button if one.label == "Show step").click().run()
    assert not test.exception
    assert test.number_input(key="to").value < whole


def test_learning_simulates_anew_when_something_moves(folders):
    test = shown("learn", folders["single"])
    first = test.metric[0].value
    test.select_slider(key="m").set_value(2).run()
    assert not test.exception
    assert test.metric[0].value != first


def test_two_runs_are_compared_in_parts(folders, monkeypatch):
    root = Path(folders["simulated"]).parent
    monkeypatch.setenv("TRACEKIT_APP_ROOT", str(root))
    test = shown("compare", folders["simulated"])
    test.selectbox(key="base").set_value("simulated").run()
    assert not test.exception
    assert [one.label for one in test.metric] == ["Step of the base", "Step of this run", "Changed by"]
    assert test.metric[2].value == "+0.000 ms"  # with itself


def test_saved_summaries_are_a_history(folders, monkeypatch, tmp_path):
    from tracekit.gate.history import add
    from tracekit.gate.summary import summary_of

    for _ in range(2):
        add(summary_of(made.analysis_at(folders["simulated"]), commit="abc"), tmp_path / "perf")
    monkeypatch.setenv("TRACEKIT_APP_ROOT", str(tmp_path))
    test = shown("history", folders["simulated"])
    assert not test.exception
    assert test.selectbox(key="history").value == "perf"
    assert len(test.dataframe[0].value) == 2


def test_a_page_whose_package_is_missing_is_not_listed(monkeypatch):
    from app.views import hta

    monkeypatch.setattr(hta, "NEEDS", "no_such_package")
    assert "HTA" not in [view.TITLE for view in shell.all_views()]


def test_hta_tells_of_a_rank(folders):
    pytest.importorskip("hta", reason="the extra 'hta' is not installed")
    from tracekit.export.hta import to_hta

    test = shown("hta", folders["simulated"])
    test.selectbox(key="hta_rank").set_value(2).run()
    assert not test.exception
    assert "HolisticTraceAnalysis" in test.caption[0].value
    theirs = to_hta(made.analysis_at(folders["simulated"]).run)
    launches = theirs.get_cuda_kernel_launch_stats(ranks=[2], visualize=False)[2]
    queues = theirs.get_queue_length_summary(ranks=[2])
    assert (
        test.dataframe[0].value["mean"].tolist()
        == launches[["cpu_duration", "gpu_duration", "launch_delay"]].mean().tolist()
    )
    assert test.dataframe[1].value["stream"].tolist() == queues.index.get_level_values("stream").tolist()
    before = len(test.dataframe)
    test.text_input(key="hta_operator").set_value("Optimizer").run()
    test.button(key="hta_find").click().run()
    assert not test.exception
    assert len(test.dataframe) == before + 1


def test_what_hta_fails_at_is_a_sentence(folders, monkeypatch):
    pytest.importorskip("hta", reason="the extra 'hta' is not installed")
    from hta.trace_analysis import TraceAnalysis

    def fail(*args, **more):
        raise AssertionError("<b>no</b>")

    monkeypatch.setattr(TraceAnalysis, "get_queue_length_summary", fail)
    test = shown("hta", folders["simulated"])
    assert not test.exception
    html = " ".join(str(one.proto.body) for one in test.get("html"))
    assert "HTA fails with AssertionError: &lt;b&gt;no&lt;/b&gt;" in html
