"""What the wheel holds."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_package_is_listed_and_every_listed_one_is_there():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    there = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "tracekit").rglob("__init__.py")}
    assert sorted(listed) == sorted([*there, "tracekit_app", "tracekit_app.views", "tracekit_workloads"])


def test_every_installed_library_has_an_exact_version():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    assert all("==" in line for line in lines if line and not line.startswith("#"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {one.split(">=")[0].split("[")[0].lower().replace("_", "-") for one in wanted}
    assert names - {"tracekit-torch"} <= pinned
