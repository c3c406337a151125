"""Standing in front of a PyTorch operator, whoever calls it and on whatever device.

Every call passes the dispatcher's key BackendSelect once, below autograd and tensor subclasses and above all devices. A
function put there sees the arguments and decides when the operator goes on to its device. Going on releases Python's
lock, which calling a kernel object (`torch.library.get_kernel`) does not: gloo's threads need that lock while they hold
one of their own for which the call would wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Arguments = tuple[Any, ...]
Around = Callable[[Arguments, Callable[[], Any]], Any]


def intercept(library: torch.library.Library, name: str, around: Around) -> None:
    """From now on a call of `name` is `around(arguments, go_on)`, where `go_on()` gives the operator's own result.

    `name` is an operator of the library's namespace, such as `mm` or `add.Tensor`. Lasts as long as the library object.
    """
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(getattr(torch.ops, library.ns), packet), overload or "default")

    def intercepted(keys: torch._C.DispatchKeySet, *arguments: Any, **options: Any) -> Any:
        below = keys.remove(torch._C.DispatchKey.BackendSelect)
        return around(arguments, lambda: operator.redispatch(below, *arguments, **options))

    library.impl(name, intercepted, "BackendSelect", with_keyset=True)
