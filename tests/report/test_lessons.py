import pytest

from tracekit.report.lessons import LESSONS


def picture(belief):
    return next(one.picture() for one in LESSONS if belief in one.belief)


def lines(belief):
    return {trace.name: list(trace.y) for trace in picture(belief).data}


def test_ddp_holds_all_states_on_each_gpu_however_many_there_are():
    held = lines("DDP lets")
    assert all(len(set(values)) == 1 for values in held.values())
    assert held["optimizer states"][0] == pytest.approx(6 * held["weights"][0])  # Adam's 12 bytes beside 2


def test_sharded_states_halve_with_twice_the_gpus():
    held = lines("Sharding")
    assert held["weights"][1] == pytest.approx(held["weights"][0] / 2)
    assert held["activations"][-1] == held["activations"][0]


def test_a_ring_sends_less_than_twice_the_array():
    sent = lines("ring")["all-reduce, 1 GiB"]
    assert sent[:3] == [0.0, 1.0, 1.5]  # 2(n-1)/n
    assert max(sent) < 2


def test_fsdp_computes_as_many_samples_as_ddp():
    [bars] = picture("FSDP").data
    assert list(bars.x) == [8, 8, 1, 1]


def test_a_pipeline_of_4_with_8_micro_batches_idles_3_of_11():
    assert lines("pipeline is free")["4 stages"][3] == pytest.approx(100 * 3 / 11)


def test_tensor_parallelism_loses_beyond_a_node():
    each = lines("Tensor")
    assert each["tensor parallel"][4] < 0.7 * each["tensor parallel"][3]
    assert each["data parallel (FSDP)"][4] > 0.95 * each["data parallel (FSDP)"][3]


def test_accumulation_takes_as_many_times_as_long():
    once, *_, eight = lines("accumulation")["accumulated on 1 GPU"]
    assert eight > 6 * once


def test_replicas_diverge_without_averaging():
    apart = lines("Replicas")
    assert set(apart["gradients averaged"]) == {0.0}
    assert apart["each by itself"][-1] > 0.1
