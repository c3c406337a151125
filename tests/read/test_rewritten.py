"""Traces that other tools have rewritten: the same account as of the traces that the profiler wrote.

What a text's layout does to single events stands in `test_text`, of single fields in `test_kineto` and `test_times`;
here whole jobs are rewritten, in all the ways at once that a kind of tool does.
"""

import gzip
import json
import re
from collections import defaultdict
from decimal import Decimal
from functools import cache

import pytest

from tests.conftest import DATA
from tracekit import Analysis, load
from tracekit.errors import NotMeasured
from tracekit.export.perfetto import write_perfetto
from tracekit.simulate import simulate
from tracekit.simulate.job import job_of

ON_DEVICES = {
    "model": {"preset": "gpt2-small", "layers": 4},
    "layout": {"axes": "dp 2 x pp 2", "microbatches": 4},
    "steps": 3,
}
JOBS = ("ddp", "pipeline", "on devices")


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """Folders of jobs: two of gloo on CPUs, and a simulated one on devices."""
    folder = tmp_path_factory.mktemp("simulated")
    simulate(job_of(ON_DEVICES), folder)
    return {"ddp": DATA / "ddp", "pipeline": DATA / "pipeline", "on devices": folder}


@pytest.fixture(params=JOBS)
def job(request, jobs):
    return jobs[request.param]


@cache
def account(folder):
    """All that is told of a job, with the absolute time of everything."""
    run = load(folder, cache=False)
    analysis = Analysis(run)
    return {
        "ranks": run.ranks[["rank", "window", "device", "dropped"]].values.tolist(),
        "steps": run.steps.values.tolist(),
        "calls": sorted(run.calls.drop(columns=["match", "lane"]).astype(str).values.tolist()),
        "lanes": sorted(run.calls["lane"]),
        "matched": int(run.calls["match"].nunique()),
        "breakdown": analysis["breakdown"].values.tolist(),
        "idle": idle(analysis),
        "memory": [run.rank(rank).allocations.values.tolist() for rank in sorted(run.ranks["rank"])],
        "warnings": run.notes.loc[run.notes["severity"] == "warning", ["code", "rank"]].astype(str).values.tolist(),
    }


def idle(analysis):
    """By cause; none on CPUs."""
    try:
        return analysis["idle"].astype(str).values.tolist()
    except NotMeasured:
        return []


def read(file):
    """A trace; decimals as they stand there."""
    return json.loads(gzip.decompress(file.read_bytes()), parse_float=Decimal)


def text_of(value, **how):
    """JSON, with all decimals of each number."""
    text = json.dumps(value, default=lambda number: f"decimal {number}", **how)
    return re.sub(r'"decimal ([^"]+)"', r"\1", text)


def rewritten(job, folder, rewrite):
    """The job's files, rewritten one by one; `rewrite` gives text or what JSON makes text of."""
    for file in sorted(job.glob("rank*.json.gz")):
        told = rewrite(read(file))
        text = told if isinstance(told, str) else text_of(told)
        (folder / file.name.removesuffix(".gz")).write_text(text, newline="")
    return folder


def of_each(change):
    """A rewriting of each event."""
    return lambda trace: {**trace, "traceEvents": [change(event) for event in trace["traceEvents"]]}


def sorted_by_time(trace):
    return {**trace, "traceEvents": sorted(trace["traceEvents"], key=lambda event: event.get("ts", 0))}


def backwards(trace):
    return {**trace, "traceEvents": sorted_by_time(trace)["traceEvents"][::-1]}


def keys_sorted(trace):
    return text_of(trace, sort_keys=True)


def escaped_for_html(trace):
    """As encoders do that fear for web pages: `<` and its like, and slashes."""
    text = re.sub("[<>&=']", lambda found: f"\\u{ord(found[0]):04x}", text_of(trace))
    return text.replace("/", "\\/")


def by_a_pretty_printer(trace):
    """As an editor on Windows saves it."""
    return "\ufeff" + text_of(backwards(trace), indent=2, sort_keys=True).replace("\n", "\r\n")


def times_as_text(event):
    return {**event, **{key: str(event[key]) for key in ("ts", "dur") if key in event}}


def of_absolute_time(trace):
    """Microseconds since 1970, with all decimals; no base."""
    base = Decimal(trace["baseTimeNanoseconds"]) / 1000

    def moved(event):
        return {**event, "ts": event["ts"] + base} if "ts" in event else event

    return {key: value for key, value in of_each(moved)(trace).items() if key != "baseTimeNanoseconds"}


def numbers_as_floats(event):
    """As a table of floats, pandas say, gives them back: whole numbers, too, have a decimal point."""
    args = event.get("args", {})
    floats = {key: float(value) for key, value in args.items() if type(value) is int and abs(value) < 2**53}
    times = {key: float(event[key]) for key in ("ts", "dur", "pid", "tid") if not isinstance(event.get(key, ""), str)}
    return {**event, **times, **({"args": {**args, **floats}} if args else {})}


def ids_as_hexadecimal(event):
    ids = ("correlation", "External id", "id")
    args = {key: hex(value) if key in ids else value for key, value in event.get("args", {}).items()}
    return {**event, **({"id": hex(event["id"])} if "id" in event else {}), **({"args": args} if args else {})}


def ids_of_the_host_as_hexadecimal(event):
    return ids_as_hexadecimal(event) if event.get("cat") == "cuda_runtime" else event


def processes_as_text(event):
    return {**event, **{key: str(event[key]) for key in ("pid", "tid") if key in event}}


def as_halves(trace):
    """Begins and ends instead of spans, but for those that cross others of their thread."""
    by_thread = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            by_thread[event["pid"], event["tid"]].append(event)
    halves = [half for spans in by_thread.values() for half in _halves(spans)]
    assert sum(half["ph"] == "B" for half in halves) > 500
    return {**trace, "traceEvents": [event for event in trace["traceEvents"] if event["ph"] != "X"] + halves}


def _halves(spans):
    opened = []
    for one in sorted(spans, key=lambda one: (one["ts"], -one["dur"])):
        start, end = one["ts"], one["ts"] + one["dur"]
        while opened and opened[-1]["ts"] <= start:
            yield opened.pop()
        if opened and end > opened[-1]["ts"]:
            yield one
            continue
        yield {key: value for key, value in one.items() if key != "dur"} | {"ph": "B"}
        opened.append({"ph": "E", "ts": end, "pid": one["pid"], "tid": one["tid"]})
    yield from reversed(opened)


REWRITINGS = {
    "sorted by time": sorted_by_time,
    "backwards": backwards,
    "keys sorted": keys_sorted,
    "escaped for HTML": escaped_for_html,
    "pretty, with a mark and carriage returns": by_a_pretty_printer,
    "metadata behind, minified": lambda trace: text_of(dict(reversed(trace.items())), separators=(",", ":")),
    "times as text": of_each(times_as_text),
    "absolute times": of_absolute_time,
    "absolute times as text": lambda trace: of_each(times_as_text)(of_absolute_time(trace)),
    "numbers as floats": of_each(numbers_as_floats),
    "ids as hexadecimal": of_each(ids_as_hexadecimal),
    "ids of the host as hexadecimal": of_each(ids_of_the_host_as_hexadecimal),
    "processes as text": of_each(processes_as_text),
    "begins and ends": as_halves,
}


@pytest.mark.parametrize("rewrite", REWRITINGS.values(), ids=REWRITINGS)
def test_the_account_is_the_same(job, tmp_path, rewrite):
    assert account(rewritten(job, tmp_path, rewrite)) == account(job)


def test_a_bare_list_keeps_the_breakdown(job, tmp_path):
    """What stood beside the events is lost: the time of day, groups, backend. Ranks are told by the files' names."""
    told, bare = account(job), account(rewritten(job, tmp_path, lambda trace: trace["traceEvents"]))
    assert bare["breakdown"] == told["breakdown"]
    assert [row[2:] for row in bare["idle"]] == [row[2:] for row in told["idle"]]
    assert bare["matched"] == told["matched"]


# Files of several ranks in one, whose processes have other numbers


def fused(job, folder, change=lambda event, rank: event, name="Rank-{rank}-{name}", offset=100_000_000):
    """All ranks in one file; processes moved and named, metadata of the first rank kept."""
    merged = {}
    for rank, file in enumerate(sorted(job.glob("rank*.json.gz"))):
        trace = read(file)
        events = merged.setdefault("traceEvents", [])
        merged = {**trace, **merged}
        events += [change(_moved(event, rank, name, offset), rank) for event in trace["traceEvents"]]
    (folder / "merged.json").write_text(text_of(merged))
    return folder


def _moved(event, rank, name, offset):
    pid = event.get("pid")
    event = {**event, "pid": pid + rank * offset if isinstance(pid, int) else pid}
    if event["name"] == "process_name" and name:
        event["args"] = {"name": name.format(rank=rank, name=event["args"]["name"])}
    return event


def of_all(told):
    """An account without the numbers of processes."""
    return {key: value for key, value in told.items() if key != "lanes"}


def with_rank_argument(event, rank):
    return {**event, "args": {**event.get("args", {}), "rank": rank}}


def with_rank_in_the_process_number(event, rank):
    return {**event, "pid": f"rank{rank}_{event['pid']}"}


FUSINGS = {
    "rank arguments": {"name": None, "change": with_rank_argument},
    "rank arguments and the same processes": {"name": None, "change": with_rank_argument, "offset": 0},
    "names of processes": {},
    "names of processes, in words": {"name": "{name} (rank: {rank})"},
    "process numbers as text": {"name": None, "change": with_rank_in_the_process_number, "offset": 0},
}


@pytest.mark.parametrize("how", FUSINGS.values(), ids=FUSINGS)
def test_all_ranks_in_one_file(job, tmp_path, how):
    assert of_all(account(fused(job, tmp_path, **how))) == of_all(account(job))


def test_ranks_that_nothing_tells_apart_are_noted(job, tmp_path):
    told = load(fused(job, tmp_path, name=None), cache=False)
    ranks = len(list(job.glob("rank*.json.gz")))
    assert told.ranks["rank"].tolist() == [0]
    noted = told.notes[told.notes["code"] == "several-processes"]
    assert noted[["severity", "rank", "count"]].values.tolist() == [["warning", 0, ranks]]


def test_the_merged_export_is_read_back(job, tmp_path):
    write_perfetto(Analysis(load(job, cache=False)), tmp_path / "merged.json.gz")
    told, again = account(job), account(tmp_path / "merged.json.gz")
    assert again["breakdown"] == told["breakdown"]
    assert again["matched"] == told["matched"]
    assert [row[:2] for row in again["ranks"]] == [row[:2] for row in told["ranks"]]
