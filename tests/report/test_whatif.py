import json

from tests.replay.drawn import TWO_RANKS, analysis
from tracekit.report.json import json_text
from tracekit.report.whatif import whatif_document, whatif_text


def screen(drawing=TWO_RANKS, **options):
    asked = analysis(drawing)
    return whatif_text(asked.whatif, asked.run, **options)


def test_the_replay_error_is_always_shown():
    assert "replayed with the measured durations it takes 11.00 µs: 0.00 % off" in " ".join(screen().split())


def test_what_saves_nothing_is_left_out_unless_asked_for():
    assert "rank 0 worked like its peers" not in screen()
    assert "rank 0 worked like its peers" in screen(width=120, every=True)


def test_slowdown_and_path():
    text = " ".join(screen().split())
    assert (
        "Slowdown 1.222: with all work at its mean and all transfers at their median a step would take 9.00 µs" in text
    )
    assert "other compute 8.00 µs 73% rank 1 100%" in text


def test_a_replay_that_is_far_off_is_not_to_be_trusted():
    late = "." * 5000
    text = " ".join(
        screen(f"""
        step   {"0" * 5010}
        0/main ab{late}........
        0/7    .C{late}CCCC....  by=ab
    """).split()
    )
    assert "Not to be trusted for this run: the replay is more than 5% off" in text
    assert "than lanes, launches and waits explain" in text


def test_no_line_is_wider_than_asked():
    assert max(map(len, screen(width=60).splitlines())) <= 60


def test_json_is_strict():
    asked = analysis()
    told = json.loads(json_text(whatif_document(asked.whatif, asked.run)))
    assert told["steps"][0]["measured_ns"] == 11_000
    assert sum(one["length_ns"] for one in told["critical_path"]) == told["step_ns"]
