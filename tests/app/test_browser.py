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
