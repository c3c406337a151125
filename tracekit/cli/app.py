"""`tracekit app`: the analysis in a browser."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from tracekit.errors import WrongUse

PLACES = ("app", "tracekit_app")
"""The application's folder beside this package, in a checkout and as the wheel installs it."""
ROOT, CHOSEN = "TRACEKIT_APP_ROOT", "TRACEKIT_APP_RUN"
UPLOAD_MB = 2048


def app(
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="A folder or archive below the root to open first.")] = "",
    root: Annotated[str, typer.Option("--root", metavar="DIR", help="Runs are found below it (default: here).")] = "",
    port: Annotated[int, typer.Option("--port", help="On 127.0.0.1.")] = 8501,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
) -> int:
    """Show runs in a browser: an application on 127.0.0.1 that reads what lies below one folder."""
    below, chosen = places(run, root)
    command = [
        sys.executable, "-m", "streamlit", "run", str(main_file()), "--server.address", "127.0.0.1",
        "--server.port", str(port), "--server.headless", str(not browser).lower(), "--server.fileWatcherType", "none",
        "--server.maxUploadSize", str(UPLOAD_MB), "--browser.gatherUsageStats", "false",
        "--client.toolbarMode", "minimal", "--client.showErrorDetails", "none",
        "--theme.light.primaryColor", "#0072B2", "--theme.dark.primaryColor", "#56B4E9",
    ]  # fmt: skip
    return carried_out(command, {**os.environ, ROOT: str(below), CHOSEN: chosen})


def carried_out(command: list[str], environment: dict[str, str]) -> int:
    """Runs the server: in place of this process where that can be, so that a signal that ends it ends both."""
    if os.name == "posix":
        os.execve(command[0], command, environment)
    try:
        return subprocess.run(command, env=environment, check=False).returncode
    except KeyboardInterrupt:
        return 0


def places(run: str, root: str) -> tuple[Path, str]:
    """The root folder, and the run's name below it; WrongUse where there is no such thing, or it lies elsewhere.

    Without `--root` the root is the current folder, or for a run that lies elsewhere the folder that holds it.
    """
    path = Path(run).resolve() if run else None
    if path is not None and not path.exists():
        raise WrongUse(f"{run}: no such file or folder")
    below = Path(root or ".").resolve()
    if not below.is_dir():
        raise WrongUse(f"--root {root}: no such folder")
    if path is not None and not root and below not in (path, *path.parents):
        below = path.parent
    if path is None:
        return below, ""
    if below not in (path, *path.parents):
        raise WrongUse(f"{run} does not lie below --root {root}")
    return below, path.relative_to(below).as_posix()


def main_file() -> Path:
    """The application's file; WrongUse where it or streamlit is missing."""
    if find_spec("streamlit") is None:
        raise WrongUse("the app needs streamlit, which is missing: pip install 'tracekit-torch[app]'")
    beside = Path(__file__).resolve().parents[2]
    for name in PLACES:
        if (beside / name / "views").is_dir() and (beside / name / "main.py").is_file():
            return beside / name / "main.py"
    raise WrongUse("this installation lacks the app")
