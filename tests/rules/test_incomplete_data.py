from dataclasses import replace

import pytest

from tests import lanes
from tests.rules.drawn import found, healthy, job
from tracekit import Analysis
from tracekit.model import Note, notes_table
from tracekit.rules import incomplete_data


def with_notes(*notes):
    run = replace(lanes.run(job(healthy(), healthy())), notes=notes_table(notes))
    return list(incomplete_data.check(Analysis(run)))


def test_what_is_not_whole_is_named_with_its_ranks():
    [finding] = with_notes(
        Note("truncated", "warning", "rank1.json: the file ends early", 1),
        Note("missing-rank", "warning", "no file of rank 3", 3),
    )
    assert (finding.code, finding.severity, finding.ranks, finding.cost_ns) == ("incomplete-data", "info", (1, 3), None)
    assert finding.title == "the traces of ranks 1, 3 do not show the whole job"
    assert finding.evidence == ("missing-rank: no file of rank 3", "truncated: rank1.json: the file ends early")


def test_one_rank_and_none():
    assert (
        with_notes(Note("lost-event", "warning", "x", 2))[0].title == "the traces of rank 2 do not show the whole job"
    )
    assert with_notes(Note("several-jobs", "warning", "x"))[0].title == "the traces do not show the whole job"


def test_a_thousand_notes_are_five_lines():
    [finding] = with_notes(*(Note("missing-rank", "warning", f"no file of rank {rank}", rank) for rank in range(1000)))
    assert len(finding.evidence) == 6
    assert finding.evidence[5] == "and 995 more notes"


@pytest.mark.parametrize(
    "notes",
    [
        (),
        (Note("mended-event", "info", "mended", 0),),
        (Note("lost-event", "info", "harmless", 0),),
        (Note("clock-offset", "warning", "not about what is missing", 0),),
    ],
)
def test_silent(notes):
    assert with_notes(*notes) == []


def test_a_healthy_run():
    assert found(incomplete_data, job(healthy(), healthy())) == []
