from types import SimpleNamespace

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests import lanes
from tests.rules.drawn import analysis, healthy, job, long, slow
from tracekit.analysis import Analysis
from tracekit.model import Finding
from tracekit.report.findings import findings_section

STEP = f"step {'0' * 100}\n0/7 {'C' * 100}\n1/7 {'C' * 100}"
HOSTILE = "x\x1b[31m\x07[red]evil[/red]:smile:\r\n\u202e\x9b2J"


def shown(findings, width=120, drawing=STEP, colour=False):
    run = lanes.run(drawing)
    console = Console(width=width, force_terminal=colour, record=False)
    with console.capture() as caught:
        for part in findings_section(SimpleNamespace(run=run, findings=tuple(findings))):
            console.print(part)
    return caught.get()


def of_job(drawing):
    console = Console(width=200)
    with console.capture() as caught:
        for part in findings_section(analysis(drawing)):
            console.print(part)
    return caught.get()


def test_a_finding_with_its_cost_its_reasons_and_what_to_do():
    finding = Finding(
        "slow-device", "error", "rank 1 is slow", (1,), (0,), 25_000, ("one reason", "another"), "swap it"
    )
    lines = [line.strip() for line in shown([finding]).splitlines()]
    assert lines == [
        "Findings: 1 cause that costs 25.00 µs a step, 25 % of it",
        "error  slow-device  25.00 µs a step, 25 %  rank 1 is slow",
        "one reason", "another", "do: swap it",
    ]  # fmt: skip


def test_several_are_summed_up():
    costs = [
        Finding("a", "error", "a", cost_ns=25_000),
        Finding("b", "info", "b", cost_ns=2_000),
        Finding("c", "info", "c"),
    ]
    assert shown(costs).startswith("Findings: 2 causes that cost 27.00 µs a step, 27 % of it\n")


def test_a_healthy_run_says_so():
    told = of_job(job(*(long(healthy()) for _ in range(3))))
    assert told == "Findings: nothing is wrong: no cause that is looked for costs 1% of the step or more\n"


def test_what_costs_nothing_is_no_cause():
    told = shown([Finding("warm-up", "info", "step 0 takes longer")])
    assert told.startswith("Findings: nothing is wrong")
    assert "step 0 takes longer" in told


@pytest.mark.parametrize("code", ["cannot-tell", "incomplete-data"])
def test_silence_about_what_cannot_be_told_is_no_clean_bill(code):
    told = shown([Finding(code, "info", "some causes cannot be told")])
    assert told.startswith("Findings: none, of what this run can tell")
    assert "nothing is wrong" not in told


def test_without_a_complete_step_nothing_can_be_told():
    assert shown([], drawing=f"{STEP.splitlines()[0]} incomplete=0\n0/7 CC").startswith(
        "Findings: none can be told: no step of the run is complete"
    )


def test_the_severity_has_a_colour_on_a_terminal_only():
    finding = Finding("a", "error", "a", cost_ns=25_000)
    assert "\x1b[1;31merror" in shown([finding], colour=True)
    assert "\x1b" not in shown([finding])


@pytest.mark.parametrize("width", [80, 200])
def test_hostile_text_in_titles_reasons_and_advice(width):
    finding = Finding(HOSTILE, "error", HOSTILE, cost_ns=25_000, evidence=(HOSTILE + "y" * 100_000,), advice=HOSTILE)
    text = shown([finding], width=width)
    assert all(line.isprintable() for line in text.split("\n"))
    assert "[red]evil[/red]:smile:" in text
    assert len(text) < 4000
    assert max(cell_len(line) for line in text.split("\n")) <= width


def test_hostile_names_in_traces_do_not_reach_the_terminal():
    """Names of kernels, groups, hosts and files of a job with a finding."""
    run = lanes.run(job(slow(2), slow(2), slow(2)).replace("by=bdf", "by=bdf group=GROUP"))
    for source in run.sources.values():
        work = source.tables["work"]
        source.tables["work"] = work.assign(name=work["name"].cat.rename_categories(lambda name: HOSTILE + name))
    run.calls["group"] = HOSTILE
    run.ranks["host"] = HOSTILE
    run.ranks["file"] = HOSTILE
    console = Console(width=120)
    with console.capture() as caught:
        for part in findings_section(Analysis(run)):
            console.print(part)
    assert "rank 2's device is slow" in caught.get()
    assert all(line.isprintable() for line in caught.get().split("\n"))
