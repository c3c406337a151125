"""Jobs of several steps, each drawn by itself, and what a rule finds in them."""

from __future__ import annotations

from types import ModuleType

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.model import Finding


def job(*steps: str) -> str:
    """One drawing of steps that follow each other; each has the same lanes, and launches named from `a` on."""
    lines: dict[int, list[str]] = {}
    shift, rulers = 0, ""
    for number, drawing in enumerate(steps):
        used, longest = 0, 0
        for nth, text in enumerate(line for line in drawing.splitlines() if line.strip()):
            label, cells, *options = text.split()
            on_thread = label.split("/")[1].isalpha()
            used = max([used, *(ord(cell) - ord("a") + 1 for cell in cells if on_thread and cell.islower())])
            longest = max(longest, len(cells))
            held = lines.setdefault(nth, [label, "", ""])
            assert held[0] == label
            assert len(cells) == longest, drawing
            held[1] += _shifted(cells, shift) if on_thread else cells
            by = [option[3:] for option in options if option.startswith("by=")]
            others = [option for option in options if not option.startswith("by=")]
            held[2] += _shifted(by[0], shift) if by else ""
            held[3:] = others
        rulers += str(number) * longest
        shift += used
    drawn = [f"step {rulers}"]
    for label, cells, by, *others in lines.values():
        drawn.append(" ".join([label, cells, *([f"by={by}"] if by else []), *others]))
    return "\n".join(drawn)


def _shifted(cells: str, by: int) -> str:
    return "".join(chr(ord(cell) + by) if cell.islower() else cell for cell in cells)


def analysis(drawing: str) -> Analysis:
    return Analysis(lanes.run(drawing))


def found(rule: ModuleType, drawing: str) -> list[Finding]:
    """What the rule finds in a drawing."""
    return list(rule.check(analysis(drawing)))


HEALTHY = """
    {0}/main abSSSSSSSSSS
    {0}/7    .CCCCcccc...  by=aa
    {0}/20   .........NN.  by=b
"""
"""A rank of a step of 11 us: 8 us of compute, launched at once, and 2 us of transfer; the host waits for the device."""
WAITING = """
    {0}/main abSSSSSSSSSSSSSS
    {0}/7    .CCCCcccc.......  by=aa
    {0}/20   .........NNNNNN.  by=b
"""
"""The same rank where another one needs 4 us longer."""
LATE = """
    {0}/main {1}
    {0}/7    .CCCC....cccc...  by=ab
    {0}/20   .............NN.  by=c
"""
"""That rank: from 5 us on its device has nothing to do until something is launched, 1 us before 9 us."""


def healthy(ranks: int = 3) -> str:
    """A step in which all ranks do the same."""
    return "".join(HEALTHY.format(rank) for rank in range(ranks))


def late(host: str, rank: int = 2, ranks: int = 3) -> str:
    """A step in which one rank is late, for what its host does: 3 us of idling because of it, and 1 us of latency."""
    return "".join(LATE.format(one, host) if one == rank else WAITING.format(one) for one in range(ranks))


LOADING, COLLECTING = "aDDDDDDDbcSSSSSS", "aGGGGGGGbcSSSSSS"
LAUNCHING, SYNCHRONIZING = "a.......bcSSSSSS", "aSSSSS..bcSSSSSS"


def all_late(host: str, ranks: int = 3) -> str:
    """A step in which all ranks are late for the same reason."""
    return "".join(LATE.format(rank, host) for rank in range(ranks))


def long(step: str, times: int = 100) -> str:
    """The step with its compute and its calls' ends so many times as long, so that all else is little beside it."""
    lines = [line for line in step.splitlines() if line.strip()]
    whole = max(len(line.split()[1]) for line in lines) + 8 * (times - 1)
    return "\n".join(_long(line, times, whole) for line in lines)


def _long(line: str, times: int, whole: int) -> str:
    label, cells, *options = line.split()
    more = 8 * (times - 1)
    if "C" in cells:
        cells = cells.replace("CCCC", "C" * 4 * times).replace("cccc", "c" * 4 * times)
    elif label.endswith("/20"):
        cells = "." * more + cells
    else:
        cells = cells[:-1] + cells[-1] * (more + 1)
    assert len(cells) == whole
    return " ".join([label, cells, *options])


SLOW = """
    {0}/main abSSSSSSSSSSSSSS
    {0}/7    .{1}{2}{3}  by=aa
    {0}/20   {4}  by=b
"""


def slow(rank: int, first: int = 6, second: int = 6, ranks: int = 3) -> str:
    """A step in which a rank's two kernels take so many microseconds, those of the others 4 each."""
    end = 1 + first + second
    mine = SLOW.format(rank, "C" * first, "c" * second, "." * (16 - end), "." * end + "NN" + "." * (14 - end))
    theirs = SLOW.format("{0}", "CCCC", "cccc", "." * 7, ("." * 9 + "N" * (end - 7)).ljust(16, "."))
    return "".join(mine if one == rank else theirs.format(one) for one in range(ranks))


HELD = """
    {0}/main abSSSSSSSSSSSSSS
    {0}/7    .CCCCcccc.......  by=aa
    {0}/20   .............NN.  by=b
"""


def held(rank: int = 2, ranks: int = 3) -> str:
    """A step in which a rank's transfer begins 4 us later than its compute is over, and nothing tells why."""
    return "".join((HELD if one == rank else WAITING).format(one) for one in range(ranks))
