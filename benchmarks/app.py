"""How quick the app is: python -m benchmarks.app [--steps 97]

A simulated run of 8 ranks and about a million events, read once, then looked at by a real browser: the first page of a
new session, another page, another window of the timeline, and the bytes that the server sends for each.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.app import browser
from tracekit.simulate import simulate
from tracekit.simulate.job import job_of

JOB = {
    "model": {"layers": 8, "hidden": 1024, "heads": 16, "sequence": 1024, "vocabulary": 32000},
    "layout": {"data": 2, "pipeline": 4, "microbatches": 8},
    "noise": {"compute": 0.02, "transfer": 0.05},
}
READY = browser.READY
DRAWN = "() => [...document.querySelectorAll('.stPlotlyChart')].every(one => one.querySelector('.main-svg'))"
PAGES = ("Overlap", "Communication", "Pipeline", "Stragglers", "What if", "Memory", "Host", "Kernels", "Timeline")


class Looked:
    """A page and how many bytes came to it."""

    def __init__(self, chromium) -> None:
        self.page = chromium.new_page(viewport={"width": 1440, "height": 1000})
        self.received = 0
        self.page.on("websocket", lambda one: one.on("framereceived", self._count))

    def _count(self, frame) -> None:
        self.received += len(frame)

    def timed(self, what: str, act, ready) -> None:
        """Does something and prints how long it takes until the page shows it."""
        before, start = self.received, time.perf_counter()
        act()
        ready()
        seconds = time.perf_counter() - start
        print(f"{what:<40} {seconds:6.2f} s  {(self.received - before) / 1e6:6.2f} MB", flush=True)

    def shows(self, title: str) -> None:
        """Waits until the page of this title stands, nothing runs and every chart is drawn."""
        self.page.locator("h1", has_text=title).wait_for(timeout=900_000)
        self.page.wait_for_timeout(50)
        self.page.locator(READY).wait_for(state="attached", timeout=900_000)
        self.page.wait_for_function(DRAWN, timeout=900_000)


def main() -> None:
    """Runs it and prints a line per action."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=97)
    steps = parser.parse_args().steps
    with TemporaryDirectory() as root:
        done = simulate(job_of({**JOB, "steps": steps}, "the job"), Path(root, "run"))
        print(f"{done.files} ranks, {done.events:,} events", flush=True)
        with browser.served(root) as address, browser.chromium() as chromium:
            looked(chromium, address)


def looked(chromium, address: str) -> None:
    """The actions in turn."""
    first = Looked(chromium)
    go = lambda one: one.page.goto(f"{address}/?run=run")  # noqa: E731
    first.timed("read for the first time, and diagnosed", lambda: go(first), lambda: first.shows("Overview"))
    first.page.close()
    again = Looked(chromium)
    again.timed("first page of a new session", lambda: go(again), lambda: again.shows("Overview"))
    for turn in ("first", "again"):
        for title in PAGES:
            link = again.page.get_by_test_id("stSidebarNav").get_by_role("link", name=title, exact=True)
            again.timed(f"to {title} ({turn})", link.click, partial(again.shows, title))
    field = again.page.get_by_test_id("stNumberInput").nth(1).locator("input")
    for to_ms in ("40", "20", "400"):
        field.fill(to_ms)
        shown = partial(window_is, again, to_ms)
        again.timed(f"the timeline's window to {to_ms} ms", partial(field.press, "Enter"), shown)


def window_is(looked_at: Looked, to_ms: str) -> None:
    """Waits until the timeline's axis ends there."""
    looked_at.page.wait_for_function(
        "to => Math.abs(document.querySelector('.js-plotly-plot')?._fullLayout?.xaxis?.range[1] - to) < 0.01",
        arg=float(to_ms),
        timeout=120_000,
    )


if __name__ == "__main__":
    main()
