import pytest
import torch

from workloads import devices
from workloads.errors import WrongUse


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setattr(torch.accelerator, "set_device_index", lambda index: None)


def test_auto_is_the_cpu_where_there_is_nothing_else(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: None)
    assert devices.choose("auto", None, 0, 8) == devices.Device("cpu", torch.device("cpu"), "gloo")


def test_auto_is_the_accelerator_where_there_is_one(two_gpus):
    assert devices.choose("auto", None, 1, 2) == devices.Device("cuda", torch.device("cuda", 1), "nccl")


def test_more_ranks_than_gpus_are_refused_with_both_numbers(two_gpus):
    with pytest.raises(WrongUse, match="4 ranks, but 2 cuda devices: nccl needs one each"):
        devices.choose("auto", None, 0, 4)


def test_gloo_shares_gpus(two_gpus):
    assert devices.choose("cuda", "gloo", 3, 4).place == torch.device("cuda", 1)


def test_the_emulated_device_computes_on_the_cpu():
    device = devices.choose("emulated", None, 0, 8)
    assert (device.place.type, device.column, device.backend) == ("cpu", "emulated", "gloo")


def test_gloo_sends_host_memory_only():
    devices.Device("cpu", torch.device("cpu"), "gloo").require_transfers()
    devices.Device("cuda", torch.device("cuda", 0), "nccl").require_transfers()
    with pytest.raises(WrongUse, match="gloo sends and receives host memory only, not cuda's"):
        devices.Device("cuda", torch.device("cuda", 0), "gloo").require_transfers()
