"""What a person does in the running app: draws a box, uploads, cancels, opens a shared address, dims the light."""

from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("streamlit", reason="the extra 'app' is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from tests.app import browser, made
from tests.app.test_views import ORDER
from tracekit.read.load import load
from tracekit.simulate import simulate

WIDE = {"width": 1440, "height": 1000}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    below = tmp_path_factory.mktemp("root")
    (below / "simulated").mkdir()
    made.folder_of("simulated", below / "simulated")
    (below / "many").mkdir()
    simulate(made.job(data=24), below / "many")  # so many that reading can be cancelled before all are read
    return below


@pytest.fixture(scope="module")
def address(root):
    with browser.served(root) as told:
        yield told


@pytest.fixture(scope="module")
def chromium():
    with browser.chromium() as started:
        yield started


@pytest.fixture
def page(chromium):
    page = chromium.new_page(viewport=WIDE)
    yield page
    page.close()


def window_of(page):
    return tuple(
        float(page.get_by_test_id("stNumberInput").filter(has_text=name).locator("input").input_value())
        for name in ("From, ms", "To, ms")
    )


def plot(page):
    """The place of the timeline's plotting area."""
    page.locator(".js-plotly-plot .nsewdrag").first.scroll_into_view_if_needed()
    return page.locator(".js-plotly-plot .nsewdrag").first.bounding_box()


def test_a_box_that_is_drawn_is_the_next_window(address, page):
    page.goto(f"{address}/timeline?run=simulated")
    browser.settled(page, "Timeline")
    start, end = window_of(page)
    area = plot(page)
    middle = area["y"] + area["height"] / 2
    page.locator(".js-plotly-plot").first.hover()
    page.locator('.modebar-btn[data-val="select"]').first.click()
    page.mouse.move(area["x"] + area["width"] * 0.25, middle - 20)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] * 0.5, middle + 20, steps=8)
    page.mouse.up()
    page.wait_for_timeout(1500)
    browser.settled(page, "Timeline")
    from_ms, to_ms = window_of(page)
    whole = end - start
    assert start + 0.15 * whole < from_ms < start + 0.35 * whole
    assert start + 0.4 * whole < to_ms < start + 0.6 * whole
    asked = parse_qs(urlsplit(page.url).query)
    assert float(asked["from"][0]) == pytest.approx(from_ms, rel=1e-3)
    assert asked["run"] == ["simulated"]


CALL = """() => {
    const plot = document.querySelector('.js-plotly-plot'), axes = plot._fullLayout, all = plot._fullData;
    const trace = all.find(one => one.name === 'comm');
    const matched = Array.from(trace.x, (length, at) => trace.customdata[at][1] === '-1' ? 0 : length);
    const nth = matched.indexOf(Math.max(...matched));
    const area = plot.querySelector('.nsewdrag').getBoundingClientRect();
    return {x: area.x + axes.xaxis.l2p(trace.base[nth] + trace.x[nth] / 2), y: area.y + axes.yaxis.l2p(trace.y[nth]),
            match: trace.customdata[nth][1]};
}"""
"""Where the middle of the longest matched call is drawn."""


def test_a_call_that_is_clicked_shows_its_members(root, address, page):
    page.goto(f"{address}/timeline?run=simulated")
    browser.settled(page, "Timeline")
    plot(page)
    place = page.evaluate(CALL)
    page.mouse.move(place["x"], place["y"])
    page.wait_for_timeout(300)
    page.mouse.click(place["x"], place["y"])
    page.get_by_text("The members of this call").wait_for(timeout=20_000)
    browser.settled(page, "Timeline")
    calls = load(root / "simulated", cache=False).calls
    members = calls[calls["match"] == int(place["match"])]
    rows = [line.split() for line in page.locator(".tk table tbody tr").all_inner_texts()]
    assert sorted(int(row[0]) for row in rows) == sorted(members["rank"])


def test_uploaded_traces_are_a_run(root, address, page):
    page.goto(f"{address}/?run=simulated")
    browser.settled(page, "Overview")
    page.get_by_text("Upload traces").click()
    traces = sorted(str(one) for one in (root / "simulated").glob("rank*"))
    page.locator('[data-testid="stFileUploader"] input[type="file"]').set_input_files(traces)
    page.wait_for_url("**run=uploaded**", timeout=60_000)
    browser.settled(page, "Overview")
    assert parse_qs(urlsplit(page.url).query)["run"] == ["uploaded files"]
    rows = page.locator(".tk table tbody tr").all_inner_texts()
    assert len([row for row in rows if row.split()[0].isdecimal()]) == len(traces)


def test_reading_can_be_cancelled_and_gone_on_with(address, page):
    page.goto(f"{address}/?run=many")
    page.get_by_role("button", name="Cancel").click(timeout=60_000)
    page.get_by_text("This was cancelled.").wait_for(timeout=60_000)
    page.get_by_role("button", name="Go on").click()
    page.get_by_text("24 files, ranks 0-23 of 24").wait_for(timeout=120_000)


def test_a_page_is_reached_by_its_address_without_an_error(address, page):
    found, missing = browser.troubles(page), []
    probed = ("/stragglers/_stcore/health", "/stragglers/_stcore/host-config")  # by streamlit, which then tries above
    page.on(
        "response",
        lambda answer: missing.append(answer.url) if answer.status >= 400 and not answer.url.endswith(probed) else None,
    )
    page.goto(f"{address}/stragglers?run=simulated")
    browser.settled(page, "Stragglers")
    assert missing == []
    assert [one for one in found if "404" not in one] == []


def test_dark_pages_are_dark_and_their_words_light(address, chromium):
    page = chromium.new_page(viewport=WIDE, color_scheme="dark")
    found = browser.troubles(page)
    page.goto(f"{address}/?run=simulated")
    for title in ORDER:
        if title != ORDER[0]:
            page.get_by_test_id("stSidebarNav").get_by_role("link", name=title, exact=True).click()
        browser.settled(page, title)
        assert brightness(page, '[data-testid="stApp"]', "backgroundColor") < 60, title
        for place in ("h1", ".tk td", ".tk-absent", ".xtitle", ".ytick text"):
            if page.locator(place).count():
                kind = "fill" if place in (".xtitle", ".ytick text") else "color"
                assert brightness(page, place, kind) > 120, (title, place)
        page.screenshot(path=browser.screenshots() / f"{title.lower().replace(' ', '-')}-dark.png")
    assert not found
    page.close()


def brightness(page, place, kind):
    """How light a colour of the first such place is, 0 to 255."""
    colour = page.evaluate(
        "([place, kind]) => getComputedStyle(document.querySelector(place))[kind].match(/[0-9.]+/g).map(Number)",
        [place, kind],
    )
    return sum(colour[:3]) / 3
