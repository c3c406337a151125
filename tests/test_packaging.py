"""What the wheel holds, and that it runs where there is nothing else."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest

from tests.app import browser
from tests.conftest import DATA

ROOT = Path(__file__).parent.parent
PACKAGES = {"tracekit": "tracekit", "app": "tracekit_app", "workloads": "tracekit_workloads"}
"""A folder here, and what the wheel installs it as."""
FIRST_PAGE = """
from streamlit.testing.v1 import AppTest
from tracekit.cli.app import main_file
shown = AppTest.from_file(str(main_file()), default_timeout=100).run()
print([one.value for one in shown.title], [one.message for one in shown.exception])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy: a build leaves folders beside its sources."""
    folder = tmp_path_factory.mktemp("wheel")
    beside = shutil.ignore_patterns(".*", "traces", "build", "dist", "*.egg-info")
    shutil.copytree(ROOT, folder / "sources", ignore=beside)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    subprocess.run([*pip, folder / "sources"], check=True, timeout=120)
    return next(folder.glob("*.whl"))


class Installed:
    """A virtual environment that holds the wheel with the extra `app`, and what these need."""

    def __init__(self, folder: Path, wheel: Path):
        self.programs = folder / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
        pip = [sys.executable, "-m", "pip", "--python", self.programs / "python", "install", "--quiet", "--no-compile"]
        what = ["--constraint", ROOT / "constraints.txt", f"tracekit-torch[app] @ {wheel.as_uri()}"]
        subprocess.run([*pip, *what], env=self.environment, check=True, timeout=600)

    @property
    def environment(self):
        """This process's, without what leads to the checkout."""
        return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def run(self, program, *asked, at):
        command = [self.programs / program, *asked]
        return subprocess.run(
            command, cwd=at, env=self.environment, capture_output=True, text=True, check=False, timeout=120
        )


@pytest.fixture(scope="module")
def installed(wheel):
    with tempfile.TemporaryDirectory() as folder:  # large: pytest would keep three
        yield Installed(Path(folder), wheel)


@pytest.fixture
def job(tmp_path):
    """A folder outside the checkout with the traces of two ranks, of which rank 1 was made slow, over three steps."""
    shutil.copytree(DATA / "ddp", tmp_path / "job")
    return tmp_path / "job"


def test_the_wheel_holds_the_packages_and_nothing_else(wheel):
    modules = {
        f"{to}/{path.relative_to(ROOT / own)}" for own, to in PACKAGES.items() for path in (ROOT / own).rglob("*.py")
    }
    templates = {f"tracekit/report/templates/{name}" for name in ("parts.html", "report.html", "style.css")}
    held = {
        name for name in zipfile.ZipFile(wheel).namelist() if not re.match(r"tracekit_torch-[^/]+\.dist-info/", name)
    }
    assert held == modules | templates | {"tracekit/py.typed"}


def test_neither_torch_nor_the_checkout_is_there(installed, tmp_path):
    find = (
        "import importlib.util as u; print([u.find_spec(name) is None for name in ('torch', 'pytest', 'app', 'tests')])"
    )
    assert installed.run("python", "-c", find, at=tmp_path).stdout.strip() == "[True, True, True, True]"
    where = installed.run("python", "-c", "import tracekit; print(tracekit.__file__)", at=tmp_path).stdout
    assert Path(where).is_relative_to(installed.programs.parent)


def test_it_tells_its_version(installed, tmp_path):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert installed.run("tracekit", "--version", at=tmp_path).stdout == f"tracekit {version}\n"


def test_it_analyses(installed, job):
    told = installed.run("tracekit", "analyze", "job", at=job.parent)
    assert (told.returncode, told.stderr) == (0, "")
    assert "2 files, ranks 0-1 of 2, gloo, cpu, 3 steps" in told.stdout
    assert re.findall(r"^ +([01]) +[\d.,]+ +[\d.,]+ .*", told.stdout, re.MULTILINE) == ["1", "0"], "worst first"


def test_it_explains_every_measure(installed, tmp_path):
    told = installed.run("tracekit", "explain", at=tmp_path)
    assert told.returncode == 0
    measures = {path.stem for path in (ROOT / "tracekit" / "measures").glob("[!_]*.py")}
    assert measures <= set(re.findall(r"^  ([\w-]+) ", told.stdout, re.MULTILINE))


def test_it_checks_a_run_against_itself(installed, job):
    told = installed.run("tracekit", "check", "job", "--baseline", "job", at=job.parent)
    assert told.returncode == 0, told.stderr
    assert "base: 1 run, 3 steps; new: 1 run, 3 steps" in told.stdout


def test_it_serves_its_app(installed, job):
    program = [installed.programs / "tracekit"]
    with browser.served(job.parent, program, cwd=job.parent, env=installed.environment) as address:
        assert urllib.request.urlopen(f"{address}/_stcore/health", timeout=10).read() == b"ok"
        assert b"<title>" in urllib.request.urlopen(address, timeout=10).read()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=10)


def test_the_apps_first_page_is_drawn(installed, job):
    told = installed.run("python", "-c", FIRST_PAGE, at=job.parent)
    assert told.stdout == "['Overview'] []\n", told.stderr
