from tracekit.simulate import simulate
from tracekit.simulate.job import job_of

JOB = {"model": {"preset": "gpt2-small", "layers": 2}, "layout": "dp 2", "steps": 1}


def test_without_a_folder_only_the_truth_is_told():
    done = simulate(job_of(JOB))
    assert (done.folder, done.files, done.events) == (None, 0, 0)
    assert len(done.truth.steps) == 2


def test_progress_is_told_and_the_same_job_writes_the_same_bytes(tmp_path):
    told = []
    simulate(job_of(JOB), tmp_path / "a", progress=lambda *one: told.append(one))
    simulate(job_of(JOB), tmp_path / "b")
    assert told == [(0, 2, "rank 0"), (1, 2, "rank 1")]
    for name in ("rank0.json.gz", "rank1.json.gz", "truth.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
