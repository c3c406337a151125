from dataclasses import replace

import pytest
from rich.cells import cell_len

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.model import Note, notes_table
from tracekit.report.text import account_text

TWO_RANKS = """
    step 0000000000
    0/7  CC........
    0/20 ..NNNNNNNN
    1/7  CCCCCCC...
    1/20 .......NNN
"""
HOSTILE = "x\x1b[31m\x07[red]evil[/red]:smile:\r\n\u202e\x9b2J" + "y" * 1_000_000


def screen(drawing, width=80, colour=False, **changes):
    return account_text(Analysis(replace(lanes.run(drawing), **changes)), width=width, colour=colour)


def test_the_first_lines_say_what_was_read_and_where_the_step_goes():
    lines = screen(TWO_RANKS, width=120).splitlines()
    assert lines[0] == "drawing"
    assert lines[1].startswith("1 file, ranks 0-1 of 2, nccl, cuda:0, 1 step, 4 events")
    assert lines[3] == (
        "Step 10.00 µs on average over the ranks: compute 45 %, exposed comm 55 %, exposed memory 0 %, idle 0 %."
    )
    assert lines[4] == "Of 5.50 µs of communication 0 % is hidden under compute."


def test_what_is_not_measured_says_why_each_reason_once():
    lines = screen("0/7 CC", width=120).partition("\nNot measured\n")[2].partition("\n\n")[0].splitlines()
    assert "memory: the run has no memory events: profile with profile_memory=True" in lines
    assert "overlap, overlap_group, overlap_operation: the run has no communication in any step" in lines


def test_notes_are_grouped_and_counted():
    notes = [Note("broken-event", "warning", f"rank{rank}.json: a bare quote at byte 12", rank) for rank in range(8)]
    text = screen("0/7 CC", width=120, notes=notes_table([*notes, Note("lost", "error", "rank 9 is missing")]))
    assert "Notes: 1 error, 8 warnings\n" in text
    assert "warning  broken-event: ranks 0-7: rank0.json: a bare quote at byte 12 (and 7 more like it)\n" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_hostile_text_neither_escapes_nor_overflows(width):
    run = lanes.run("0/7 CC..CC\n0/20 NNN...")
    work = run.sources[0, 0].tables["work"]
    run.sources[0, 0].tables["work"] = work.assign(name=work["name"].cat.rename_categories(lambda name: name + HOSTILE))
    ranks = run.ranks.assign(host=HOSTILE, device=HOSTILE, backend=HOSTILE)
    notes = notes_table([Note(HOSTILE, "warning", HOSTILE)])
    text = account_text(Analysis(replace(run, path=HOSTILE, ranks=ranks, notes=notes)), width=width)
    assert all(line.isprintable() for line in text.split("\n"))
    assert "[red]evil[/red]:smile:" in text
    assert len(text) < 10_000
    assert width < 80 or max(cell_len(line) for line in text.split("\n")) <= width


def test_piped_text_has_no_colour_and_a_terminal_has():
    assert "\x1b" not in screen(TWO_RANKS)
    assert "\x1b[" in screen(TWO_RANKS, colour=True)


def test_the_run_is_not_changed_by_being_shown():
    run = lanes.run(TWO_RANKS)
    before = run.ranks.copy(deep=True)
    account_text(Analysis(run))
    assert run.ranks.equals(before)
