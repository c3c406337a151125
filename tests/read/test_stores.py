"""Runs in object stores and on web servers: real servers on loopback."""

import gzip
import json
import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import fsspec
import loky
import pytest

from tests import lanes
from tests.read.tiny import NCCL, codes, kernel, step, text
from tracekit import load
from tracekit.cli import main
from tracekit.errors import Unreadable
from tracekit.read import load as door
from tracekit.read import stores, workers
from tracekit.read.sources import opened, trace_files

s3fs = pytest.importorskip("s3fs", reason="the extra 'dev' is not installed")
boto3 = pytest.importorskip("boto3", reason="the extra 'dev' is not installed")
moto = pytest.importorskip("moto.server", reason="the extra 'dev' is not installed")

DRAWING = """
    step 00000000001111111111
    0/7  CCCC......CCCC......
    0/20 ....NN........NN....  group=dp
    1/7  CCCCCC....CCCCCC....
    1/20 ......NN........NN..  group=dp
    2/7  CCC.......CCC.......
    2/20 ...NNNNN.....NNNNN..  group=dp
"""
NOBODY = "http://127.0.0.1:9"
"""Where no server answers: the port of a service that threw everything away."""


class Bucket:
    """An S3 server's only bucket, and what was asked of it; `trouble` is called before each GET of an object."""

    def __init__(self, server):
        host, port = server.get_host_and_port()
        self.address = f"http://{host}:{port}"
        self.client = boto3.client("s3", endpoint_url=self.address)
        self.gets: list[tuple[str, str]] = []
        self.trouble = lambda key: None
        self._inner = server._server.app
        server._server.app = self

    def __call__(self, environ, start_response):
        key = environ["PATH_INFO"].removeprefix("/bucket").lstrip("/")
        if environ["REQUEST_METHOD"] == "GET" and key:
            self.gets.append((key, environ.get("HTTP_RANGE", "")))
            if self.trouble(key):
                start_response("503 Service Unavailable", [("Content-Length", "0")])
                return []
        return self._inner(environ, start_response)

    def put(self, **objects):
        for name, body in objects.items():
            self.client.put_object(Bucket="bucket", Key=f"run/{name}", Body=body)

    def ranges(self) -> Iterator[tuple[int, int]]:
        """First and last byte of each GET; a ValueError where one asked for a whole object."""
        for _, asked in self.gets:
            first, last = asked.removeprefix("bytes=").split("-")
            yield int(first), int(last)


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "nobody")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_MAX_ATTEMPTS", "1")
        patch.setattr(s3fs.S3FileSystem, "retries", 2)
        patch.delenv("AWS_PROFILE", raising=False)
        one = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        one.start()
        yield one
        one.stop()


@pytest.fixture
def bucket(server, monkeypatch):
    """An empty bucket, known by the environment, here and to the processes of the pool."""
    one = Bucket(server)
    monkeypatch.setenv("AWS_ENDPOINT_URL", one.address)
    forget()
    one.client.create_bucket(Bucket="bucket")
    yield one
    for each in one.client.list_objects_v2(Bucket="bucket").get("Contents", []):
        one.client.delete_object(Bucket="bucket", Key=each["Key"])
    one.client.delete_bucket(Bucket="bucket")
    server._server.app = one._inner
    forget()


def forget():
    """Connections and processes that know the environment as it was."""
    s3fs.S3FileSystem.clear_instance_cache()
    fsspec.filesystem("http").clear_instance_cache()
    loky.get_reusable_executor().shutdown(kill_workers=True)


class Handler(SimpleHTTPRequestHandler):
    """Serves whole files only, as Python's own does; `/secret` it shows to nobody."""

    def send_head(self):
        if self.path.startswith("/secret"):
            return self.send_error(403)
        return super().send_head()

    def log_message(self, *_):
        pass


@pytest.fixture
def web(tmp_path_factory):
    """The address of a web server of a folder, and the folder."""
    folder = tmp_path_factory.mktemp("web")
    one = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=one.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{one.server_port}", folder
    one.shutdown()
    thread.join()
    one.server_close()


def trace_of(rank, *, kernels=2, world_size=2, start=1):
    """A rank's trace: a step and kernels of half a microsecond, one a microsecond from the start on."""
    work = [kernel(start + n, start + n + 0.5, NCCL if n % 2 else "gemm") for n in range(kernels)]
    info = {"rank": rank, "world_size": world_size, "backend": "nccl"}
    return text([step(1, 0, start + kernels), *work], distributedInfo=info).encode()


def told(run):
    """All that a run tells, but where it is."""
    tables = {name: getattr(run, name) for name in ("ranks", "steps", "calls", "notes")}
    tables["ranks"] = tables["ranks"].drop(columns="file")
    work = {rank: run.rank(rank).work for rank in run.ranks["rank"]}
    return {name: table.to_csv() for name, table in {**tables, **work}.items()}


def starts(run, rank):
    return (run.rank(rank).work["start_ns"] // 1000).tolist()


@pytest.fixture
def drawn(tmp_path):
    """The drawing's run in a folder, packed, as objects by name."""
    objects = {}
    for file in lanes.kineto(DRAWING, tmp_path):
        packed = gzip.compress(file.read_bytes())
        file.unlink()
        file.with_name(f"{file.name}.gz").write_bytes(packed)
        objects[f"{file.name}.gz"] = packed
    return tmp_path, objects


# S3


@pytest.mark.parametrize("path", ["s3://bucket/run/", "s3://bucket/run", "s3://bucket/run/*.json.gz"])
def test_a_bucket_tells_the_same_as_a_folder(bucket, drawn, path):
    folder, objects = drawn
    bucket.put(**objects)
    run = load(path)
    assert run.ranks["file"].tolist() == [f"s3://bucket/run/{name}" for name in sorted(objects)]
    assert told(run) == told(load(folder))


def test_processes_of_the_pool_read_a_bucket(bucket, drawn, monkeypatch):
    folder, objects = drawn
    bucket.put(**objects)
    monkeypatch.setattr(door, "HEAVY_BYTES", 0)
    monkeypatch.setattr(workers, "_cores", lambda: 2)
    want = told(load(folder))
    monkeypatch.setattr(door.store, "parsed", None)  # which those processes do not know
    assert told(load("s3://bucket/run/")) == want


def test_an_object_is_streamed_each_byte_once(bucket, monkeypatch):
    content = trace_of(0, kernels=15_000, world_size=1)
    bucket.put(**{"rank0.json": content})
    monkeypatch.setattr(stores, "PIECE_BYTES", 1 << 16)
    run = load("s3://bucket/run/rank0.json")
    assert len(run.rank(0).work) == 15_000
    asked = list(bucket.ranges())
    assert max(last - first + 1 for first, last in asked) < len(content) / 4
    assert asked[0][0] == 0
    assert [first for first, _ in asked[1:]] == [last + 1 for _, last in asked[:-1]]
    assert asked[-1][1] + 1 == len(content)


def test_what_is_in_the_cache_is_not_fetched_again(bucket):
    bucket.put(**{"rank0.json": trace_of(0, world_size=1)})
    want = told(load("s3://bucket/run"))
    bucket.gets.clear()
    assert told(load("s3://bucket/run")) == want
    assert bucket.gets == []


def test_an_object_that_another_client_replaced_is_read_again(bucket):
    bucket.put(**{"rank0.json": trace_of(0, world_size=1)})
    assert starts(load("s3://bucket/run"), 0) == [1, 2]
    bucket.put(**{"rank0.json": trace_of(0, world_size=1, start=3), "rank1.json": trace_of(1)})
    run = load("s3://bucket/run")
    assert [starts(run, rank) for rank in (0, 1)] == [[3, 4], [1, 2]]


@pytest.mark.parametrize(
    "path",
    ["s3://nobody/run", "s3://nobody/*.json", "s3://bucket/gone.json", "s3://bucket/gone/", "s3://No_Bucket!!/x"],
)
def test_what_is_not_there_is_one_sentence(bucket, path, capsys):
    with pytest.raises(Unreadable):
        load(path)
    assert main(["analyze", path]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"tracekit: {path}: ")


def test_an_endpoint_out_of_reach_is_one_sentence(bucket, monkeypatch, capsys):
    monkeypatch.setenv("AWS_ENDPOINT_URL", NOBODY)
    s3fs.S3FileSystem.clear_instance_cache()
    assert main(["analyze", "s3://bucket/run"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("tracekit: s3://bucket/run: ")
    assert NOBODY in err


def test_a_store_that_fails_half_way_loses_the_rank_and_keeps_nothing_of_it(bucket, monkeypatch):
    monkeypatch.setattr(stores, "PIECE_BYTES", 1 << 16)
    bucket.put(**{"rank0.json": trace_of(0), "rank1.json": trace_of(1, kernels=15_000)})
    bucket.trouble = lambda key: key == "run/rank1.json" and len(bucket.gets) > 4
    run = load("s3://bucket/run")
    assert run.ranks["rank"].tolist() == [0]
    [note] = run.notes[run.notes["code"] == "unread-file"].to_dict("records")
    assert (note["rank"], note["severity"]) == (1, "warning")
    assert note["message"].startswith("s3://bucket/run/rank1.json: ")
    bucket.trouble = lambda key: False
    whole = load("s3://bucket/run")
    assert len(whole.rank(1).work) == 15_000
    assert "unread-file" not in codes(whole)


def test_an_object_that_is_deleted_while_it_is_read(bucket, monkeypatch):
    monkeypatch.setattr(stores, "PIECE_BYTES", 1 << 16)
    bucket.put(**{"rank0.json": trace_of(0), "rank1.json": trace_of(1, kernels=15_000)})
    bucket.trouble = lambda key: len(bucket.gets) == 4 and bucket.client.delete_object(Bucket="bucket", Key=key) and 0
    run = load("s3://bucket/run")
    assert run.ranks["rank"].tolist() == [0]
    assert run.notes.loc[run.notes["code"] == "unread-file", "rank"].tolist() == [1]


def test_an_object_that_is_replaced_while_it_is_read(bucket, monkeypatch):
    monkeypatch.setattr(stores, "PIECE_BYTES", 1 << 16)
    old, new = trace_of(0, kernels=15_000, world_size=1), trace_of(0, kernels=15_000, world_size=1, start=2)
    bucket.put(**{"rank0.json": old})
    bucket.trouble = lambda key: len(bucket.gets) == 4 and bucket.put(**{"rank0.json": new})
    with pytest.raises(Unreadable, match=r"rank0\.json"):
        load("s3://bucket/run")
    bucket.trouble = lambda key: False
    assert starts(load("s3://bucket/run"), 0) == list(range(2, 15_002))


# Web servers


def test_a_file_and_a_list_of_files_of_a_web_server(web, drawn):
    address, served = web
    folder, objects = drawn
    for name, packed in objects.items():
        (served / name).write_bytes(packed)
    urls = [f"{address}/{name}" for name in objects]
    assert told(load(urls)) == told(load(folder))
    assert told(load(urls[1])) == told(load(folder / next(name for name in objects if name in urls[1])))


def test_a_query_is_no_pattern(web):
    address, served = web
    (served / "rank0.json").write_bytes(trace_of(0, world_size=1))
    assert starts(load(f"{address}/rank0.json?signature=abc*"), 0) == [1, 2]


def test_a_large_file_of_a_server_that_sends_whole_files_only(web, monkeypatch):
    monkeypatch.setattr(stores, "PIECE_BYTES", 1 << 16)
    address, served = web
    content = trace_of(0, kernels=15_000, world_size=1)
    (served / "rank0.json").write_bytes(content)
    [file] = trace_files([f"{address}/rank0.json"])
    with opened(file) as stream:
        assert b"".join(iter(lambda: stream.read(1 << 20), b"")) == content
    run = load(f"{address}/rank0.json")
    assert (len(run.rank(0).work), "truncated" in codes(run)) == (15_000, False)


def test_a_file_of_a_web_server_that_changed_without_changing_its_size(web):
    address, served = web
    for start in (1, 2):
        (served / "rank0.json").write_bytes(trace_of(0, world_size=1, start=start))
        os.utime(served / "rank0.json", (10**9 + start, 10**9 + start))
        assert starts(load(f"{address}/rank0.json"), 0) == [start, start + 1]


@pytest.mark.parametrize("name", ["gone.json", "secret.json", "gone/*.json"])
def test_what_a_web_server_does_not_give_is_one_sentence(web, name, capsys):
    assert main(["analyze", f"{web[0]}/{name}"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"tracekit: {web[0]}/{name}: ")


def test_a_web_server_out_of_reach_is_one_sentence(capsys):
    assert main(["analyze", f"{NOBODY}/rank0.json"]) == 2
    assert capsys.readouterr().err.startswith(f"tracekit: {NOBODY}/rank0.json: ")


# Memory


def test_a_large_run_in_memory_is_read_by_this_process(drawn, monkeypatch):
    folder, objects = drawn
    monkeypatch.setattr(door, "HEAVY_BYTES", 0)
    monkeypatch.setattr(workers, "_cores", lambda: 2)
    memory = fsspec.filesystem("memory")
    memory.pipe({f"/run/{name}": packed for name, packed in objects.items()})
    try:
        assert told(load("memory://run")) == told(load(folder, cache=False))
    finally:
        memory.rm("/run", recursive=True)


def test_the_account_in_json_of_a_bucket(bucket, drawn, tmp_path):
    folder, objects = drawn
    bucket.put(**objects)
    accounts = []
    for place in ("s3://bucket/run", str(folder)):
        assert main(["analyze", place, "--json", str(tmp_path / "told.txt")]) == 0
        accounts.append(json.loads((tmp_path / "told.txt").read_text()))
    assert accounts[0]["measures"] == accounts[1]["measures"]
