"""The running app in a real browser."""

import json

import pytest

pytest.importorskip("streamlit", reason="the extra 'app' is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from tests.app import browser, made
from tests.app.test_views import ORDER
from tracekit.cli import main


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    below = tmp_path_factory.mktemp("root")
    (below / "simulated").mkdir()
    made.folder_of("simulated", below / "simulated")
    made.hostile_traces(below / "hostile")
    return below


@pytest.fixture(scope="module")
def address(root):
    with browser.served(root) as told:
        yield told


@pytest.fixture(scope="module")
def chromium():
    with browser.chromium() as started:
        yield started


def walked(page, address, run):
    """Each page in turn, by the navigation, once it has settled."""
    page.goto(f"{address}/?run={run}")
    for title in ORDER:
        if title != ORDER[0]:
            page.get_by_test_id("stSidebarNav").get_by_role("link", name=title, exact=True).click()
        browser.settled(page, title)
        yield title


@pytest.mark.parametrize("width", [1440, 800])
def test_every_page_of_a_run(address, chromium, width):
    page = chromium.new_page(viewport={"width": width, "height": 1000})
    found = browser.troubles(page)
    for title in walked(page, address, "simulated"):
        assert page.get_by_test_id("stException").count() == 0, title
        assert "This did not work" not in page.inner_text("body"), title
        assert _too_wide(page) <= 0, title
        page.screenshot(path=browser.screenshots() / f"{title.lower().replace(' ', '-')}-{width}.png")
    assert not found
    page.close()


def _too_wide(page):
    return page.evaluate("document.documentElement.scrollWidth - innerWidth")


def test_the_numbers_are_those_of_the_command_line(root, address, chromium, tmp_path):
    assert main(["analyze", str(root / "simulated"), "--json", str(tmp_path / "told.json")]) == 0
    told = json.loads((tmp_path / "told.json").read_text())
    complete = {(row["rank"], row["step"]) for row in told["steps"] if row["complete"]}
    rows = [row for row in told["measures"]["breakdown"]["rows"] if (row["rank"], row["step"]) in complete]
    columns = ("step_ns", "compute_ns", "exposed_comm_ns", "idle_ns")
    page = chromium.new_page()
    page.goto(f"{address}/?run=simulated")
    browser.settled(page, "Overview")
    cells = [line.split() for line in page.locator(".tk table tbody tr").all_inner_texts()]
    headings = [one.lower().split(",")[0] for one in page.locator(".tk table thead th").all_inner_texts()]
    unit = 1e3 if "µs" in page.locator(".tk table thead").inner_text() else 1e6
    shown = {int(row[0]): dict(zip(headings, row, strict=False)) for row in cells}
    for rank in told["run"]["ranks"]:
        own = [row for row in rows if row["rank"] == rank]
        for column in columns:
            mean = sum(row[column] for row in own) / len(own) / unit
            text = shown[rank][column.removesuffix("_ns").replace("_", " ")].replace(",", "")
            assert float(text) == pytest.approx(mean, abs=0.051), (rank, column)
    body = page.inner_text("body")
    assert told["findings"]
    assert all(finding["title"] in body for finding in told["findings"])
    page.close()


def test_an_address_can_be_shared(address, chromium):
    page = chromium.new_page()
    page.goto(f"{address}/pipeline?run=simulated&step=1")
    browser.settled(page, "Pipeline")
    chosen = page.get_by_test_id("stSelectbox").filter(has_text="Step").locator("input")
    assert chosen.input_value() == "1"
    assert "run=simulated" in page.url
    assert "step=1" in page.url
    page.close()


def test_hostile_names_are_text_on_every_page(address, chromium):
    page = chromium.new_page(viewport={"width": 1440, "height": 1000})
    found = browser.troubles(page)
    for title in walked(page, address, "hostile"):
        _harmless(page, title)
        assert page.get_by_test_id("stException").count() == 0, title
        if title == "Kernels":  # it is there, as text
            assert "<img src=x" in " ".join(page.locator(".ytick text").all_text_contents())
    assert not found
    page.close()


def test_hostile_names_are_text_in_the_report(root, chromium, tmp_path):
    assert main(["report", str(root / "hostile"), "-o", str(tmp_path / "report.html")]) == 0
    page = chromium.new_page(viewport={"width": 1000, "height": 1000})
    found = browser.troubles(page)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "report.html").as_uri())
    page.wait_for_selector(".js-plotly-plot")
    for place in page.locator(".figure").all():
        place.scroll_into_view_if_needed()
        page.wait_for_timeout(50)
    drawn = page.locator(".figure .main-svg").count()
    assert drawn >= page.locator(".figure").count() > 5
    _harmless(page, "report")
    assert "<img src=x" in " ".join(page.locator(".ytick text").all_text_contents())
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert not found
    page.close()


def _harmless(page, where):
    assert page.evaluate("window.hacked") is None, where
    assert page.locator('img[src="x"], a[href^="javascript:"], .katex, mjx-container').count() == 0, where
    assert _too_wide(page) <= 0, where


def test_a_run_outside_the_root_is_not_read(address, chromium):
    page = chromium.new_page()
    page.goto(f"{address}/?run=../../etc")
    browser.settled(page, "Overview")
    assert "there is no such run below the root folder" in page.inner_text("body")
    page.close()


TRACES = """() => Array.from(document.querySelectorAll('.js-plotly-plot')).flatMap(plot => plot._fullData.map(
    one => ({type: one.type, name: one.name, x: Array.from(one.x || []), y: Array.from(one.y || []),
             z: Array.from(one.z || [], row => Array.from(row))})))"""


def drawn(page, address, name, title):
    """The traces of all figures of a page, as the browser holds them."""
    page.goto(f"{address}/{name}?run=simulated")
    browser.settled(page, title)
    page.locator(".js-plotly-plot .plot-container").first.wait_for(timeout=60_000)
    page.wait_for_timeout(500)
    return page.evaluate(TRACES)


def test_the_figures_of_each_page_are_the_numbers_of_the_command_line(root, address, chromium, tmp_path):
    """Means over complete steps in nanoseconds against bars and shades, which are in some larger unit."""
    assert main(["analyze", str(root / "simulated"), "--json", str(tmp_path / "told.json")]) == 0
    told = json.loads((tmp_path / "told.json").read_text())
    rows = {name: one["rows"] for name, one in told["measures"].items() if "rows" in one}
    page = chromium.new_page(viewport={"width": 1440, "height": 1000})

    def mean(measure, column, rank):
        mine = [row[column] for row in rows[measure] if row["rank"] == rank]
        return sum(mine) / len(mine)

    def bars(name, title, words, measure, column):
        [found] = [one for one in drawn(page, address, name, title) if one["name"] == words][:1]
        expected = [mean(measure, column, rank) for rank in told["run"]["ranks"]]
        assert found["y"] == proportional(expected), (title, words)

    bars("overlap", "Overlap", "hidden under compute", "overlap", "overlap_ns")
    bars("pipeline", "Pipeline", "busy", "pipeline", "busy_ns")
    bars("host", "Host", "host late", "idle", "host_late_ns")
    own, waits = [one for one in drawn(page, address, "stragglers", "Stragglers") if one["type"] == "heatmap"][:2]
    order = [0, 2, 1, 3]  # by data, then by pipeline
    for found, column in ((own, "own_ns"), (waits, "wait_ns")):
        expected = [row[column] for rank in order for row in rows["ranks"] if row["rank"] == rank]
        assert [value for line in found["z"] for value in line] == proportional(expected), column
    on_device = [row for row in rows["memory"] if row["device"] != "cpu"]
    ranks = told["run"]["ranks"]
    peaks = [max(row["peak_allocated_bytes"] for row in on_device if row["rank"] == rank) for rank in ranks]
    [found] = [one for one in drawn(page, address, "memory", "Memory") if one["name"] == "allocated at the peak"][:1]
    assert found["y"] == proportional(peaks)
    marks = [value for one in drawn(page, address, "communication", "Communication") if one["type"] == "scatter"
             for value in one["y"]]  # fmt: skip
    assert sorted(marks) == pytest.approx(
        sorted(row["busbw_gbs"] for row in rows["bandwidth"] if row["busbw_gbs"] is not None and row["bytes"])
    )
    page.close()


class proportional:
    """Equal to a list that is this one times a power of ten, or of 1,024."""

    def __init__(self, values):
        self.values = values

    def __eq__(self, other):
        factors = [10.0**power for power in range(0, 13, 3)] + [1024.0**power for power in range(5)]
        return any(other == pytest.approx([value / factor for value in self.values], rel=1e-6) for factor in factors)

    def __repr__(self):
        return f"proportional to {self.values}"
