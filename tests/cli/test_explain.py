from tracekit import cli


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
