import pytest

from benchmarks.published import DOCUMENT, FITTED, RUNS, chosen, section


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.model}-{run.gpus}")
def test_every_published_layout_uses_its_gpus_and_batch(run):
    layout = run.layout(chosen(run))
    assert (layout.ranks, layout.batch) == (run.gpus, run.batch)


@pytest.mark.parametrize("run", [run for run in RUNS if run.node == "a100-80gb"], ids=lambda run: run.model)
def test_table_1_within_eight_percent(run):
    assert abs(run.error(chosen(run))) < 0.08


def test_the_row_that_was_fitted_is_near():
    [run] = [run for run in RUNS if run.model == FITTED]
    assert abs(run.error(chosen(run))) < 0.05


def test_the_document_is_what_the_command_writes():
    assert section() in DOCUMENT.read_text(encoding="utf-8")
