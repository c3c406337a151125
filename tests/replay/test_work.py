from tests import lanes
from tests.replay.test_joined import NO_PLACES
from tracekit.replay.joined import joined
from tracekit.replay.work import CLASSES, rank_work


def told(drawing):
    return rank_work(joined(lanes.run(drawing), NO_PLACES).rank(0), 0)


def classes(drawing):
    """The class of each piece of device work in order of start."""
    found = told(drawing)
    return [CLASSES[found.instances.cls[nth]] if nth >= 0 else "call" for nth in found.work.instance]


def test_micro_batches_are_told_by_annotations():
    assert classes("""
        step   000000000000
        0/main ab.c........
        0/main A...........  op=forward:0:0
        0/main .A..........  op=backward:0:0
        0/7    ..CCccCC....  by=abc
    """) == ["forward", "backward", "other compute"]


def test_each_micro_batch_is_an_instance():
    found = told("""
        step   000000000000
        0/main ab..........
        0/main A...........  op=forward:0:0
        0/main .A..........  op=forward:0:1
        0/7    ..CCcc......  by=ab
    """)
    assert len(set(found.work.instance.tolist())) == 2


def test_autograd_tells_backward_and_the_optimizers_span_the_optimizer():
    assert classes("""
        step   000000000000
        0/main a.b.c.d.....
        0/main ..OO........  name=autograd::engine::evaluate_function
        0/main ....AA......  name=Optimizer.step#SGD.step
        0/7    .CCccCCcc...  by=abcd
    """) == ["forward", "backward", "optimizer", "other compute"]


def test_copies_and_calls():
    assert classes("""
        step   000000000000
        0/main abc.........
        0/7    .CCMM.......  by=ab
        0/20   .....NN.....  by=c
    """) == ["other compute", "copies", "call"]


def test_a_step_much_of_which_has_no_launch_is_no_example():
    """Two of step 0's three kernels have no launch: it counts in no mean, and stays as measured."""
    found = told("""
        step   000000001111
        0/main a.......b...
        0/7    .CC.CC...CC.  by=a-b
        0/8    .CC.........
    """)
    assert found.example.tolist() == [False, True]
    assert set(found.instances.step.tolist()) == {1}


def test_what_a_cpu_rank_computes_is_its_programs():
    found = told("""
        step   000000000000
        0/main CCC...CC....
        0/comm ...NN.......
        1/main CCC...CC....
        1/comm ...NN.......
    """)
    start, end, _ = found.program
    assert (start // 1000).tolist() == [0, 6]
    assert (end // 1000).tolist() == [3, 8]
    assert found.work.is_comm.tolist() == [True]
