"""A real Dask cluster on loopback: a scheduler and two worker processes."""

import json
import os
import signal

import pytest

from tests import lanes
from tracekit.cli import main
from tracekit.read.workers import Workers

distributed = pytest.importorskip("distributed", reason="the extra 'dask' is not installed")

DRAWING = """
    step 00000000001111111111
    0/7  CCCC......CCCC......
    0/20 ....NN........NN....  group=dp
    1/7  CCCCCC....CCCCCC....
    1/20 ......NN........NN..  group=dp
    2/7  CCC.......CCC.......
    2/20 ...NNNNN.....NNNNN..  group=dp
"""


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as started:
        yield started


@pytest.fixture
def address(cluster):
    return cluster.scheduler_address.replace("tcp://", "dask://")


def told(folder, *options):
    beside = folder.with_suffix(".json")
    assert main(["analyze", str(folder), "--json", str(beside), *options]) == 0
    return json.loads(beside.read_text())


@pytest.mark.parametrize("cache", [[], ["--no-cache"]])
def test_a_cluster_tells_the_same(address, tmp_path, cache):
    lanes.kineto(DRAWING, tmp_path)
    assert told(tmp_path, "--executor", address, *cache) == told(tmp_path)


def once_killed(item):
    """Doubles; the first worker that is asked for 3 dies of it, as of a lost machine."""
    number, mark = item
    if number == 3 and not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def test_what_a_lost_worker_did_is_done_by_another(cluster, tmp_path):
    mark = str(tmp_path / "died")
    with distributed.Client(cluster) as client:
        workers = Workers(client.get_executor(pure=False, retries=3))
        assert list(workers.map(once_killed, [(nth, mark) for nth in range(6)], heavy=True)) == [0, 2, 4, 6, 8, 10]
    assert os.path.exists(mark)


@pytest.mark.parametrize(
    ("spelled", "why"),
    [
        ("ray://localhost:1", "takes dask://HOST:PORT"),
        ("dask://localhost", "takes dask://HOST:PORT"),
        ("dask://127.0.0.1:9", "no Dask scheduler answers there"),
    ],
)
def test_what_is_no_cluster(spelled, why, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("tracekit.cli.executors.PATIENCE_S", 1)
    lanes.kineto(DRAWING, tmp_path)
    assert main(["analyze", str(tmp_path), "--executor", spelled]) == 2
    assert why in capsys.readouterr().err
