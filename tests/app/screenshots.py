"""The README's two screenshots: python -m tests.app.screenshots [FOLDER] (default docs)."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.app import browser
from tracekit.simulate import simulate
from tracekit.simulate.job import job_of

JOB = {
    "model": {"layers": 8, "hidden": 1024, "heads": 16, "sequence": 1024, "vocabulary": 32000},
    "layout": {"data": 2, "pipeline": 4, "microbatches": 8}, "steps": 3, "faults": ["slow_device:3:1.3"],
    "noise": {"compute": 0.02, "transfer": 0.05, "ends_us": 2},
}  # fmt: skip
PAGES = {"Overview": "overview.png", "Timeline": "timeline.png"}


def taken(into: Path) -> list[Path]:
    """Simulates a job, shows it in the app, and takes the screenshots."""
    into.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as root:
        simulate(job_of(JOB, "the job"), Path(root, "dp2-pp4"))
        with browser.served(root) as address, browser.chromium() as chromium:
            page = chromium.new_page(viewport={"width": 1360, "height": 900})
            return [_taken(page, address, title, into / name) for title, name in PAGES.items()]


def _taken(page, address: str, title: str, file: Path) -> Path:
    page.goto(f"{address}/{'' if title == 'Overview' else title.lower()}?run=dp2-pp4")
    browser.settled(page, title)
    page.locator(".js-plotly-plot").first.wait_for()
    page.wait_for_timeout(1500)
    page.screenshot(path=file)
    return file


if __name__ == "__main__":
    for file in taken(Path(sys.argv[1] if len(sys.argv) > 1 else "docs")):
        sys.stdout.write(f"{file}: {file.stat().st_size:,} bytes\n")
