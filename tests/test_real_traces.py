"""Real traces that others made, against a calculation in plain Python that shares nothing with tracekit."""

import gzip
import json
from decimal import Decimal
from functools import cache

import pytest

from tests.read.tiny import codes
from tracekit import Analysis, load
from tracekit.intervals import length
from tracekit.measures.breakdown import residue_ns
from tracekit.model import NO_STEP, NO_TIME

RANKS = {
    "nanogpt_h100x8": range(8),
    "megatron_tp2": range(2),
    "dlrm_x8": range(8),
    "dlrm_x4": range(4),
    "resnet18_ddp2": range(2),
    "diff_control": [3],
    "diff_test": [1],
    "production_st": range(8),
    "production_ar": range(0, 64, 4),
    "single/amd_trace__mi250_minitoy_train_ROCm6_2_kineto.json.gz": [0],
    "single/cpu_only__rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz": [34],
    "single/df_index_resolver__df_index_resolver.json.gz": [1],
    "single/distributed_info_unavailable__distributed_info_not_found.json.gz": [0],
    "single/mtia_inference_trace__mtia_inference_rank_0.json.gz": [0],
    "single/nccl_parser_config__nccl_data.json.gz": [0],
    "single/ns_resolution_trace__rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz": [0],
    "single/resnet_act_checkpoint.json.gz": [0],
}
NO_DEVICE = ["single/cpu_only__rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz"]
NO_DEVICE += ["single/distributed_info_unavailable__distributed_info_not_found.json.gz"]
MTIA = "single/mtia_inference_trace__mtia_inference_rank_0.json.gz"
EVERY = pytest.mark.parametrize("name", RANKS)
WITH_GPUS = pytest.mark.parametrize("name", [name for name in RANKS if name not in (*NO_DEVICE, MTIA)])


@pytest.fixture(scope="module")
def read(real_traces, tmp_path_factory):
    """Runs by name, each read once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACEKIT_CACHE", str(tmp_path_factory.mktemp("cache")))
        runs = {name: load(real_traces / name) for name in RANKS}
    return runs.__getitem__


@cache
def plain(file):
    """How many events Python's own reader finds, and those that tell of work and steps, decimals exact."""
    with gzip.open(file) as stream:
        trace = json.load(stream, parse_float=Decimal)
    kept = [event for event in trace["traceEvents"] if event["name"] == "[memory]" or _tells(event)]
    return {"count": len(trace["traceEvents"]), "base_ns": int(trace.get("baseTimeNanoseconds", 0)), "events": kept}


def _tells(event):
    if event["ph"] != "X" or event["cat"] == "gpu_user_annotation":
        return False
    return event["cat"] not in ("cpu_op", "python_function") or event["name"].startswith("ProfilerStep#")


def ns(microseconds):
    return int((Decimal(microseconds) * 1000).to_integral_value())


def plain_work(file):
    """Start, end, kind and launch (start of the launching call, None if the file has none) of all device work."""
    trace = plain(file)
    base_ns = trace["base_ns"]
    launches, work = {}, []
    for event in trace["events"]:
        if event.get("cat") in ("cuda_runtime", "cuda_driver"):
            start_ns, correlation = base_ns + ns(event["ts"]), event["args"].get("correlation")
            launches[correlation] = min(launches.get(correlation, start_ns), start_ns)
    for event in trace["events"]:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            kind = "memory" if event["cat"] != "kernel" else "comm" if "nccl" in event["name"] else "compute"
            start_ns = base_ns + ns(event["ts"])
            launch_ns = launches.get(event["args"].get("correlation"))
            lane = (event["pid"], event["tid"])
            work.append((start_ns, start_ns + ns(event["dur"]), kind, lane, launch_ns))
    return sorted(work, key=lambda one: one[0])


def merged(spans):
    """Disjoint spans in order."""
    parts = []
    for start, end in sorted(spans):
        if parts and start <= parts[-1][1]:
            parts[-1][1] = max(parts[-1][1], end)
        elif end > start:
            parts.append([start, end])
    return parts


def within(spans, begin, end):
    return sum(max(0, min(b, end) - max(a, begin)) for a, b in merged(spans))


def plain_launches(work):
    """When each piece was launched: without a launch, before all time if its lane had none yet, else at its start."""
    first = {}
    for start, _, _, lane, launch in work:
        if launch is not None:
            first.setdefault(lane, start)
    return [
        launch if launch is not None else -1 if start < first.get(lane, -1) else start
        for start, _, _, lane, launch in work
    ]


def plain_host_steps(trace):
    host = {}
    for event in trace["events"]:
        word, _, number = event["name"].partition("#")
        if word == "ProfilerStep":
            start_ns = trace["base_ns"] + ns(event["ts"])
            host[int(number)] = (start_ns, start_ns + ns(event["dur"]))
    return host


def plain_steps(file, work):
    """Number and window of each step: a step begins when all is done that was launched before its host span."""
    trace = plain(file)
    host = plain_host_steps(trace)
    launched = plain_launches(work)
    done = lambda time: max((one[1] for one, at in zip(work, launched, strict=True) if at < time), default=0)  # noqa: E731
    begins = {number: max(start, done(start)) for number, (start, _) in host.items()}
    ends = {number: begins.get(number + 1, max(end, begins[number], done(end))) for number, (_, end) in host.items()}
    return sorted((number, begins[number], ends[number]) for number in host)


@EVERY
def test_it_is_read_without_loss(read, name):
    run = read(name)
    assert run.ranks["rank"].tolist() == list(RANKS[name])
    assert run.ranks["dropped"].sum() == 0
    broken = {"lost-event", "mended-event", "truncated", "strange-event", "half-span", "impossible-time", "overrun"}
    assert not broken & set(codes(run))


def test_no_trace_is_forgotten(real_traces):
    folders = {file.parent.name for file in real_traces.glob("*/*.gz")} - {"single"}
    singles = {f"single/{file.name}" for file in (real_traces / "single").iterdir()}
    assert folders | singles == set(RANKS)


@EVERY
def test_the_parts_of_each_step_sum_to_it(read, name):
    rows = Analysis(read(name))["breakdown"]
    assert set(rows["rank"]) == set(RANKS[name])
    assert (residue_ns(rows) == 0).all()
    assert (rows.select_dtypes("number") >= 0).all(axis=None)
    assert (rows["step_ns"] > 0).all()


@EVERY
def test_all_events_of_each_file_are_counted(read, name):
    ranks = read(name).ranks
    counted = {file: plain(file)["count"] for file in ranks["file"]}
    assert dict(zip(ranks["file"], ranks["events"], strict=True)) == counted


@WITH_GPUS
def test_device_work_is_what_plain_python_finds(read, name):
    run = read(name)
    rank, file = run.ranks.loc[0, ["rank", "file"]]
    work, one = plain_work(file), run.rank(rank)
    assert len(one.work) == len(work)
    for kind in ("compute", "comm", "memory"):
        spans = merged([(start, end) for start, end, of, _, _ in work if of == kind])
        assert length(one.busy(kind)) == sum(end - start for start, end in spans), kind
    assert one.work["start_ns"].tolist() == [start for start, *_ in work]
    known = [launch is not None for *_, launch in work]
    assert (one.work["launch_ns"] != NO_TIME).tolist() == known


@WITH_GPUS
def test_steps_are_what_plain_python_finds(read, name):
    run = read(name)
    rank, file = run.ranks.loc[0, ["rank", "file"]]
    work = plain_work(file)
    steps = plain_steps(file, work)
    assert run.rank(rank).steps[["step", "start_ns", "end_ns"]].values.tolist() == [list(step) for step in steps]
    rows = Analysis(run)["breakdown"]
    rows = rows[rows["rank"] == rank].set_index("step")
    of = {kind: [one[:2] for one in work if one[2] == kind] for kind in ("compute", "comm", "memory")}
    for number, begin, end in steps[:6]:
        compute, comm = within(of["compute"], begin, end), within(of["comm"], begin, end)
        both = within(of["compute"] + of["comm"], begin, end)
        busy = within([span for spans in of.values() for span in spans], begin, end)
        row = rows.loc[number]
        assert (row["compute_ns"], row["comm_ns"], row["overlap_ns"]) == (compute, comm, compute + comm - both)
        assert (row["exposed_comm_ns"], row["exposed_memory_ns"]) == (both - compute, busy - both)
        assert row["idle_ns"] == end - begin - busy


@WITH_GPUS
def test_windows_of_consecutive_steps_tile(read, name):
    for _, steps in read(name).steps.groupby("rank"):
        assert steps["step"].is_monotonic_increasing
        follows = (steps["step"].diff() == 1).to_numpy()[1:]
        begins, ends = steps["start_ns"].to_numpy()[1:], steps["end_ns"].to_numpy()[:-1]
        assert (begins[follows] == ends[follows]).all()
        assert (begins >= ends).all()


@WITH_GPUS
def test_work_of_a_step_was_launched_in_it(read, name):
    run = read(name)
    rank, file = run.ranks.loc[0, ["rank", "file"]]
    work = run.rank(rank).work
    host = plain_host_steps(plain(file))
    launched = plain_launches(plain_work(file))
    wanted = [next((n for n, (start, end) in host.items() if start <= at < end), NO_STEP) for at in launched]
    assert work["step"].tolist() == wanted


def test_mtia_markers_are_no_work(read):
    run = read(MTIA)
    [file] = run.ranks["file"]
    rows = [event for event in plain(file)["events"] if event.get("cat") == "mtia_ccp_events"]
    markers = [event for event in rows if event["name"].startswith("event_")]
    assert len(run.rank(0).work) == len(rows) - len(markers)
    assert markers


def test_a_gloo_trace_computes_and_communicates(read):
    run = read(NO_DEVICE[0])
    [file] = run.ranks["file"]
    spans = [event for event in plain(file)["events"] if event.get("name") == "gloo:all_reduce"]
    base_ns = plain(file)["base_ns"]
    starts_ns = [base_ns + ns(event["ts"]) for event in spans]
    parts = merged([(start, start + ns(event["dur"])) for start, event in zip(starts_ns, spans, strict=True)])
    one = run.rank(34)
    assert one.on_cpu
    assert length(one.busy("comm")) == sum(end - start for start, end in parts)
    assert len(run.calls) == len(spans)


def test_memory_events_are_read(read):
    run = read("single/df_index_resolver__df_index_resolver.json.gz")
    [file] = run.ranks["file"]
    told = [event for event in plain(file)["events"] if event["name"] == "[memory]"]
    allocations = run.rank(1).allocations
    assert len(allocations) == len(told)
    assert allocations["allocated_bytes"].max() == max(event["args"]["Total Allocated"] for event in told)
    assert allocations["bytes"].sum() == sum(event["args"]["Bytes"] for event in told)


def test_nccl_arguments_are_kept_with_each_call(read):
    run = read("single/nccl_parser_config__nccl_data.json.gz")
    [file] = run.ranks["file"]
    told = sorted(
        (event["ts"], event["args"]["Collective name"], event["args"]["Group size"])
        for event in plain(file)["events"]
        if event.get("cat") == "kernel" and "Collective name" in event["args"]
    )
    calls = run.calls[run.calls["group_size"].notna()]
    assert calls["group_size"].tolist() == [size for *_, size in told]
    operation = {"allreduce": "all_reduce", "broadcast": "broadcast", "allgather": "all_gather"}
    named = [name.removeprefix("_").removesuffix("_base").removesuffix("_coalesced") for _, name, _ in told]
    assert calls["op"].tolist() == [operation.get(name, name) for name in named]
