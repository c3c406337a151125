import pytest

from tests.rules.drawn import LOADING, found, healthy, job, late
from tracekit.rules import blocking_copies


def step(*copying, ranks=2, options="op=host_to_device"):
    """A step of 16 us, in which some ranks copy for 4 us before they compute."""
    lines = []
    for rank in range(ranks):
        copies = rank in copying
        compute = f".{'.' * 4 * copies}CCCCcccc{'.' * (8 - 4 * copies)}"
        comm = f".{'.' * (12 if copies else 8)}{'N' * (3 if copies else 7)}."
        lines += [
            f"{rank}/main abcSSSSSSSSSSSSSS",
            f"{rank}/7 {compute} by=bb",
            f"{rank}/20 {comm} by=c",
            f"{rank}/7 .{('MMMM' if copies else '....')}............ by={'a' if copies else ''} {options}".replace(
                "by= ", ""
            ),
        ]
    return "\n".join(lines)


def test_all_ranks_copy():
    """4 of 17 us on both, from memory that is not pinned, as the drawings' copies are named."""
    [finding] = found(blocking_copies, job(step(0, 1), step(0, 1)))
    assert (finding.code, finding.ranks, finding.cost_ns) == ("blocking-copies", (0, 1), 4000)
    assert finding.title == "copies that nothing hides take 0.004 ms a step"
    assert finding.evidence == (
        "24% of the step the device only copies",
        "100% of all copying is host to device, from or to memory that is not pinned",
    )
    assert finding.advice.startswith("pin memory")


def test_one_rank_copies():
    [finding] = found(blocking_copies, job(step(1), step(1)))
    assert finding.ranks == (1,)
    assert finding.cost_ns == 4000  # rank 0 waits so long
    assert finding.title == "copies that nothing hides take 0.004 ms a step on rank 1"


def test_copies_on_the_device_are_no_matter_of_pinning():
    [finding] = found(blocking_copies, job(*[step(0, 1, options="op=device_to_device")] * 2))
    assert finding.evidence[1] == "100% of all copying is device to device"
    assert finding.advice.startswith("views instead of copies")


HIDDEN = "step 00001111\n0/7 CCCCCCCC\n0/21 MMM.MMM.\n1/7 CCCCCCCC"
LITTLE = f"step {'0' * 201}{'1' * 201}\n0/7 {(('C' * 200) + '.') * 2}\n0/21 {(('.' * 200) + 'M') * 2}"


@pytest.mark.parametrize(
    "drawing",
    [
        job(healthy(), healthy()),
        job(step(), step(0, 1), step()),  # in one step only
        job(late(LOADING), late(LOADING)),
        HIDDEN,
        LITTLE,
    ],
)
def test_silent(drawing):
    assert found(blocking_copies, drawing) == []
