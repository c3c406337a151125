"""The only place that knows how profilers spell categories, kernels, operators and annotations.

Spellings of CUDA, ROCm, XPU, MTIA and NPU, of today's Kineto and of its first versions. Rows are classified by kernel,
never by stream: a collective may share its stream with compute.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tracekit.model import (
    ANNOTATION,
    COMM,
    COMPUTE,
    DATA_LOADING,
    DEVICE_ANNOTATION,
    DEVICE_SYNC,
    GARBAGE_COLLECTION,
    MEMORY,
    OPERATOR,
    OTHER,
    OVERHEAD,
    PYTHON,
    RUNTIME,
    STREAM_WAIT,
    SYNCHRONIZE,
)

KERNEL_CATEGORIES = frozenset({"kernel", "mtia_ccp_events"})
COPY_CATEGORIES = frozenset({"gpu_memcpy", "gpu_memset", "memcpy", "memset"})
SIZED_CATEGORIES = COPY_CATEGORIES | {"mtia_ccp_events"}
RUNTIME_CATEGORIES = frozenset(
    f"{device}_{layer}"
    for device in ("cuda", "hip", "xpu", "mtia", "npu", "privateuse1", "glow", "ocl")
    for layer in ("runtime", "driver")
) | {"runtime", "driver"}
OPERATOR_CATEGORIES = frozenset({"cpu_op", "operator"})
ANNOTATION_CATEGORIES = frozenset({"user_annotation"})
OF_THE_PROFILER = "trace"
"""The category of the profiler's spans about itself."""
HOST_CATEGORIES = OPERATOR_CATEGORIES | ANNOTATION_CATEGORIES

COMM_PATTERNS = (
    r"nccl",  # NCCL and RCCL: ncclKernel_*, ncclDevKernel_*, lower case, Generic
    r"msccl",  # Microsoft's schedules on NCCL, and MSCCL++
    r"multimem_",  # NVLink SHARP kernels of symmetric memory
    r"cross_device_reduce",  # vLLM's and SGLang's custom all-reduce
    *(r"one_?shot_?all_?reduce", r"two_?shot_?all_?reduce", r"all_?reduce_one_?shot", r"all_?reduce_two_?shot"),
    *(r"allreduce_fusion", r"quick_?reduce", r"lamport"),
    *(r"_all_to_all_", r"all_to_all_kernel"),
    *(r"ep::(?<!\wep::).*(?:dispatch|combine)", r"deep_ep::(?<!\wdeep_ep::).*(?:dispatch|combine)"),  # DeepEP
    *(r"oneccl", r"ccl::(?<!\wccl::)", r"ccl_(?<!\wccl_)"),  # oneCCL
    *(r"hccl", r"hcom_"),  # Ascend
    r"nvshmem.*(?:put|get|reduce|collect|broadcast|alltoall|barrier)",
)
"""In lower case. Each begins with plain text, for which Python's `re` searches many times faster than for choices."""

_SYNCHRONIZE = re.compile(
    r"(?:cuda|hip|cu|acl(?:rt)?|ur|ze|sycl)\w*(?:synchronize|queuefinish)|^(?:cuda|hip)memcpy(?:2d|3d|withstream)?$"
    r"|^synchronize(?:stream|event|device)?$|queuefinish|queue::wait|event::wait",
    re.IGNORECASE,
)
_DATA_LOADING = re.compile(
    r"^enumerate\(dataloader\)|^\[?data.?load|dataloader.*(?:__next__|_next_data)|^(?:get|next|load|fetch).?batch"
    r"|^next\(.*(?:loader|data|iter).*\)",
    re.IGNORECASE,
)
_GARBAGE_COLLECTION = re.compile(
    r"garbage.?collect|^python.gc\b|^\[?gc\b|\bgc\.collect|<built-in \w+ collect\b", re.IGNORECASE
)
_KERNEL_LAUNCH = re.compile(r"launch(?:cooperative)?_?kernel|kernel_?launch", re.IGNORECASE)
_CAPTURE = re.compile(r"stream_?(?P<which>begin|end)_?capture", re.IGNORECASE)
_STREAM_WAIT = re.compile(r"stream.?wait|^event_wait$|waiteventonstream", re.IGNORECASE)
_STEP = re.compile(r"^ProfilerStep#(\d{1,18})$")
_COLLECTIVE_ANNOTATION = re.compile(r"^(?:nccl|rccl|gloo|ucc|mpi|xccl|hccl|mccl):")
_PIPELINE_SPAN = re.compile(r"^PP::?\s*(?:\((?P<together>[^()]*)\)OVERLAP_F_B|(?P<action>\d+[FBIW]\d+))$")
_PIPELINE_ACTION = re.compile(r"(\d{1,9})([FBIW])(\d{1,9})")
_PIPELINE_WORDS = {"F": "forward", "B": "backward", "I": "backward_input", "W": "backward_weight"}
_MICROBATCH_SPAN = re.compile(r"^(forward|backward)[ _](?:(?:microbatch|mb)[ _=]?)?(\d{1,9})$", re.IGNORECASE)
_GLOO = "gloo:"
_ANNOTATED_CALL = re.compile(r"^(?P<what>comm|wait):(\w+) (.{1,2000})$")
_DISPATCHER_OPERATOR = re.compile(r"^\w+::[\w.]+$")  # `torch::autograd::AccumulateGrad` is none
_NO_COMPUTE_NAMESPACES = ("autograd::", "c10d::", "_c10d_functional::", "_c10d_functional_autograd::")
_ALGORITHM = re.compile(r"_(RING|TREE|NVLS_TREE|NVLS|COLLNET_DIRECT|COLLNET_CHAIN|PAT)(?:_(LL128|LL|SIMPLE))?", re.I)

_SPELLINGS = (
    ("reducescatter", "reduce_scatter"),
    ("allreduce", "all_reduce"),
    ("crossdevicereduce", "all_reduce"),
    ("quickreduce", "all_reduce"),
    ("lamport", "all_reduce"),
    ("allgather", "all_gather"),
    ("alltoall", "all_to_all"),
    ("dispatch", "all_to_all"),
    ("combine", "all_to_all"),
    ("broadcast", "broadcast"),
    ("bcast", "broadcast"),
    ("barrier", "barrier"),
    ("sendrecv", "sendrecv"),
    ("batchisendirecv", "sendrecv"),
    ("coalesced", "sendrecv"),
    ("reduce", "reduce"),
    ("scatter", "scatter"),
    ("gather", "gather"),
    ("recv", "recv"),
    ("receive", "recv"),
    ("send", "send"),
)
_COPIES = (
    (r"htod|host.*to.*device|host2device", "host_to_device"),
    (r"dtoh|device.*to.*host|device2host", "device_to_host"),
    (r"dtod|device.*to.*device|device2device", "device_to_device"),
    (r"ptop|peer", "peer_to_peer"),
    (r"htoh|host.*to.*host", "host_to_host"),
)
DTYPE_BYTES = {
    "byte": 1, "char": 1, "bool": 1, "int8": 1, "uint8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "half": 2,
    "bfloat16": 2, "short": 2, "int16": 2, "uint16": 2, "float16": 2, "int": 4, "float": 4, "int32": 4, "float32": 4,
    "uint32": 4, "long": 8, "double": 8, "int64": 8, "uint64": 8, "float64": 8, "complexfloat": 8, "complexdouble": 16,
    "unsignedchar": 1, "longint": 8, "longlong": 8,
}  # fmt: skip


Communicates = Callable[[str], bool]


@lru_cache(maxsize=8)
def communication(extra: tuple[str, ...] = ()) -> Communicates:
    """Tells of a kernel's name whether it moves data between ranks, whatever its case; `extra` are the user's patterns.

    Raises `re.error` for an extra pattern that is none.
    """
    known = [re.compile(pattern) for pattern in COMM_PATTERNS]
    known += [re.compile(pattern, re.IGNORECASE) for pattern in extra]

    def communicates(name: str) -> bool:
        lower = name.lower()
        return any(pattern.search(lower) for pattern in known)

    return communicates


def kind(category: str, name: str, communicates: Communicates) -> str:
    """The kind of a span, as far as its category and name alone tell."""
    category = category.lower()
    if category in KERNEL_CATEGORIES:
        return _device_kind(category, name, communicates)
    if category in COPY_CATEGORIES:
        return MEMORY
    if category in RUNTIME_CATEGORIES:
        return SYNCHRONIZE if _SYNCHRONIZE.search(name) else RUNTIME
    if category in OPERATOR_CATEGORIES or category in ANNOTATION_CATEGORIES or category == "python_function":
        return _host_kind(category, name)
    if category == "cuda_sync":
        return STREAM_WAIT if _STREAM_WAIT.search(name) else DEVICE_SYNC
    if category == "gpu_user_annotation":
        return DEVICE_ANNOTATION
    return OVERHEAD if category == "overhead" else OTHER


def _device_kind(category: str, name: str, communicates: Communicates) -> str:
    if category == "mtia_ccp_events":  # MTIA lists its queue's markers among its work: they are no work
        if _STREAM_WAIT.search(name):
            return STREAM_WAIT
        if name.startswith("event_"):
            return DEVICE_SYNC
        if name.startswith("dma"):
            return MEMORY
    return COMM if communicates(name) else COMPUTE


def _host_kind(category: str, name: str) -> str:
    if _DATA_LOADING.search(name):
        return DATA_LOADING
    if _GARBAGE_COLLECTION.search(name):
        return GARBAGE_COLLECTION
    if category == "python_function":
        return PYTHON
    return OPERATOR if category in OPERATOR_CATEGORIES else ANNOTATION


def step_number(category: str, name: str) -> int | None:
    """N of a host annotation `ProfilerStep#N`; the device's copies of it cover something else and do not count."""
    found = _STEP.match(name) if category.lower() in HOST_CATEGORIES else None
    return int(found[1]) if found else None


@lru_cache(maxsize=65536)
def pipeline_actions(name: str) -> str | None:
    """What a span around a micro-batch's forward or backward tells: `forward:<stage>:<microbatch>`, or None.

    `PP:0F3` is forward:0:3; B, I and W are backward, backward_input and backward_weight; `Forward 3` names no stage
    (forward::3). Two at once (`PP:(0F3;1B2)OVERLAP_F_B`) are joined by `+`.
    """
    if found := _PIPELINE_SPAN.match(name):
        parts = _PIPELINE_ACTION.findall(found["together"] or found["action"])
        return "+".join(f"{_PIPELINE_WORDS[word]}:{stage}:{microbatch}" for stage, word, microbatch in parts) or None
    found = _MICROBATCH_SPAN.match(name)
    return f"{found[1].lower()}::{found[2]}" if found else None


def is_collective_annotation(name: str) -> bool:
    """Whether a host span is a backend's own span of a call (`nccl:all_reduce`, `gloo:broadcast`)."""
    return bool(_COLLECTIVE_ANNOTATION.match(name))


def is_communication_call(name: str) -> bool:
    """Whether a host span issues or carries out communication, so that what it contains is no compute of its own."""
    return name.startswith(("c10d::", "_c10d_functional::", "record_param_comms")) or is_collective_annotation(name)


def launches_kernel(name: str) -> bool:
    """Whether a host call launches one kernel, unless its stream is being captured to a graph."""
    return bool(_KERNEL_LAUNCH.search(name))


def capture(name: str) -> str | None:
    """Of a host call that begins or ends the capture of a stream to a graph, "begin" or "end"; None for any other."""
    found = _CAPTURE.search(name)
    return found["which"].lower() if found else None


def is_gloo(name: str) -> bool:
    """Whether a host span is gloo's."""
    return name.startswith(_GLOO)


def is_dispatcher_operator(name: str) -> bool:
    """Whether a CPU operator went through the dispatcher and computes: not autograd's frame, not communication."""
    return bool(_DISPATCHER_OPERATOR.match(name)) and not name.startswith(_NO_COMPUTE_NAMESPACES)


@dataclass(frozen=True)
class AnnotatedCall:
    """A communication call as an annotation around its issue tells it. `source` and `destination` are of p2p only."""

    op: str
    group: str
    seq: int
    bytes: int
    dtype: str | None
    source: int | None
    destination: int | None
    threads: tuple[str, ...]


def annotated_call(name: str, what: str = "comm") -> AnnotatedCall | None:
    """The call that an annotation `comm:OP group=G seq=N bytes=B ...` tells; None for any other name.

    `what` is "wait" for the annotations around the program's waits for calls, which are spelled alike.
    """
    found = _ANNOTATED_CALL.match(name)
    if not found or found["what"] != what:
        return None
    told = dict(pair.split("=", 1) for pair in found[3].split() if "=" in pair)
    numbers = {key: int(text) for key, text in told.items() if text.isdecimal() and len(text) < 19}
    if "group" not in told or "seq" not in numbers or "bytes" not in numbers:
        return None
    return AnnotatedCall(
        operation(found[2]), told["group"], numbers["seq"], numbers["bytes"], told.get("dtype"),
        numbers.get("src"), numbers.get("dst"), tuple(filter(None, told.get("threads", "").split(","))),
    )  # fmt: skip


@lru_cache(maxsize=65536)
def awaited_transfer(name: str) -> AnnotatedCall | None:
    """The send or receive that an annotation `wait:OP group=G ...` tells the program to wait for; None for others."""
    call = annotated_call(name, "wait")
    return call if call and call.op in ("send", "recv") and None not in (call.source, call.destination) else None


def tells_a_call(name: str) -> bool:
    """Whether a host span's arguments tell of a call: the recorded parameters, and the backends' own spans."""
    return name == "record_param_comms" or is_collective_annotation(name)


@lru_cache(maxsize=4096)
def operation(name: str) -> str:
    """The collective that a kernel, annotation or `Collective name` spells; "unknown" where it spells none."""
    plain = re.sub(r"[^a-z]", "", re.split(r"[(<]", name, maxsplit=1)[0].rsplit(":", 1)[-1].lower())
    whole = re.sub(r"[^a-z]", "", name.lower())
    for text in (plain, whole):
        for spelling, meaning in _SPELLINGS:
            if spelling in text:
                return meaning
    return "unknown"


@lru_cache(maxsize=1024)
def copy_direction(*texts: str) -> str:
    """The direction that a copy's name or arguments tell: `host_to_device`, ..., `set`, or "unknown"."""
    for text in (text.lower() for text in texts):
        if "memset" in text:
            return "set"
        for pattern, direction in _COPIES:
            if re.search(pattern, text):
                return direction
    return "unknown"


@lru_cache(maxsize=4096)
def algorithm_protocol(kernel: str) -> tuple[str | None, str | None]:
    """NCCL's algorithm and protocol, where the kernel's name tells them (`RING`, `LL`)."""
    found = _ALGORITHM.search(kernel)
    if not found:
        return None, None
    return found[1].upper(), found[2].upper() if found[2] else None


@lru_cache(maxsize=4096)
def call_bytes(op: str, dtype: str | None, elements_in: int | None, elements_out: int | None) -> int | None:
    """Size of a call's whole array, as nccl-tests count it, from NCCL's arguments; None where they do not tell.

    All-gather: its output; reduce-scatter: its input; all-to-all: one rank's send buffer; else the larger of both.
    """
    width = DTYPE_BYTES.get((dtype or "").lower())
    counts: Sequence[int | None] = {
        "all_gather": [elements_out], "reduce_scatter": [elements_in], "all_to_all": [elements_in],
    }.get(op, [elements_in, elements_out])  # fmt: skip
    known = [count for count in counts if count is not None]
    return max(known) * width if width and known else None
