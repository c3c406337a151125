from tests import lanes
from tracekit.analysis import Analysis
from tracekit.report.text import account_text

TWO_RANKS = """
    step 0000000000
    0/7  CC........
    0/20 ..NNNNNNNN
    1/7  CCCCCCC...
    1/20 .......NNN
"""


def screen(drawing, width=80):
    return account_text(Analysis(lanes.run(drawing)), width=width)


def many(ranks):
    return "\n".join(f"{rank}/7 {'C' * (rank + 1)}" for rank in range(ranks))


def rank_rows(text):
    """The cells of the table's rows, without its headings."""
    table = text.partition("     step ")[2].partition("\n\n")[0]
    return [line.split() for line in table.splitlines()[1:]]


def test_the_worst_rank_stands_first():
    assert rank_rows(screen(TWO_RANKS)) == [
        ["1", "10.00", "10.00", "7.00", "70", "3.00", "30", "0.00", "0", "0.00", "0"],
        ["0", "10.00", "5.00", "2.00", "20", "8.00", "80", "0.00", "0", "0.00", "0"],
        ["mean", "10.00", "7.50", "4.50", "45", "5.50", "55", "0.00", "0", "0.00", "0"],
    ]


def test_what_own_time_is_stands_above_the_table():
    assert "own time, which is step - waits for other ranks" in screen(TWO_RANKS)
    assert "own time, which is step - exposed comm" in screen("0/7 CC\n1/7 CC")


def test_own_time_that_is_not_known_is_a_dash():
    assert rank_rows(screen(f"{TWO_RANKS}\n2/7 CCCCCCCCCC"))[2][:3] == ["2", "10.00", "-"]


def test_a_single_rank_has_no_order_and_no_mean():
    text = screen("0/7 CC..CC")
    assert "worst first" not in text
    assert "own" not in text
    assert [row[0] for row in rank_rows(text)] == ["0"]
    assert "No communication." in text


def test_of_many_ranks_the_worst_are_shown_and_the_rest_counted():
    text = screen(many(40))
    assert [row[0] for row in rank_rows(text)[:17]] == [*map(str, range(39, 23, -1)), "mean"]
    assert "\nand 24 more ranks, own 1.00 to 24.00\n" in text


def test_windows_are_told_beside_their_rank():
    assert [row[0] for row in rank_rows(screen("0.0/7 CC\n0.1/7 ..CCC"))] == ["0/1", "0/0", "mean"]


def test_no_complete_step_is_said():
    assert "No step is complete" in screen("step 0000  incomplete=0\n0/7 CC..")


def test_ranks_that_averaged_fewer_steps_are_told():
    text = screen("0/step 001122  incomplete=2\n0/7 CCCCCC\n1/step 001122\n1/7 CCCCCC")
    assert "mean over 2 to 3 complete steps" in text


def test_a_wide_screen_draws_the_steps():
    bar = rank_rows(screen(TWO_RANKS, width=122))[0][-1]
    assert (bar.count("█"), bar.count("▓")) == (28, 12)
