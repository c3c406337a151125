"""Which part of which file is which rank, and which window of it.

A rank is told by the file's own metadata, else by the file's name, else the only file is rank 0; what stays unassigned
is noted with the reason. Several files of one rank that do not overlap in time are windows of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracekit.errors import AmbiguousRanks, Unreadable
from tracekit.model import Note, listed
from tracekit.read.tables import CPU, Identity

_RANK_IN_NAME = (
    re.compile(r"(?:^|[^a-z])(?:global[-_]?|local[-_]?)?rank[-_ =.]?(\d{1,9})(?!\d)", re.IGNORECASE),
    re.compile(r"(?:^|[^a-z])worker[-_ ]?(\d{1,9})(?!\d)", re.IGNORECASE),
    re.compile(r"(?:^|[^a-z0-9])(?:r|gpu|proc|process|profile|device)[-_]?(\d{1,9})(?=[^a-z0-9]|$)", re.IGNORECASE),
)


@dataclass(frozen=True)
class Claim:
    """One part of one file, and what it says about whose it is. `name` is the file's, for people."""

    name: str
    identity: Identity


@dataclass(frozen=True)
class Place:
    """Where a claim landed."""

    rank: int
    window: int


def assign(claims: Sequence[Claim]) -> tuple[dict[int, Place], list[Note]]:
    """The place of each claim, by its index, without those that are no rank's; and what had to be noted.

    Raises AmbiguousRanks where two files are the same rank at the same time, Unreadable where nothing is any rank's.
    """
    notes: list[Note] = []
    on_device = [claim.identity for claim in claims if claim.identity.device != CPU]
    ranks: dict[int, int] = {}
    for index, claim in enumerate(claims):
        rank, told = _rank(claim, on_device, alone=len(claims) == 1)
        notes += told
        if rank is not None:
            ranks[index] = rank
    if not ranks:
        raise Unreadable(
            "; ".join(note.message for note in notes if note.severity == "warning") or "no file is a rank's"
        )
    places = _windows(claims, ranks)
    return places, notes + list(_missing([claims[index] for index in places], ranks))


def _rank(claim: Claim, on_device: Sequence[Identity], *, alone: bool) -> tuple[int | None, list[Note]]:
    """The rank of a part, if it is one's, and the notes on how it was found; `on_device` are those with device work."""
    identity, named = claim.identity, rank_in_name(claim.name)
    helper = bool(on_device) and identity.device == CPU
    if helper and identity.rank is None:
        return None, [_left(claim, "helper-file", "has no device work while other files have, and names no rank")]
    if helper and any(_same_at_once(identity, other) for other in on_device):  # a child process inherits its rank
        return None, [_left(claim, "helper-file", f"has no device work while another file of rank {identity.rank} has")]
    if identity.rank is not None:
        size = identity.world_size
        if identity.rank >= 0 and (not size or identity.rank < size):
            return identity.rank, [_no_device_work(claim)] if helper else []
        wrong = f"{claim.name}: claims to be rank {identity.rank} of {size}"
        if named is None:
            return None, [Note("unassigned-file", "warning", f"{wrong}, and its name tells no other rank")]
        return named, [Note("wrong-rank", "warning", f"{wrong}; rank {named} is taken from its name", named)]
    if named is not None:
        return named, []
    if alone:
        return 0, [Note("assumed-rank", "info", f"{claim.name}: names no rank; the only file is taken as rank 0", 0)]
    return None, [_left(claim, "unassigned-file", "tells its rank neither in its metadata nor in its name")]


def _same_at_once(one: Identity, other: Identity) -> bool:
    return one.rank == other.rank and one.start_ns < other.end_ns and other.start_ns < one.end_ns


def _left(claim: Claim, code: str, reason: str) -> Note:
    return Note(code, "warning" if code == "unassigned-file" else "info", f"{claim.name}: left out, it {reason}")


def _no_device_work(claim: Claim) -> Note:
    return Note("no-device-work", "warning", f"{claim.name}: shows no device work, other ranks do", claim.identity.rank)


def rank_in_name(path: str) -> int | None:
    """The rank that a file's name tells, else the one that its folder's name tells."""
    for part in reversed(path.replace("\\", "/").replace("!", "/").split("/")[-2:]):
        for pattern in _RANK_IN_NAME:
            if found := pattern.search(part):
                return int(found[1])
    return None


def _windows(claims: Sequence[Claim], ranks: dict[int, int]) -> dict[int, Place]:
    """Numbers the parts of each rank by time; parts of different ranks that overlap share the number where they can."""
    spans = sorted((claims[index].identity.start_ns, claims[index].identity.end_ns, index) for index in ranks)
    reach: dict[int, tuple[int, int]] = {}
    windows: dict[int, int] = {}
    window, latest_ns = -1, 0
    for start_ns, end_ns, index in spans:
        rank = ranks[index]
        if rank in reach and start_ns < reach[rank][0]:
            both = f"{claims[reach[rank][1]].name} and {claims[index].name}"
            raise AmbiguousRanks(
                f"{both} both claim to be rank {rank} at the same time: give the files of one job only"
            )
        if window < 0 or start_ns >= latest_ns:
            window += 1
        latest_ns = max(latest_ns, end_ns)
        windows[index] = window
        reach[rank] = (end_ns, index)
    return _numbered(windows, ranks)


def _numbered(windows: dict[int, int], ranks: dict[int, int]) -> dict[int, Place]:
    """Windows common to the run, if no rank has two parts in one and every rank has the first; else each rank's own."""
    taken = {(ranks[index], window) for index, window in windows.items()}
    common = len(taken) == len(windows) and all((rank, 0) in taken for rank in set(ranks.values()))
    own: dict[int, int] = {}
    places = {}
    for index, window in windows.items():
        rank = ranks[index]
        places[index] = Place(rank, window if common else own.get(rank, 0))
        own[rank] = own.get(rank, 0) + 1
    return places


def _missing(claims: Sequence[Claim], ranks: dict[int, int]) -> Iterator[Note]:
    sizes = {claim.identity.world_size for claim in claims if claim.identity.world_size}
    if len(sizes) > 1:
        yield Note("world-size", "warning", f"the files tell different world sizes: {listed(sizes)}")
    absent = set(range(max(sizes, default=0))) - set(ranks.values())
    if absent:
        which = "rank" if len(absent) == 1 else "ranks"
        message = f"no file of {which} {listed(absent)} (world size {max(sizes)}): waits for them cannot be seen"
        yield Note("missing-rank", "warning", message, None, len(absent))
