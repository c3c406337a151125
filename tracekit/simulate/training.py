"""A rank's step of training as a program: data parallel, sharded, tensor parallel, in a pipeline, or all of these.

- Data parallel (ZeRO stage 0): gradients are reduced in buckets in the order in which backward makes them, while it
  goes on. ZeRO 1 and 2: a reduce-scatter instead, and an all-gather of weights, layer by layer, while the next step's
  forward begins.
- ZeRO 3 (FSDP): each layer's weights are gathered before its forward and before its backward, one layer ahead; its
  gradients are reduced and scattered after its backward.
- Tensor parallel: a collective after each half of a layer (with sequence parallel before it too), which the next kernel
  waits for.
- Pipeline: actions in the schedule's order; a receive is posted before its action, a send follows it; between two
  ranks both ends keep one order, as NCCL needs it. Each tensor rank sends its part; the first and last stage add up
  the gradients of tied embeddings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracekit.plan.orders import orders, place_of, stages_of
from tracekit.plan.schedule import BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, FORWARD, Action
from tracekit.simulate import kernels
from tracekit.simulate.costs import SMALL_NS, Costs, Half, Piece
from tracekit.simulate.faults import total
from tracekit.simulate.job import Job
from tracekit.simulate.program import COMPUTE, NO_MICROBATCH, Program, Recorder

MS = 1_000_000
LETTERS = {FORWARD: "F", BACKWARD: "B", BACKWARD_INPUT: "I", BACKWARD_WEIGHT: "W"}
OPTIMIZER_LAUNCHES = 4

Message = tuple[bool, int, int]
"""Whether it goes forward, for which stage, of which micro-batch."""


@dataclass(frozen=True)
class Trouble:
    """What faults make a rank's host do otherwise in a step; `layers` are more layers of its first stage."""

    stall_ns: float = 0
    load_ns: float = 0
    garbage_ns: float = 0
    late_ns: float = 0
    layers: int = 0
    no_overlap: bool = False
    syncs: bool = False

    @classmethod
    def of(cls, job: Job, rank: int, step: int, place: int) -> Trouble:
        """The rank's in a step; a stage has more layers on all ranks that hold it."""
        told = {kind: total(job.faults, kind, rank, step) for kind in _KINDS}
        heavy = [one for one in job.faults if one.kind == "stage_imbalance" and one.rank is not None]
        return cls(
            told["slow_host"] * MS,
            told["data_loader"] * MS,
            told["gc"] * MS if step % 2 else 0,
            told["late_start"] * MS,
            sum(round(one.size) for one in heavy if place_in_pipeline(job, one.rank or 0) == place),
            told["no_overlap"] > 0,
            told["sync_points"] > 0,
        )


_KINDS = ("slow_host", "data_loader", "gc", "late_start", "no_overlap", "sync_points")


def place_in_pipeline(job: Job, rank: int) -> int:
    """The rank's place along the pipeline, the slowest axis."""
    return rank // (job.layout.tensor * job.layout.context * job.layout.data)


def tied(job: Job) -> bool:
    """Whether two ranks of the pipeline hold the same embedding."""
    layout = job.layout
    return job.model.tied and layout.pipeline > 1 and place_of(layout.schedule, last_stage(job), layout.pipeline) != 0


def last_stage(job: Job) -> int:
    """The number of the pipeline's last stage."""
    return job.layout.stages_per_rank * job.layout.pipeline - 1


def step_program(costs: Costs, place: int, trouble: Trouble) -> Program:
    """One step of a rank at a place of the pipeline."""
    training = _Training(costs, place, trouble)
    training.step()
    return training.recorder.program()


class _Training:
    def __init__(self, costs: Costs, place: int, trouble: Trouble) -> None:
        self.costs, self.job, self.layout = costs, costs.job, costs.job.layout
        self.place, self.trouble = place, trouble
        self.recorder = Recorder(trouble.no_overlap, round(trouble.late_ns))
        per_rank, schedule = self.layout.stages_per_rank, self.layout.schedule
        self.stages = stages_of(schedule, place, self.layout.pipeline, per_rank) if self.pipelined else [0]
        self.last_stage = len(self.stages) * self.layout.pipeline - 1
        self.layers = self._layers()
        self._bucket = 0.0
        self._after: tuple[int, ...] = ()
        self._gathered: dict[tuple[int, int], int] = {}
        self._fresh: dict[tuple[int, int], int] = {}
        self._coming: dict[int, list[Message]] = {}
        self._received: dict[Message, int] = {}

    @property
    def pipelined(self) -> bool:
        return self.layout.pipeline > 1

    @property
    def sharded(self) -> bool:
        return self.layout.zero_stage == 3 and self.layout.data > 1

    def _layers(self) -> dict[int, int]:
        """How many layers each stage on the rank has."""
        each = self.job.model.layers // (self.last_stage + 1)
        return {stage: each + (self.trouble.layers if nth == 0 else 0) for nth, stage in enumerate(self.stages)}

    def step(self) -> None:
        recorder = self.recorder
        with recorder.inside("ProfilerStep"):
            recorder.busy(kernels.GARBAGE, self.trouble.garbage_ns)
            recorder.launch(kernels.CLEAR, SMALL_NS)
            self._refresh()
            if self.pipelined:
                for microbatch in range(self.layout.microbatches):
                    self._load(microbatch)
                self._schedule()
            else:
                for microbatch in range(self.layout.microbatches):
                    self._load(microbatch)
                    self._accumulate(microbatch)
            self._optimize()

    def _load(self, microbatch: int) -> None:
        """A micro-batch comes from the data loader; the first and last stages need it on the device."""
        self.recorder.busy(kernels.DATA_LOADER, self.job.host.load_ms * MS + self.trouble.load_ns)
        if 0 in self.stages or self.last_stage in self.stages:
            self.recorder.microbatch = microbatch
            self.recorder.launch(kernels.TO_DEVICE, self.costs.load_ns, size=8 * self.costs.tokens)
            self.recorder.microbatch = NO_MICROBATCH

    def _accumulate(self, microbatch: int) -> None:
        """Without a pipeline: forward and backward of one micro-batch."""
        last = microbatch == self.layout.microbatches - 1
        with self.recorder.inside(f"forward microbatch={microbatch}"):
            self._act(Action(FORWARD, 0, microbatch), reduces=False)
        with self.recorder.inside(f"backward microbatch={microbatch}"):
            self._act(Action(BACKWARD, 0, microbatch), reduces=last)

    def _schedule(self) -> None:
        """The pipeline's actions in the schedule's order; gradients are reduced with a stage's last one."""
        layout = self.layout
        planned = orders(layout.schedule, layout.pipeline, layout.microbatches, layout.stages_per_rank)
        self._coming = {place: list(self._sent(planned[place], place, self.place)) for place in range(layout.pipeline)}
        mine = planned[self.place]
        giving = {action.stage: nth for nth, action in enumerate(mine) if action.kind in (BACKWARD, BACKWARD_WEIGHT)}
        for nth, action in enumerate(mine):
            received = self._receive(action)
            with self.recorder.inside(f"PP:{action.stage}{LETTERS[action.kind]}{action.microbatch}", action):
                self._act(action, reduces=giving[action.stage] == nth, received=received)
            self._send(action)

    def _sent(self, order: Sequence[Action], source: int, destination: int) -> Iterator[Message]:
        """What one place of the pipeline sends to another, in its order."""
        if source != destination:
            for action in order:
                to = _next_stage(action)
                if to is not None and 0 <= to <= self.last_stage and self._place_of(to) == destination:
                    yield action.kind == FORWARD, to, action.microbatch

    def _receive(self, action: Action) -> tuple[int, ...]:
        """Receives are posted in the order in which the other end sends, up to the one that the action needs."""
        forward = action.kind == FORWARD
        other = action.stage - 1 if forward else action.stage + 1
        if action.kind == BACKWARD_WEIGHT or not self._elsewhere(other):
            return ()
        needed, source = (forward, action.stage, action.microbatch), self._place_of(other)
        while needed not in self._received:
            message = self._coming[source].pop(0)
            channel = (source, self.place)
            self._received[message] = self.recorder.transfer("recv", source, channel, self.costs.boundary_bytes)
        return (self._received.pop(needed),)

    def _send(self, action: Action) -> None:
        to = _next_stage(action)
        if to is not None and self._elsewhere(to):
            place, made = self._place_of(to), (self.recorder.tail(COMPUTE),)
            self.recorder.transfer("send", place, (self.place, place), self.costs.boundary_bytes, made)

    def _elsewhere(self, stage: int) -> bool:
        return 0 <= stage <= self.last_stage and stage not in self.stages

    def _place_of(self, stage: int) -> int:
        return place_of(self.layout.schedule, stage, self.layout.pipeline)

    # One action ---------------------------------------------------------------------------------------------------

    def _act(self, action: Action, *, reduces: bool, received: Sequence[int] = ()) -> None:
        self.recorder.microbatch = action.microbatch
        self._after = tuple(received)
        if received and self.layout.tensor > 1 and not self.layout.sequence_parallel:
            self._meet("all_gather")  # each tensor rank was sent its part
        if action.kind == FORWARD:
            self._forward(action.stage)
        else:
            self._backward(action, reduces=reduces)
        self.recorder.microbatch = NO_MICROBATCH

    def _forward(self, stage: int) -> None:
        count = self.layers[stage]
        if stage == 0:
            self._gather_root(self.costs.embedding_parameters)
            self._compute((Piece(kernels.EMBEDDING, SMALL_NS),))
            self._meet_at_end("reduce_scatter" if self.layout.sequence_parallel else "all_reduce")
        for layer in range(count):
            self.recorder.busy("", self.trouble.stall_ns)
            self._await_weights(stage, layer)
            self._gather(stage, layer, ahead=layer + 1 if layer + 1 < count else None)
            for half in self.costs.forward:
                self._half(half)
            self.recorder.hold(self.costs.activation_bytes)
            self._layer_done()
        if stage == self.last_stage:
            self._gather_root(self.costs.output_parameters)
            if self.layout.sequence_parallel:
                self._meet_at_end("all_gather")
            self._compute(self.costs.output)

    def _backward(self, action: Action, *, reduces: bool) -> None:
        kind, stage = action.kind, action.stage
        weights = {BACKWARD: (False, True), BACKWARD_INPUT: (False,), BACKWARD_WEIGHT: (True,)}[kind]
        meets, gives = kind != BACKWARD_WEIGHT, kind != BACKWARD_INPUT
        with self.recorder.autograd():
            if stage == self.last_stage:
                self._output_backward(weights, meets=meets)
                if gives:
                    self._reduce(self.costs.output_parameters, now=False, reduces=reduces)
            for layer in reversed(range(self.layers[stage])):
                self._gather(stage, layer, ahead=layer - 1 if layer else None)
                if self.costs.recomputes and meets:
                    for half in self.costs.forward:
                        self._half(half)
                for half in self.costs.backward:
                    self._half(_only(half, weights), meets=meets, backward=True)
                self._layer_done()
                if gives:
                    self.recorder.hold(-self.costs.activation_bytes)
                    self._reduce(self.costs.layer_parameters, now=layer == 0 and stage != 0, reduces=reduces)
            if stage == 0 and gives:
                self._reduce(self.costs.embedding_parameters, now=True, reduces=reduces)

    def _output_backward(self, weights: Sequence[bool], *, meets: bool) -> None:
        if self.layout.sequence_parallel and meets:
            self._meet_at_end("all_gather")
        self._compute(_only(self.costs.output_backward, weights))
        if meets:
            self._meet_at_end("reduce_scatter" if self.layout.sequence_parallel else "all_reduce")

    def _half(self, half: Half, *, meets: bool = True, backward: bool = False) -> None:
        """Kernels between two points where tensor ranks meet."""
        if not meets or self.layout.tensor == 1:
            self._compute(half)
        elif self.layout.sequence_parallel:
            for _ in range(2 if backward else 1):  # backward gathers the input once more, for the weights' gradient
                self._meet("all_gather")
            self._compute(half)
            self._meet("reduce_scatter")
        else:
            self._compute(half)
            self._meet("all_reduce")

    def _meet_at_end(self, op: str) -> None:
        """As `_meet`, at the embedding or the output layer, where these are split."""
        if self.layout.split_vocabulary:
            self._meet(op)

    def _meet(self, op: str) -> None:
        """A collective of the tensor ranks on the critical path."""
        if self.layout.tensor > 1:
            made = self.recorder.tail(COMPUTE)
            self._after = (self.recorder.collective("tensor", op, self.costs.hidden_bytes, (*self._after, made)),)

    def _compute(self, pieces: Half) -> None:
        for piece in pieces:
            self.recorder.launch(piece.kernel, piece.ns, self._after)
            self._after = ()

    def _layer_done(self) -> None:
        if self.trouble.syncs:
            self.recorder.sync(kernels.STREAM_SYNC, (self.recorder.tail(COMPUTE),))

    # Data parallel ------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """ZeRO 1 and 2: the weights that the optimizer's shards made in the step before, a layer at a time."""
        if self.layout.zero_stage not in (1, 2) or self.layout.data == 1:
            return
        made = (self.recorder.tail(COMPUTE),)
        rest = self._parameters() - sum(self.layers.values()) * self.costs.layer_parameters
        for stage in self.stages:
            for layer in range(self.layers[stage]):
                parameters = self.costs.layer_parameters + (rest if (stage, layer) == (self.stages[0], 0) else 0)
                size = self.costs.weight_bytes(parameters)
                self._fresh[stage, layer] = self.recorder.collective("data", "all_gather", size, made)

    def _await_weights(self, stage: int, layer: int) -> None:
        if (stage, layer) in self._fresh:
            self._after = (*self._after, self._fresh.pop((stage, layer)))

    def _gather_root(self, parameters: float) -> None:
        """Sharded weights of the embedding or the output layer, once a micro-batch."""
        if self.sharded:
            size, before = self.costs.weight_bytes(parameters), (self.recorder.tail(COMPUTE),)
            self._after = (*self._after, self.recorder.collective("data", "all_gather", size, before))

    def _gather(self, stage: int, layer: int, *, ahead: int | None) -> None:
        """Sharded weights: this layer's, unless gathered ahead, and the next one's; the layer waits for its own."""
        if not self.sharded:
            return
        before = (self.recorder.tail(COMPUTE),)
        size = self.costs.weight_bytes(self.costs.layer_parameters)
        for wanted in (layer, ahead):
            if wanted is not None and (stage, wanted) not in self._gathered:
                self._gathered[stage, wanted] = self.recorder.collective("data", "all_gather", size, before)
        self._after = (*self._after, self._gathered.pop((stage, layer)))

    def _reduce(self, parameters: float, *, now: bool, reduces: bool) -> None:
        """Gradients of so many parameters are there: they fill a bucket, which is reduced when full, or now.

        ZeRO 2 and 3 reduce in each micro-batch, as others do where the layout says so; ZeRO 3 each layer's at once.
        """
        if self.layout.data == 1 or not (reduces or self.layout.reductions > 1):
            return
        self._bucket += parameters
        size = self.costs.gradient_bytes(self._bucket)
        if now or self.sharded or size >= self.job.bucket_mb * 1e6:
            op = "reduce_scatter" if self.layout.zero_stage else "all_reduce"
            self.recorder.collective("data", op, size, (self.recorder.tail(COMPUTE),))
            self._bucket = 0.0

    # The step's end -----------------------------------------------------------------------------------------------

    def _optimize(self) -> None:
        recorder, layout = self.recorder, self.layout
        if tied(self.job) and self.place in (0, layout.pipeline - 1):
            made = (recorder.tail(COMPUTE),)
            recorder.collective("embedding", "all_reduce", self.costs.tied_bytes, made)
        held = self._parameters() / (layout.shards if layout.zero_stage else 1)
        each = round(self.costs.optimizer_ns(held) / OPTIMIZER_LAUNCHES)
        lanes = [recorder.lane(axis) for axis in ("data", "embedding")]
        reduced = tuple(recorder.tail(lane) for lane in lanes if recorder.tail(lane) >= 0)
        with recorder.inside(kernels.OPTIMIZER_STEP):
            for nth in range(OPTIMIZER_LAUNCHES):
                recorder.launch(kernels.OPTIMIZER, each, reduced if nth == 0 else ())
        if self.job.host.sync_each_step:
            copied = recorder.launch(kernels.TO_HOST, 1_500, size=4)
            recorder.sync(kernels.STREAM_SYNC, (copied,))

    def _parameters(self) -> float:
        layers = sum(self.layers.values()) * self.costs.layer_parameters
        first = self.costs.embedding_parameters if 0 in self.stages else 0
        return layers + first + (self.costs.output_parameters if self.last_stage in self.stages else 0)


def _next_stage(action: Action) -> int | None:
    """The stage that needs what the action gives."""
    if action.kind == FORWARD:
        return action.stage + 1
    return None if action.kind == BACKWARD_WEIGHT else action.stage - 1


def _only(half: Half, weights: Sequence[bool]) -> Half:
    """The pieces of a backward that give inputs' gradients, or weights', or both."""
    return tuple(piece for piece in half if piece.weights in weights)


def programs(costs: Costs) -> Iterator[tuple[int, list[Program]]]:
    """Each rank with its steps' programs; ranks and steps that do the same share one."""
    job, made = costs.job, dict[tuple[int, Trouble], Program]()
    for rank in range(job.ranks):
        place, mine = place_in_pipeline(job, rank), []
        for step in range(job.steps):
            key = (place, Trouble.of(job, rank, step, place))
            if key not in made:
                made[key] = step_program(costs, *key)
            mine.append(made[key])
        yield rank, mine
