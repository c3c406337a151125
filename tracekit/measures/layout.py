"""Which ranks form data, tensor, pipeline, context and expert groups?

One row per axis along which the job is split: `size` ranks to a group, and its `groups` (`0 2 4 6; 1 3 5 7`), each in
the order of the axis, which along the pipeline is that of the stages. What tells an axis is, the surest first: a
group's name (`dp`, `TENSOR_MODEL_PARALLEL_GROUP`); the stages in annotations (`PP:0F3`); who sends to whom (there and
back along a pipeline, one way round a ring of context parallelism); else what a group does and when: reductions while
the first third of a step's compute runs are tensor parallel, later ones are gradients, so data; all-to-all is expert.

`confidence` is 1 for a name or stages, 0.8 for transfers, 0.6 for operations, 0.4 for all-to-all alone, for gathers
alone and for operations of a group that the trace does not tell (all ranks are assumed then); times the share of the
ranks at hand that have a place on the axis; and half of that where the sizes of the axes, without expert (whose groups
lie across data groups), do not multiply to the world size. An axis that nothing tells is not there: ranks that only
repeat each other's work without communicating are seen as no axis.
"""

from __future__ import annotations

import pandas as pd

from tracekit.axes import SHORT
from tracekit.model import Asked, Column

COLUMNS = {
    "axis": Column(),
    "size": Column("1"),
    "groups": Column(),
    "confidence": Column("1"),
    "told_by": Column(),
}


def measure(asked: Asked) -> pd.DataFrame:
    """One row per axis; NotMeasured where ranks form no groups."""
    places = asked["places"].sort_values(["group", "place"], kind="stable")
    rows = [
        (axis, size, _groups(mine), confidence, told_by)
        for (axis, size, confidence, told_by), mine in places.groupby(
            ["axis", "size", "confidence", "told_by"], sort=False
        )
    ]
    order = {axis: nth for nth, axis in enumerate(SHORT)}
    return pd.DataFrame(sorted(rows, key=lambda row: order[str(row[0])]), columns=list(COLUMNS))


def shape(layout: pd.DataFrame) -> str:
    """The layout as a person writes it: `dp 2 × pp 4`."""
    sizes = zip(layout["axis"], layout["size"], strict=True)
    return " × ".join(f"{SHORT[axis]} {size}" for axis, size in sizes)


def _groups(places: pd.DataFrame) -> str:
    return "; ".join(" ".join(map(str, ranks)) for _, ranks in places.groupby("group")["rank"])
