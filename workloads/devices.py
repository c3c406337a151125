"""Which device computes and which backend communicates."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass

import torch
import torch.distributed as dist

from .errors import WrongUse


@dataclass(frozen=True)
class Device:
    """Where a rank computes. `name` is cpu, emulated, or the accelerator's type."""

    name: str
    place: torch.device
    backend: str

    @property
    def column(self) -> str:
        """Its column in the table of faults: cpu, emulated or accelerator."""
        return self.name if self.place.type == "cpu" else "accelerator"

    def synchronize(self) -> None:
        """Wait until it has done all that was asked of it."""
        if self.place.type != "cpu":
            torch.accelerator.synchronize(self.place)

    def require_transfers(self) -> None:
        """Raise WrongUse where send and receive cannot reach its memory: gloo's own reach the host's only."""
        if self.place.type != "cpu" and self.backend == "gloo":
            raise WrongUse(
                f"gloo sends and receives host memory only, not {self.name}'s: --device cpu, or its own backend"
            )

    def peak_memory(self) -> dict[str, int | str]:
        """The most that was held so far: by the accelerator's allocator, or, on a CPU, by the whole process."""
        if self.place.type != "cpu":
            return {"bytes": torch.accelerator.max_memory_allocated(self.place), "of": "device allocator"}
        kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {"bytes": kibibytes if sys.platform == "darwin" else kibibytes * 1024, "of": "process resident set"}


def choose(name: str, backend: str | None, local_rank: int, local_ranks: int) -> Device:
    """The device of this rank and the backend between ranks.

    `auto` is the accelerator where there is one, else the CPU. WrongUse where the device is not here, or where there
    are more ranks than devices and the backend cannot share them.
    """
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    here = accelerator.type if accelerator else "cpu"
    kind = here if name == "auto" else name
    if kind in ("cpu", "emulated"):
        return Device(kind, torch.device("cpu"), backend or "gloo")
    if accelerator is None or kind != accelerator.type:
        raise WrongUse(f"no device {kind!r} here: there is {here!r}, and 'emulated'")
    backend = backend or dist.get_default_backend_for_device(accelerator)
    count = torch.accelerator.device_count()
    if local_ranks > count and backend != "gloo":
        raise WrongUse(
            f"{local_ranks} ranks, but {count} {kind} devices: {backend} needs one each (--backend gloo shares)"
        )
    place = torch.device(kind, local_rank % count)
    torch.accelerator.set_device_index(place.index)
    return Device(kind, place, backend)
