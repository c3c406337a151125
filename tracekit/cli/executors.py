"""Where work runs that `--executor` names."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from tracekit.errors import WrongUse

DASK = "dask://"
PATIENCE_S = 10
RETRIES = 3
"""A task whose worker was lost is given to others so often."""


@contextmanager
def executor(spelled: str) -> Iterator[Executor | None]:
    """The executor that `dask://HOST:PORT` names, as long as it is used; None for none.

    WrongUse for what is no such address, where nobody answers there, and where the extra `dask` is not installed.
    """
    if not spelled:
        yield None
        return
    address = spelled.removeprefix(DASK)
    if not spelled.startswith(DASK) or ":" not in address:
        raise WrongUse(f"--executor takes dask://HOST:PORT, a Dask cluster's scheduler, not {spelled!r}")
    try:
        import distributed
    except ImportError:
        raise WrongUse("--executor dask:// needs Dask, which is missing: pip install 'tracekit-torch[dask]'") from None
    new_client: Any = distributed.Client  # it has no types
    try:
        client = new_client(f"tcp://{address}", timeout=PATIENCE_S)
    except (OSError, ValueError) as why:
        raise WrongUse(f"--executor {spelled}: no Dask scheduler answers there ({why})") from None
    with client:
        yield client.get_executor(pure=False, retries=RETRIES)
