"""How a job's ranks are split along axes, and which ranks form each group.

Ranks are counted as Megatron-LM counts them ("tp-cp-ep-dp-pp"): tensor fastest, so that its groups are neighbours; then
context, data, and pipeline slowest. With tensor 2, data 2, pipeline 2:

              pipeline 0    pipeline 1
    data 0    0 1           4 5           tensor: 0 1 | 2 3 | 4 5 | 6 7
    data 1    2 3           6 7           data: 0 2 | 1 3 | 4 6 | 5 7    pipeline: 0 4 | 1 5 | 2 6 | 3 7

The order is by traffic: tensor parallelism talks in each layer and hides nothing; a pipeline sends one array per
micro-batch to one neighbour and may be farthest apart. Expert parallelism divides the data axis: neighbours along data
hold different experts (`expert`), and those `expert` apart the same ones (`expert_data`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tracekit.errors import WrongUse
from tracekit.plan import pipeline as schedules
from tracekit.plan.hardware import Cluster
from tracekit.plan.transformer import Transformer

Checkpointing = Literal["none", "selective", "full"]
CHECKPOINTING: tuple[Checkpointing, ...] = ("none", "selective", "full")
AXES = ("tensor", "context", "data", "pipeline", "expert", "expert_data", "gradients")
"""`gradients` is data × context: the ranks that hold the same parameters, dense ones, and share their gradients."""

ONE_STAGE = (schedules.GPIPE, schedules.ONE_F_ONE_B, schedules.ZERO_BUBBLE, schedules.ZERO_BUBBLE_H2)
ROUNDS = (schedules.INTERLEAVED, schedules.INTERLEAVED_ZERO_BUBBLE)
TWO_STAGES = (schedules.ZBV, schedules.DUALPIPEV)


@dataclass(frozen=True)
class Layout:
    """Degrees of each split, and how a step is made of micro-batches; WrongUse where they do not fit each other.

    `micro_batch` samples per micro-batch and rank, `microbatches` of them per step (without a pipeline: gradient
    accumulation). `zero_stage`: 0 replicates all states over `data` × `context`, 1 shards the optimizer's, 2 also
    gradients, 3 also parameters (FSDP). `stages_per_rank` and `schedule` are the pipeline's. `checkpointing` of
    activations: none, selective (attention's scores are computed again), full (all but each layer's input).
    `fused_attention` (FlashAttention) never stores the scores. `split_vocabulary`: tensor parallelism splits embedding
    and output layer as well. `reduce_each`: gradients are reduced after each micro-batch, not once a step (DDP without
    `no_sync`; ZeRO-2 and 3 must).
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    zero_stage: int = 0
    micro_batch: int = 1
    microbatches: int = 1
    stages_per_rank: int = 1
    schedule: str = schedules.ONE_F_ONE_B
    checkpointing: Checkpointing = "none"
    sequence_parallel: bool = False
    fused_attention: bool = False
    split_vocabulary: bool = True
    reduce_each: bool = False

    def __post_init__(self) -> None:
        for name in ("data", "tensor", "pipeline", "context", "expert", "micro_batch", "microbatches"):
            if getattr(self, name) < 1:
                raise WrongUse(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.data % self.expert:
            raise WrongUse(f"expert {self.expert} must divide data {self.data}: experts are shared out along it")
        if self.zero_stage not in (0, 1, 2, 3):
            raise WrongUse(f"ZeRO has stages 0 to 3, not {self.zero_stage}")
        if self.checkpointing not in CHECKPOINTING:
            raise WrongUse(f"checkpointing is one of {', '.join(CHECKPOINTING)}, not {self.checkpointing!r}")
        self._check_schedule()

    def _check_schedule(self) -> None:
        if self.schedule not in schedules.WAITS_PER_MICROBATCH:
            raise WrongUse(f"no schedule is named {self.schedule!r}; there are {', '.join(schedules.SCHEDULES)}")
        stages = self.stages_per_rank
        if stages < 1 or (self.schedule in ONE_STAGE and stages != 1):
            raise WrongUse(f"schedule {self.schedule} has 1 stage per rank, not {stages}")
        if self.schedule in TWO_STAGES and stages != 2:
            raise WrongUse(f"schedule {self.schedule} has 2 stages per rank, not {stages}")
        if self.schedule in ROUNDS and self.microbatches % self._rounds:
            raise WrongUse(
                f"schedule {self.schedule} takes micro-batches in rounds over the {self.pipeline} ranks: "
                f"{self.microbatches} do not divide by {self._rounds}"
            )

    @property
    def _rounds(self) -> int:
        return max(1, self.microbatches // self.pipeline)

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.tensor * self.context * self.data * self.pipeline

    @property
    def batch(self) -> int:
        """Samples per step, of all ranks."""
        return self.data * self.micro_batch * self.microbatches

    @property
    def vocabulary_parts(self) -> int:
        """Into how many parts embedding and output layer are split."""
        return self.tensor if self.split_vocabulary else 1

    @property
    def reductions(self) -> int:
        """How many times a step gradients are reduced."""
        return self.microbatches if self.reduce_each or self.zero_stage >= 2 else 1

    @property
    def shards(self) -> int:
        """How many ranks share states under ZeRO: data × context."""
        return self.data * self.context

    def size(self, axis: str) -> int:
        """Ranks in each group of an axis."""
        return self._axis(axis)[0]

    def groups(self, axis: str) -> list[list[int]]:
        """The ranks of each group along an axis, in its order; WrongUse for an axis that is none of AXES."""
        size, stride = self._axis(axis)
        block = size * stride
        return [
            list(range(first + offset, first + offset + block, stride))
            for first in range(0, self.ranks, block)
            for offset in range(stride)
        ]

    def group(self, axis: str) -> list[int]:
        """The axis's group that rank 0 is in."""
        size, stride = self._axis(axis)
        return list(range(0, size * stride, stride))

    def inside_node(self, axis: str, cluster: Cluster) -> bool:
        """Whether every group of the axis stays inside a node, ranks filling node after node."""
        size, stride = self._axis(axis)
        per_node, reach = cluster.gpus_per_node, (size - 1) * stride
        if reach == 0 or self.ranks <= per_node:
            return True
        if per_node % (size * stride) == 0:
            return True
        return reach < per_node and all(
            cluster.node(group[0]) == cluster.node(group[-1]) for group in self.groups(axis)
        )

    def _axis(self, axis: str) -> tuple[int, int]:
        """Ranks in a group, and how far its neighbours are apart."""
        data = self.tensor * self.context
        known = {
            "tensor": (self.tensor, 1),
            "context": (self.context, self.tensor),
            "data": (self.data, data),
            "expert": (self.expert, data),
            "expert_data": (self.data // self.expert, data * self.expert),
            "gradients": (self.context * self.data, self.tensor),
            "pipeline": (self.pipeline, data * self.data),
        }
        if axis not in known:
            raise WrongUse(f"no axis is named {axis!r}; there are {', '.join(AXES)}")
        return known[axis]


def check_model(layout: Layout, model: Transformer) -> None:
    """WrongUse, with both numbers, where the model cannot be split so.

    Stages need not be alike: each but the last has as many layers, and the last at least one.
    """
    for parts, of, name, what in (
        (layout.tensor, model.heads, "tensor", "heads"),
        (layout.tensor, model.width, "tensor", "columns of a feed-forward"),
        (layout.context, model.sequence, "context", "tokens of a sequence"),
        (layout.expert, model.experts, "expert", "experts"),
    ):
        if of % parts:
            raise WrongUse(f"{of} {what} do not divide by {name} {parts}")
    stages = layout.pipeline * layout.stages_per_rank
    if (stages - 1) * layers_of_stage(layout, model) >= model.layers:
        raise WrongUse(f"{model.layers} layers cannot be shared out to {stages} stages so that each has some")


def layers_of_stage(layout: Layout, model: Transformer) -> int:
    """Layers of each stage but the last, which may have fewer."""
    return math.ceil(model.layers / (layout.pipeline * layout.stages_per_rank))
