"""What tracekit stands on: exact versions, licences, and no way for data to become code."""

import ast
import functools
import itertools
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
CODE = ("tracekit", "app", "workloads", "benchmarks")
LOADS = "S102,S202,S301,S302,S307,S506,S602,S604,S605,S701,S704,TID251"
"""ruff's rules on what runs what it reads: code, pickles, YAML's objects, shells, markup, archives' paths."""
RUNS_WHAT_IT_READS = [
    "exec(x)",
    "eval(x)",
    "import builtins; builtins.eval(x)",
    "import builtins; builtins.__import__(x)",
    "import pickle; pickle.loads(x)",
    "import shelve; shelve.open(x)",
    "import pandas; pandas.read_pickle(x)",
    "import cloudpickle; cloudpickle.loads(x)",
    "from joblib import load; load(x)",
    "import torch; torch.load(x)",
    "import marshal; marshal.loads(x)",
    "import yaml; yaml.load(x, Loader=yaml.Loader)",
    "import yaml; yaml.full_load(x)",
    "import yaml; yaml.unsafe_load(x)",
    "import os; os.system(x)",
    "import subprocess; subprocess.run(x, shell=True)",
    "import tarfile; tarfile.open(x).extractall()",
    "import jinja2; jinja2.Environment(autoescape=False)",
    "import markupsafe; markupsafe.Markup(x)",
]


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def canonical(versions):
    """The same with names as all tools spell them."""
    return {canonicalize_name(name): version for name, version in versions}


def pinned():
    """Name and version of every line of constraints.txt that is no comment."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return canonical(line.split("==") for line in lines if line and not line.startswith("#"))


@functools.cache
def brought():
    """Name and version of every distribution that installing all extras brings, as installed here."""
    extras = [wanted for name, wanted in project()["optional-dependencies"].items() if name != "all"]
    left = [(Requirement(one), "") for one in [*project()["dependencies"], *itertools.chain(*extras)]]
    done = set()
    while left:
        wanted, extra = left.pop()
        if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
            new = {(canonicalize_name(wanted.name), asked) for asked in ("", *wanted.extras)} - done
            left += [(Requirement(one), asked) for name, asked in new for one in distribution(name).requires or []]
            done |= new
    return {name: distribution(name).version for name, _ in done}


def ruff(*asked, **options):
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", *asked]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, **options)


def licences(*asked, **environment):
    """What `make licences` lists, for these distributions only, and whether they are allowed."""
    command = [sys.executable, "-m", "piplicenses", "--packages", *asked]
    environment = {**os.environ, **environment}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)


def rows(table):
    """Name and version of each row of a table of licences."""
    return canonical(re.findall(r"^\| (\S+) +\| ([\d.\w]+)\S* +\| \S.* +\|$", table, re.MULTILINE)[1:])


def test_all_extras_are_all_extras():
    extras = project()["optional-dependencies"]
    assert Requirement(extras["all"][0]).extras == set(extras) - {"all"}


def test_what_brings_what_is_followed():
    """jinja2 brings markupsafe, torch sympy and that mpmath, requests is streamlit's, execnet pytest-xdist's."""
    assert {"numpy", "markupsafe", "mpmath", "requests", "execnet"} <= set(brought())


def test_everything_that_installing_brings_is_pinned_to_what_is_installed():
    pins = pinned()
    assert sorted(brought().keys() - pins) == []
    assert {
        name: version for name, version in brought().items() if version not in SpecifierSet(f"=={pins[name]}")
    } == {}
    assert pins["torch"] == "2.13.0"


def test_everything_that_installing_brings_has_a_licence_that_is_allowed():
    told = licences(*brought())
    assert told.returncode == 0, told.stderr
    versions = {name: version.split("+")[0] for name, version in brought().items()}
    assert rows(told.stdout) == versions
    documented = rows((ROOT / "docs" / "licences.md").read_text())
    assert documented | versions == documented


@pytest.mark.parametrize("told", ["License-Expression: GPL-3.0-only\n", "License: Proprietary\n", ""])
def test_another_licence_or_none_is_refused(told, tmp_path):
    folder = tmp_path / "greedy-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: greedy\nVersion: 1.0\n{told}")
    refused = licences("greedy", PYTHONPATH=str(tmp_path))
    assert refused.returncode == 1
    assert "greedy:1.0" in refused.stderr


@pytest.mark.parametrize("folder", CODE)
def test_ruff_refuses_what_runs_what_it_reads(folder):
    asked = ["--output-format", "json", "--stdin-filename", f"{folder}/new.py", "-"]
    told = json.loads(ruff(*asked, input="\n".join(RUNS_WHAT_IT_READS)).stdout)
    refused = {one["location"]["row"] for one in told if re.match(r"S\d|TID", one["code"] or "")}
    assert [line for row, line in enumerate(RUNS_WHAT_IT_READS, 1) if row not in refused] == []


def test_no_line_and_no_file_is_excepted():
    told = ruff("--select", LOADS, "--ignore-noqa", "--config", "lint.per-file-ignores = {}", *CODE)
    assert told.returncode == 0, told.stdout


def test_nothing_is_imported_or_compiled_in_a_way_that_ruff_does_not_know():
    for path in (path for folder in CODE for path in (ROOT / folder).rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        assert not {"__import__", "compile"} & {node.id for node in nodes if isinstance(node, ast.Name)}, path
        assert "allow_pickle" not in {node.arg for node in nodes if isinstance(node, ast.keyword)}, path
