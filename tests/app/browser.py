"""A real browser, and the running app in it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
READY = '[data-test-script-state="notRunning"]'


def executable():
    """The browser's file; where there is none the test is skipped, but in CI it fails."""
    found = os.environ.get("TRACEKIT_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        reason = "no chromium: apt-get install chromium, or set TRACEKIT_CHROMIUM"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return found


def screenshots():
    """The folder for pictures of pages."""
    folder = Path(os.environ.get("TRACEKIT_SCREENSHOTS") or Path(__file__).parents[2] / "build" / "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def chromium():
    """A headless browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        yield browser
        browser.close()


@contextlib.contextmanager
def served(root, program=(sys.executable, "-m", "tracekit"), **options):
    """The address of the app over a root folder, as `tracekit app` starts it."""
    port = _free_port()
    command = [*program, "app", "--root", str(root), "--no-browser", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        address = f"http://127.0.0.1:{port}"
        _wait(address, process)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def _free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _wait(address, process):
    for _ in range(240):
        assert process.poll() is None, "the app ended"
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{address}/_stcore/health", timeout=2).read()
            return
        time.sleep(0.25)
    raise AssertionError("the app does not answer")


def settled(page, title):
    """Waits until the page of this title is there and the app has nothing left to do."""
    page.locator("h1", has_text=title).wait_for(timeout=120_000)
    for _ in range(3):  # a rerun may follow at once
        page.locator(READY).wait_for(state="attached", timeout=120_000)
        page.wait_for_timeout(250)


def troubles(page):
    """The list into which errors of a page go from now on."""
    found = []
    page.on("console", lambda message: found.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    return found
