from tests import lanes
from tests.replay.test_joined import NO_PLACES
from tracekit.replay.joined import joined
from tracekit.replay.rank import look_at
from tracekit.replay.work import CLASSES


def rank(drawing, number=0):
    return look_at(joined(lanes.run(drawing), NO_PLACES).rank(number), 0)


def blocks(found):
    """Since when, until when, and for the work that ends when, in us; -1 for none."""
    told = found.blocks
    ends = [int(found.work.end[work]) // 1000 if work >= 0 else -1 for work in told.awaited]
    return list(zip((told.since // 1000).tolist(), (told.at // 1000).tolist(), ends, strict=True))


def host_us(found):
    cls = found.told.instances.cls
    told = {CLASSES[code]: 0 for code in cls}
    for doing, length in zip(found.timeline.doing, found.timeline.lengths, strict=True):
        if doing >= 0:
            told[CLASSES[cls[doing]]] += int(length) // 1000
    return told


def test_a_synchronising_call_waits_for_the_device():
    found = rank("""
        step   000000000000
        0/main a.SSSSSb....
        0/7    .CCCCCC.CCC.  by=ab
    """)
    assert blocks(found) == [(2, 7, 7)]


def test_a_synchronising_call_on_an_idle_device_is_the_hosts_time():
    found = rank("""
        step   000000000000
        0/main a.....SSb...
        0/7    .CC......CC.  by=ab
    """)
    assert blocks(found) == []


def test_a_copy_that_returns_with_the_work_waits():
    """A launch of 30 us that ends just after its own copy."""
    found = rank(f"""
        step   {"0" * 60}
        0/main a.{"b" * 31}c..
        0/7    .C{"." * 18}{"M" * 12}..CC  by=abc
    """)
    assert blocks(found) == [(2, 33, 32)]


def test_a_host_that_does_nothing_while_work_ends_waits_for_it():
    """1.5 ms without anything recorded, and the next launch right where the kernel ends."""
    long = 1500
    found = rank(f"""
        step   {"0" * (long + 20)}
        0/main a{"." * long}b....
        0/7    .{"C" * long}.CC..  by=ab
    """)
    assert blocks(found) == [(0, long + 1, long + 1)]


def test_a_host_that_is_seen_to_work_does_not_wait():
    long = 1500
    found = rank(f"""
        step   {"0" * (long + 20)}
        0/main a{"." * long}b....
        0/main .{"O" * long}.....
        0/7    .{"C" * long}.CC..  by=ab
    """)
    assert blocks(found) == []
    assert host_us(found)["host"] >= long


def test_a_time_in_which_nothing_is_seen_is_told_apart():
    long = 1500
    found = rank(f"""
        step   {"0" * (long + 20)}
        0/main a{"." * long}b....
        0/7    .C{"." * long}CC..  by=ab
    """)
    assert found.blocks.unseen.tolist() == [False, True]
    assert found.blocks.at.tolist()[-1] == (long + 1) * 1000


def test_data_loading_is_not_the_hosts_other_time():
    found = rank("""
        step   000000000000
        0/main DDDDa.......
        0/7    .....CCC....  by=a
    """)
    told = host_us(found)
    assert told["data loading"] == 4


def test_a_cpu_rank_waits_where_a_call_ends_in_its_gap():
    """It computes 2 us, waits 6 of 7 us for the call, then computes again."""
    found = rank("""
        step   000000000000
        0/main CC.......CC.
        0/comm ..NNNNNN....
        1/main CCCCCC......
        1/comm ......NN....
    """)
    assert (2, 9, 8) in blocks(found)
