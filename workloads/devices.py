"""Which device computes and which backend communicates."""

from __future__ import annotations

import torch
import torch.distributed as dist

from .errors import WrongUse


def choose(name: str, local_rank: int, local_ranks: int, backend: str | None) -> tuple[torch.device, str]:
    """The device of this rank and the backend between ranks.

    `auto` is the accelerator where there is one, else the CPU. WrongUse where the device is not here, or where there
    are more ranks than devices and the backend cannot share them.
    """
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    kind = (accelerator.type if accelerator else "cpu") if name == "auto" else name
    if kind == "cpu":
        return torch.device("cpu"), backend or "gloo"
    if accelerator is None or kind != accelerator.type:
        raise WrongUse(f"no device {kind!r} here; there is {accelerator.type if accelerator else 'cpu'!r}")
    backend = backend or dist.get_default_backend_for_device(accelerator)
    count = torch.accelerator.device_count()
    if local_ranks > count and backend != "gloo":
        raise WrongUse(
            f"{local_ranks} ranks on {count} {kind} devices; {backend} needs one each, --backend gloo shares"
        )
    device = torch.device(kind, local_rank % count)
    torch.accelerator.set_device_index(device.index)
    return device, backend


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all that was asked of it."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
