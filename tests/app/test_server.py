"""The running app, asked for what lies outside its root: by raw requests, and by pages in a browser."""

import http.client
from urllib.parse import quote, urlsplit

import pytest

pytest.importorskip("streamlit", reason="the extra 'app' is not installed")

from tests import lanes
from tests.app import browser

OUTSIDE = "kernel_of_a_secret_run"
DRAWING = "step 000000\n0/7 CCCC.. name={}\n0/20 ..NN.. op=all_reduce\n1/7 CCC... name={}\n1/20 ...N.. op=all_reduce"


@pytest.fixture(scope="module")
def below(tmp_path_factory):
    """A root with a good run, links that lead out as a folder, as a file and by way of another folder, and no more."""
    top = tmp_path_factory.mktemp("top")
    for name in ("root/good", "root/member", "root/way", "root/by_way", "root/perf", "secret"):
        (top / name).mkdir(parents=True)
    lanes.kineto(DRAWING.format("kernel", "kernel"), top / "root" / "good")
    secret = lanes.kineto(DRAWING.format(OUTSIDE, OUTSIDE), top / "secret")
    (top / "root" / "folder").symlink_to(top / "secret")
    (top / "root" / "member" / "rank0.json").symlink_to(secret[0])
    (top / "root" / "way" / "rank0.json").symlink_to(secret[0])
    (top / "root" / "by_way" / "way").symlink_to(top / "root" / "way")
    (top / "secret" / "a.summary.json").write_text('{"schema": 1}')
    return top / "root"


@pytest.fixture(scope="module")
def address(below):
    with browser.served(below) as told:
        yield told


UP = [
    "../../secret",
    "..%2f..%2fsecret",
    "%2e%2e/%2e%2e/secret",
    "%252e%252e%252fsecret",
    "..\\..\\secret",
    "..%5csecret",
]
PLACES = ["", "static/", "app/static/", "media/", "component/x/", "_stcore/", "_stcore/upload_file/", "vendor/"]


@pytest.mark.parametrize("place", PLACES)
def test_no_request_is_answered_with_a_file_from_outside(address, below, place):
    [first, *_] = sorted(one.name for one in (below.parent / "secret").iterdir() if one.name.startswith("rank"))
    asked = [f"/{place}{up}/{first}" for up in UP]
    asked += [f"/{place}{'../' * 12}etc/passwd", f"/{place}{'..%2f' * 12}etc%2fpasswd", f"/{place}/etc/passwd"]
    asked += [f"/{place}{below}/good/{first}", f"/{place}file:///etc/passwd", f"/{place}%00", f"/{place}folder/{first}"]
    for path in asked:
        body = answer(address, path)
        assert OUTSIDE.encode() not in body, path
        assert b"traceEvents" not in body, path
        assert b"root:" not in body, path


def answer(address, path):
    """The body of the answer to a path exactly as it is spelled."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
    connection.putrequest("GET", path, skip_host=False)
    connection.endheaders()
    body = connection.getresponse().read()
    connection.close()
    return body


@pytest.fixture(scope="module")
def chromium():
    pytest.importorskip("playwright", reason="playwright is not installed")
    with browser.chromium() as started:
        yield started


NONE, OUT = "there is no such run below the root folder", "a link in this run leads out of the root folder"
ASKED = {
    "../secret": NONE, "{outside}": NONE, "%252e%252e%252fsecret": NONE, "file://{outside}": NONE,
    "simplecache::file://{outside}": NONE, "good\0": NONE, "no\nsuch": NONE, "y" * 3000: NONE,
    "folder": NONE, "member": OUT, "by_way": OUT,
}  # fmt: skip


@pytest.mark.parametrize("asked", ASKED)
def test_a_page_of_a_run_outside_is_a_sentence(address, below, chromium, asked):
    run = asked.replace("{outside}", str(below.parent / "secret"))
    page = chromium.new_page()
    page.goto(f"{address}/kernels?run={quote(run, safe='')}")
    browser.settled(page, "Kernels")
    _nothing_told(page)
    assert ASKED[asked] in page.inner_text("body")
    page.close()


def test_a_second_run_and_a_history_are_of_the_root_too(address, below, chromium):
    for where in ("../secret", "member", str(below.parent / "secret"), "file:///etc"):
        for path, title in (("compare?run=good&base", "Compare"), ("history?history", "History")):
            page = chromium.new_page()
            page.goto(f"{address}/{path}={quote(where, safe='')}")
            browser.settled(page, title)
            _nothing_told(page)
            page.close()


def _nothing_told(page):
    assert page.get_by_test_id("stException").count() == 0
    plots = "Array.from(document.querySelectorAll('.js-plotly-plot'))"
    drawn = page.evaluate(f"{plots}.map(one => JSON.stringify(one.data))")
    assert OUTSIDE not in page.content() + "".join(drawn)


def test_a_page_shows_the_kernels_of_a_run_inside(address, chromium):
    """So that the tests above could fail."""
    page = chromium.new_page()
    page.goto(f"{address}/kernels?run=good")
    browser.settled(page, "Kernels")
    page.locator(".ytick text", has_text="kernel").first.wait_for(timeout=60_000)
    page.close()
