"""One trace a rank and window, for anybody's training loop: `profile(..., on_trace_ready=write_traces("traces"))`.

It needs nothing but PyTorch, so the file may be copied into a job. Names tell rank and step (`rank3_step12.json.gz`); a
file appears when it is complete. PyTorch tells rank, world size and process groups of what was initialised when the
window began; here they are told as they are at its end, and of jobs without `torch.distributed` as well.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import socket
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import torch.distributed as dist
from torch.profiler import profile

_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
HEAD_LIMIT_BYTES = 1 << 26
PIECE_BYTES = 1 << 20


def write_traces(folder: str | os.PathLike[str]) -> Callable[[profile], None]:
    """What to give as `on_trace_ready`: it writes a window that ends after S steps to `FOLDER/rankR_stepS.json.gz`.

    A second one that ends there is `rankR_stepS_2.json.gz`, and so on. A file of that name from an earlier
    process is replaced. What cannot be written is a warning: no training ends for want of a trace.
    """
    written: set[str] = set()

    def write(profiler: profile) -> None:
        name = _name(_rank_and_size()[0], profiler.step_num, written)
        written.add(name)
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            write_trace(profiler, Path(folder) / name)
        except OSError as error:
            warnings.warn(f"no trace {name} in {folder}: {error}", RuntimeWarning, stacklevel=2)

    return write


def write_trace(profiler: profile, path: Path, change: Callable[[Path], None] = lambda _: None) -> None:
    """Writes the window's trace, compressed; `change` may rewrite its plain JSON before. OSError where it cannot.

    PyTorch would compress it itself, but line by line, which takes ten times as long.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(plain))
        change(plain)
        try:
            with plain.open("rb") as source, gzip.open(beside, "wb", compresslevel=5) as sink:
                sink.write(_head(source, profiler))
                shutil.copyfileobj(source, sink, length=PIECE_BYTES)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)


def _name(rank: int, step: int, taken: set[str]) -> str:
    stem, suffix, nth = f"rank{rank}_step{step}", "", 1
    while f"{stem}{suffix}.json.gz" in taken:
        nth += 1
        suffix = f"_{nth}"
    return f"{stem}{suffix}.json.gz"


def _rank_and_size() -> tuple[int, int]:
    """Who this process is: by `torch.distributed`, else by what torchrun tells its processes, else alone."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def _head(source: BinaryIO, profiler: profile) -> bytes:
    """The trace's text up to its first event, more told in it; as it is where it is not understood.

    PyTorch takes metadata while it records only: what is added to a profiler later never gets into its trace.
    """
    text = b""
    while not (events := _EVENTS_KEY.search(text)) and len(text) < HEAD_LIMIT_BYTES:
        if not (piece := source.read(PIECE_BYTES)):
            break
        text += piece
    if not events:
        return text
    try:
        told = json.loads(text[: events.start()] + b'"traceEvents":0}')
    except ValueError:
        return text
    del told["traceEvents"]
    return json.dumps(_completed(told, profiler))[:-1].encode() + b', "traceEvents": [' + text[events.end() :]


def _completed(told: dict[str, Any], profiler: profile) -> dict[str, Any]:
    """The metadata, with the groups as they are now, and with what PyTorch did not tell."""
    rank, size = _rank_and_size()
    now = profiler._get_distributed_info()
    now = json.loads(json.dumps(now, default=int)) if now else {}  # numpy's whole numbers
    alone = {"rank": rank, "world_size": size}
    host = {"host_name": socket.gethostname()}
    return {**host, **told, "distributedInfo": {**alone, **told.get("distributedInfo", {}), **now}}
