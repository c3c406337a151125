from tests.rules.drawn import found, healthy, job
from tracekit.rules import cannot_tell


def lacks(drawing):
    [finding] = found(cannot_tell, drawing)
    assert (finding.code, finding.severity, finding.ranks, finding.cost_ns) == ("cannot-tell", "info", (), None)
    return finding.evidence


def test_one_rank_only():
    [told] = lacks(job(*(healthy(1) for _ in range(3))))
    assert told.startswith("one rank only: who is slow, and who waits for whom, takes the traces of the other ranks")


def test_too_few_steps():
    assert lacks(job(healthy())) == ("1 complete step only: what lasts cannot be told from what happened once",)
    assert lacks(job(healthy(), healthy()))[0].startswith("2 complete steps only")


def test_incomplete_steps_do_not_count():
    drawing = job(healthy(), healthy(), healthy()).splitlines()
    assert lacks("\n".join([f"{drawing[0]} incomplete=0", *drawing[1:]]))[0].startswith("2 complete steps only")


def test_calls_without_a_counterpart():
    told = lacks(job(*(healthy() for _ in range(3))).replace("by=bdf", "by=bdf match=none"))
    assert any(line.startswith("no waits: ") for line in told)


def test_a_replay_that_is_not_like_the_run():
    """Nothing tells why rank 0's last kernel begins 600 us after the one before it."""
    told = lacks("step " + "".join(str(nth) * 602 for nth in range(3)) + "\n" + "\n".join(
        f"{rank}/7 {('C' + '.' * 600 + 'c') * 3}" for rank in (0, 1)
    ))  # fmt: skip
    assert any("a replay does not come out as the run was measured" in line for line in told)


def test_silent():
    assert found(cannot_tell, job(healthy(), healthy(), healthy())) == []
    assert found(cannot_tell, job(*(healthy() for _ in range(6)))) == []
