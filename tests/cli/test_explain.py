from tracekit import cli
from tracekit.diagnosis import rule_modules


def test_a_measure_is_explained(capsys):
    assert cli.main(["explain", "breakdown"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("breakdown: Where does each rank's time go")
    assert "exposed_comm_ns" in out


def test_without_a_name_all_are_listed(capsys):
    assert cli.main(["explain"]) == 0
    assert "breakdown" in capsys.readouterr().out


def test_an_unknown_name_is_one_line_and_exit_2(capsys):
    assert cli.main(["explain", "no\nsuch"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "breakdown" in err


def test_a_finding_is_explained(capsys):
    assert cli.main(["explain", "slow-device"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("slow-device: A device that computes more slowly than others that do the same.\n")
    for part in ("What it means: ", "How to confirm: ", "What to do: ", "Published: "):
        assert f"\n{part}" in out


def test_findings_are_listed_too(capsys):
    assert cli.main(["explain"]) == 0
    assert "\nFindings\n  blocking-copies" in capsys.readouterr().out


def test_all_rules_as_markdown(capsys):
    assert cli.main(["explain", "--markdown"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# Findings\n")
    assert out.count("\n## `") == len(rule_modules())
    assert "\n- **What to do:** " in out


def test_an_unknown_name_lists_the_codes_as_well(capsys):
    assert cli.main(["explain", "slow-devices"]) == 2
    assert "slow-device" in capsys.readouterr().err.partition("there are")[2]
