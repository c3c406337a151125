"""Which workloads there are: every file of this folder that defines `build`."""

from __future__ import annotations

import ast
from pathlib import Path


def workloads() -> dict[str, str]:
    """Name of each workload and its first line, found without importing any (an import costs seconds of torch)."""
    return {
        path.stem: title for path in sorted(Path(__file__).parent.glob("*.py")) if (title := _title(path)) is not None
    }


def title(name: str) -> str:
    """The first line of one workload."""
    return _title(Path(__file__).with_name(f"{name}.py")) or name


def _title(path: Path) -> str | None:
    module = ast.parse(path.read_text(encoding="utf-8"))
    builds = any(isinstance(node, ast.FunctionDef) and node.name == "build" for node in module.body)
    return (ast.get_docstring(module) or path.stem).splitlines()[0] if builds else None
