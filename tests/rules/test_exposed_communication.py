from dataclasses import replace

import pytest

from tests import lanes
from tests.rules.drawn import analysis, found, job
from tracekit import Analysis
from tracekit.errors import NotMeasured
from tracekit.rules import exposed_communication


def step(*lines, ranks=2):
    """A step in which all ranks do the same."""
    return "\n".join(f"{rank}/{line}" for rank in range(ranks) for line in lines)


def the_finding(*lines):
    one = step(*lines)
    [finding] = found(exposed_communication, job(one, one))
    assert (finding.code, finding.ranks, finding.steps) == ("exposed-communication", (), ())
    return finding


LAUNCHED = "main abSSSSSSSSSSSSS"
COMPUTE = "7 .CCCCcccc...... by=aa"


def test_one_huge_bucket():
    """8 us of compute, then 4 us in which 100 MB are reduced."""
    finding = the_finding(
        "main abSSSSSSSSSSS", "7 .CCCCcccc.... by=aa", "20 .........NNNN by=b group=dp bytes=100000000"
    )
    assert finding.cost_ns == 4000
    assert finding.title == (
        "communication of the data axis is exposed: one bucket holds nearly all gradients and can start only when "
        "backward is over"
    )
    assert finding.evidence == ("0.004 ms a step and rank are exposed, waits for other ranks included; 0% is hidden",)
    assert "bucket_cap_mb" in finding.advice


def test_one_reduce_scatter_of_everything_is_one_bucket():
    finding = the_finding(LAUNCHED, COMPUTE, "20 .........NNNNNN by=b group=fsdp op=reduce_scatter bytes=100000000")
    assert (finding.cost_ns, "one bucket" in finding.title) == (6000, True)


def test_no_prefetch():
    """Each layer waits 2 us for its weights."""
    finding = the_finding(
        "main abcdSSSSSSSSSS",
        "7  ...CCCC..cccc. by=bd",
        "7  .W.W..........",
        "20 .NN....NN..... by=ac op=all_gather group=fsdp bytes=1000000",
    )
    assert 2000 <= finding.cost_ns <= 4000  # the first gather may run while the host still launches
    assert "weights are gathered when they are needed, not before" in finding.title
    assert "prefetch" in finding.advice


def test_weights_gathered_at_once():
    """After the optimizer, as with ZeRO-1: prefetching a layer is no advice for that."""
    finding = the_finding(LAUNCHED, COMPUTE, "20 .........NNNNNN by=b group=dp op=all_gather bytes=100000000")
    assert (finding.cost_ns, "weights are gathered all at once" in finding.title) == (6000, True)


def test_small_messages():
    """Six all-reduces of 1,000 bytes, each as long as its latency."""
    finding = the_finding(LAUNCHED, COMPUTE, "20 .........NnNnNn by=bbbbbb group=dp bytes=1000")
    assert finding.cost_ns == 6000
    assert "its messages are small (0.977 KiB in the median), so each costs its latency" in finding.title


def test_one_small_bucket_is_no_huge_one():
    finding = the_finding(LAUNCHED, COMPUTE, "20 .........NNNNNN by=b group=dp bytes=1000")
    assert "messages are small" in finding.title


def test_buckets_that_all_come_after_backward():
    finding = the_finding(LAUNCHED, COMPUTE, "20 .........NNnnNN by=bbb group=dp bytes=10000000")
    assert (finding.cost_ns, "none of it runs beside compute" in finding.title) == (6000, True)


def test_more_than_compute_hides():
    """Four buckets of 2 us each; two of them run beside the second kernel."""
    finding = the_finding(
        "main abSSSSSSSSSSS", "7 .CCCCcccc.... by=aa", "20 .....NNnnNNnn by=bbbb group=dp bytes=10000000"
    )
    assert finding.cost_ns == 4000
    assert "there is more of it than compute to hide it" in finding.title
    assert finding.evidence[0].endswith("50% is hidden")
    assert "a larger batch per GPU" in finding.advice


MICROBATCHES = (
    "main AAAAAAAA......... op=backward::0",
    "main ........AAAAAAAAA op=backward::1",
    "main abSSSSSScdSSSSSSS",
)


def test_gradients_reduced_in_every_microbatch():
    """3 us of reducing after each of two."""
    finding = the_finding(
        *MICROBATCHES, "7 .CCCC....cccc.... by=ac", "20 .....NNN.....NNNN by=bd group=dp bytes=1000000"
    )
    assert 6000 <= finding.cost_ns <= 7000
    assert "gradients are reduced in each of 2 micro-batches" in finding.title
    assert "no_sync" in finding.advice


def test_two_buckets_after_the_last_microbatch_are_not_reduced_in_each():
    """As many calls of one size as there are micro-batches, but all of them in the last one."""
    finding = the_finding(
        *MICROBATCHES, "7 .CCCC....cccc.... by=ac", "20 .............NNnn by=dd group=dp bytes=1000000"
    )
    assert "micro-batches" not in finding.title
    assert "none of it runs beside compute" in finding.title


TENSOR = (
    "main abcdSSSSSSSSS",
    "7 .CCCC..cccc.. by=ac",
    "7 ..W..........",
    "20 .....NN....NN by=bd group=tp bytes=1000000",
)


@pytest.mark.parametrize(
    ("hosts", "reason"), [(["a", "b"], "groups span hosts"), (["a", "a"], "more of it than compute")]
)
def test_tensor_parallel_across_hosts(hosts, reason):
    run = lanes.run(job(step(*TENSOR), step(*TENSOR)))
    run = replace(run, ranks=run.ranks.assign(host=hosts))
    [finding] = exposed_communication.check(Analysis(run))
    assert (finding.cost_ns, finding.title.split(":")[0]) == (4000, "communication of the tensor axis is exposed")
    assert reason in finding.title
    assert "larger batch per GPU" not in finding.advice  # moves as much more as it computes


def test_the_same_ranks_as_data_and_expert_group():
    """2 us of all-to-all and 4 us of all-reduce, told apart."""
    one = step(
        "main abcdSSSSSSSSSSS",
        "7  .CCCC..cccc.... by=ac",
        "20 .....NN........ by=b group=ep op=all_to_all bytes=1000000",
        "20 ...........NNNN by=d group=dp bytes=100000000",
    )
    told = {finding.title.split(":")[0].split()[3]: finding for finding in found(exposed_communication, job(one, one))}
    assert {axis: finding.cost_ns for axis, finding in told.items()} == {"data": 4000, "expert": 2000}
    assert "one bucket" in told["data"].title
    assert "all-to-all" in told["expert"].advice


LONG = "C" * 100


@pytest.mark.parametrize(
    "lines",
    [
        ("main abSSSSSSSSS", "7 .CCCCcccc.. by=aa", "20 .....NNNN.. by=b group=dp bytes=1000"),  # hidden
        (f"main abSS{'S' * 100}", f"7 .{LONG}... by=a", f"20 .{'.' * 100}N.. by=b group=dp bytes=10000000"),  # 1 %
    ],
)
def test_silent(lines):
    assert found(exposed_communication, job(step(*lines), step(*lines))) == []


def test_waiting_for_a_late_rank_is_not_the_transfers_fault():
    """Rank 0 is exposed for 101 us, of which 100 are waits for rank 1."""
    one = f"""
        0/main abSS{"S" * 100}
        0/7    .C{"." * 102} by=a
        0/20   ..{"N" * 101}. by=b group=dp bytes=10000000
        1/main abSS{"S" * 100}
        1/7    .C{"C" * 100}.. by=a
        1/20   ..{"." * 100}N. by=b group=dp bytes=10000000
    """
    assert found(exposed_communication, job(one, one)) == []


def test_without_launches_no_replay_tells_but_waits_still_do_not_count():
    one = f"""
        0/7    C{"." * 111}
        0/20   .{"N" * 101}..........  group=dp bytes=10000000
        1/7    C{"C" * 100}...........
        1/20   .{"." * 100}N..........  group=dp bytes=10000000
    """
    assert found(exposed_communication, job(one, one)) == []


@pytest.mark.parametrize("drawing", ["0/7 CCC...\n0/20 ...NNN", "0/7 CCC\n1/7 CCC"])
def test_nobody_to_communicate_with(drawing):
    with pytest.raises(NotMeasured):
        list(exposed_communication.check(analysis(drawing)))
