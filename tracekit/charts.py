"""Tables as plotly figures, for the app, the HTML report and notebooks.

One colour per kind of thing everywhere, of the palette of Okabe and Ito (2008), which colour-blind people can tell
apart; shades by cividis (Nuñez, Anderton and Renslow 2018). Figures have no background and middle grey lines, so that
they stand on light and dark pages. Values keep their exact number in the hover. Names out of traces are hostile: plotly
reads text as a small HTML and, between dollar signs, as LaTeX, so every name passes through `label`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from tracekit.errors import NotMeasured
from tracekit.model import COMM, COMPUTE, MEMORY
from tracekit.wording import plain, time_unit

Figure = Any
"""A plotly figure; plotly has no types."""
Order = Mapping[int, str]
"""Ranks in the order of rows, each with its row's name."""

BLUE, SKY, GREEN, ORANGE, VERMILION, PURPLE, YELLOW, GREY = (
    *("#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7", "#C9B400", "#9AA0A6"),
)
COLOURS = {
    COMPUTE: BLUE, "own": BLUE, "backward": BLUE, "backward_input": BLUE, "busy": BLUE, "forward": SKY,
    "backward_weight": GREEN, COMM: VERMILION, "exposed_comm": VERMILION, "exposed": VERMILION, "overlap": ORANGE,
    MEMORY: GREEN, "exposed_memory": GREEN, "idle": GREY, "wait": PURPLE, "transfer": ORANGE, "bubble": GREY,
    "host": YELLOW, "optimizer": GREEN, "data": ORANGE, "tensor": PURPLE, "pipeline": SKY, "context": GREEN,
    "expert": YELLOW, "unknown": GREY,
}  # fmt: skip
"""What has a colour of its own."""
OTHERS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, YELLOW, GREY)
"""The colours of what has none, in this order."""
SHADES = "Cividis"
INK, GRID = "#808080", "rgba(128,128,128,0.25)"
LONGEST_LABEL, ROW_PX, LEAST_HEAT_PX = 48, 22, 250
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"})
_BYTES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(frozen=True)
class Part:
    """One part of stacked bars: its column, what it is called, and whose colour it has."""

    column: str
    words: str
    colour: str


STEP_PARTS = (
    Part("compute_ns", "compute", COMPUTE),
    Part("exposed_comm_ns", "exposed communication", "exposed_comm"),
    Part("exposed_memory_ns", "exposed copies", "exposed_memory"),
    Part("idle_ns", "idle", "idle"),
)
OWN_PARTS = (Part("own_ns", "own time", "own"), Part("wait_ns", "waits for other ranks", "wait"))


def label(text: object, limit: int = LONGEST_LABEL) -> str:
    """Foreign text as plotly may show it: one line, not too long, and nothing in it read as HTML or LaTeX."""
    return plain(str(text), limit).translate(_ESCAPED)


def colour(kind: str, nth: int = 0) -> str:
    """The kind's colour; for what has none of its own the nth of the others."""
    return COLOURS.get(kind, OTHERS[nth % len(OTHERS)])


def parts(rows: pd.DataFrame, chosen: Sequence[Part], unit: str = "ns", by: str = "rank") -> Figure:
    """A bar per rank (or another number), its parts stacked; `rows` have `by` and the parts' columns."""
    _some(rows)
    factor, name = scale(rows[[part.column for part in chosen]].sum(axis=1).max(), unit)
    figure = blank(f"{by}", name)
    for nth, part in enumerate(chosen):
        values = rows[part.column].astype(float)
        figure.add_bar(
            x=rows[by].to_numpy(), y=(values / factor).to_numpy(), name=part.words,
            marker_color=colour(part.colour, nth), customdata=exact(values, unit),
            hovertemplate=f"{by} %{{x}}<br>{part.words}: %{{customdata}}",
        )  # fmt: skip
    figure.update_layout(barmode="stack", bargap=0.1 if len(rows) <= 64 else 0)
    figure.update_xaxes(tick0=0, dtick=1 if rows[by].nunique() <= 24 else None, rangemode="normal")
    return figure


def bars(names: Iterable[object], values: Sequence[float], unit: str, words: str, kinds: Sequence[str] = ()) -> Figure:
    """A horizontal bar per name, the first on top."""
    shown = [label(name) for name in names]
    if not shown:
        raise NotMeasured(f"there is nothing to show {words} of")
    factor, unit_name = scale(max(map(abs, values)), unit)
    figure = blank(unit_name or words, "", height=110 + ROW_PX * len(shown))
    figure.add_bar(
        x=[value / factor for value in values], y=list(range(len(shown))), orientation="h",
        marker_color=[colour(kind) for kind in kinds] or BLUE, text=shown, textposition="none",
        customdata=exact(values, unit), hovertemplate=f"%{{text}}<br>{words}: %{{customdata}}<extra></extra>",
    )  # fmt: skip
    figure.update_yaxes(
        tickvals=list(range(len(shown))), ticktext=shown, autorange="reversed", automargin=True, showgrid=False
    )
    return figure


def beside(names: Iterable[object], values: Mapping[str, Sequence[float]], unit: str, words: str) -> Figure:
    """Several bars per name, side by side: one of each of `values`, which are named in the legend."""
    shown = [label(name) for name in names]
    factor, unit_name = scale(max((abs(one) for each in values.values() for one in each), default=0.0), unit)
    figure = blank(f"{words}, {unit_name}", "", height=130 + (ROW_PX + 16) * len(shown))
    for nth, (name, each) in enumerate(values.items()):
        figure.add_bar(
            x=[one / factor for one in each], y=list(range(len(shown))), orientation="h", name=label(name),
            marker_color=OTHERS[nth % len(OTHERS)], text=shown, textposition="none", customdata=exact(each, unit),
            hovertemplate=f"%{{text}}<br>{words}: %{{customdata}}",
        )  # fmt: skip
    return _rows_named(figure.update_layout(barmode="group"), shown)


def heat(
    rows: pd.DataFrame,
    across: str,
    down: str,
    value: str,
    unit: str,
    words: str,
    order: Mapping[int, str] | None = None,
) -> Figure:
    """Shades of `value` per `down` (rows, in the order and with the names of `order`) and `across`."""
    _some(rows)
    table = rows.pivot_table(index=down, columns=across, values=value, aggfunc="sum", observed=True, min_count=1)
    if order:
        table = table.reindex([rank for rank in order if rank in table.index])
    factor, unit_name = scale(float(np.nanmax(table.to_numpy(dtype=float))), unit)
    names = [label(order[one] if order else f"{down} {one}") for one in table.index]
    values = table.to_numpy(dtype=float)
    figure = blank(
        across.replace("_", " "), "", height=min(max(150 + max(ROW_PX - 4, 3) * len(names), LEAST_HEAT_PX), 720)
    )
    figure.add_heatmap(
        z=values / factor, x=[str(one) for one in table.columns], y=list(range(len(names))), colorscale=SHADES,
        colorbar={"title": {"text": unit_name}, "thickness": 12, "nticks": 5},
        text=np.repeat([names], len(table.columns), 0).T,
        customdata=np.array([exact(row, unit) for row in values]).reshape(values.shape),
        hovertemplate=f"%{{text}}, {across.replace('_', ' ')} %{{x}}<br>{words}: %{{customdata}}<extra></extra>",
    )  # fmt: skip
    every = -(-len(names) // 32)
    figure.update_yaxes(
        tickvals=list(range(0, len(names), every)), ticktext=names[::every], autorange="reversed", automargin=True
    )
    figure.update_xaxes(type="category", nticks=32)
    return figure


def bandwidth(rows: pd.DataFrame, expected_gbs: float | None = None) -> Figure:
    """Bus bandwidth by size of the message, a mark per group, operation and kind of link; a line where it is expected.

    `rows` are those of the measure `bandwidth`.
    """
    known = rows[rows["busbw_gbs"].notna() & (rows["bytes"] > 0)]
    _some(known, "no call whose size and transfer are known")
    figure = blank("bytes of a message (mean of its size class)", "bus bandwidth, GB/s")
    for nth, (op, mine) in enumerate(known.groupby("op", sort=True)):
        each = (mine["bytes"] / mine["calls"]).astype(float)
        about = [f"{label(group)}<br>{label(link)}" for group, link in zip(mine["group"], mine["link"], strict=True)]
        figure.add_scatter(
            x=each.to_numpy(), y=mine["busbw_gbs"].astype(float).to_numpy(), mode="markers", name=label(op),
            text=about, customdata=mine["calls"].to_numpy(), marker={"size": 10, "color": OTHERS[nth % len(OTHERS)]},
            hovertemplate="%{text}<br>%{x:,.0f} bytes, %{y:.3f} GB/s, %{customdata} calls",
        )  # fmt: skip
    if expected_gbs:
        figure.add_hline(y=expected_gbs, line={"color": GREY, "dash": "dash"}, annotation_text="expected")
    figure.update_xaxes(type="log", exponentformat="power")
    figure.update_yaxes(rangemode="tozero")
    return figure


def sizes(calls: pd.DataFrame) -> Figure:
    """How many calls have messages of which size (classes are powers of two), by operation; `calls` are a run's."""
    known = calls[calls["bytes"].notna() & (calls["bytes"] > 0)]
    _some(known, "no call tells its size")
    powers = np.floor(np.log2(known["bytes"].astype(float).to_numpy())).astype(int)
    classes = pd.Series(powers, index=known.index)
    figure = blank("bytes of a message, from", "calls")
    for nth, (op, mine) in enumerate(classes.groupby(known["op"])):
        counts = mine.value_counts().sort_index()
        names = [_class_name(power) for power in counts.index]
        figure.add_bar(
            x=counts.index.to_numpy(), y=counts.to_numpy(), name=label(op), marker_color=OTHERS[nth % len(OTHERS)],
            text=names, textposition="none", hovertemplate="%{text} to twice that: %{y:,} calls",
        )  # fmt: skip
    ticks = list(range(int(classes.min()), int(classes.max()) + 1))
    figure.update_xaxes(tickvals=ticks, ticktext=[_class_name(power) for power in ticks])
    figure.update_layout(barmode="stack")
    return figure


def gantt(rows: pd.DataFrame, start_ns: int, order: Order) -> Figure:
    """Forwards and backwards of one step per rank, from `start_ns` on; `rows` are those of `microbatches`."""
    _some(rows)
    factor, unit = scale(float(rows["end_ns"].max() - start_ns), "ns")
    figure = blank(f"{unit} from the step's start", "", height=130 + 34 * len(order))
    place = {rank: nth for nth, rank in enumerate(order)}
    few = len(rows) <= 600
    for action, mine in rows.groupby("action"):
        length = (mine["end_ns"] - mine["start_ns"]).astype(float)
        figure.add_bar(
            base=((mine["start_ns"] - start_ns) / factor).to_numpy(), x=(length / factor).to_numpy(),
            y=mine["rank"].map(place).to_numpy(), orientation="h", name=str(action).replace("_", " "),
            marker={"color": colour(str(action)), "line": {"width": 0.5, "color": "white"}}, width=0.8,
            text=mine["microbatch"].astype(str).to_numpy() if few else None, textposition="inside" if few else "none",
            insidetextanchor="middle", textangle=0, constraintext="inside",
            customdata=np.stack([mine["rank"], mine["microbatch"], exact(length, "ns")], 1),
            hovertemplate="rank %{customdata[0]}, micro-batch %{customdata[1]}: %{customdata[2]}",
        )  # fmt: skip
    figure.update_layout(barmode="overlay")
    return _rows_named(figure, list(order.values()))


def lines(rows: pd.DataFrame, across: str, value: str, by: str, unit: str, words: str) -> Figure:
    """A line per `by`."""
    _some(rows)
    factor, unit_name = scale(float(rows[value].astype(float).max()), unit)
    figure = blank(across, f"{words}, {unit_name}" if unit_name else words)
    for nth, (name, mine) in enumerate(rows.groupby(by, sort=False)):
        values = mine[value].astype(float)
        figure.add_scatter(
            x=mine[across].to_numpy(), y=(values / factor).to_numpy(), mode="lines+markers", name=label(name),
            line_color=colour(str(name), nth), customdata=exact(values, unit), hovertemplate="%{x}: %{customdata}",
        )  # fmt: skip
    figure.update_yaxes(rangemode="tozero")
    return figure


def spans(rows: pd.DataFrame, start_ns: int, names: Sequence[str], marks: pd.DataFrame | None = None) -> Figure:
    """Single spans in rows; `rows` have `row, kind, name, start_ns, end_ns, match`, `marks` `row, time_ns, name`."""
    _some(rows, "nothing runs in this window")
    factor = 1e6
    figure = blank("ms from the run's start", "", height=_height(len(names)))
    for kind, mine in rows.groupby("kind", observed=True):
        length = (mine["end_ns"] - mine["start_ns"]).astype(float)
        figure.add_bar(
            base=((mine["start_ns"] - start_ns) / factor).to_numpy(), x=(length / factor).to_numpy(),
            y=mine["row"].to_numpy(), orientation="h", name=str(kind), width=0.8,
            marker={"color": colour(str(kind)), "line": {"width": 0}},
            text=[label(name) for name in mine["name"]], textposition="none",
            customdata=np.stack([exact(length, "ns"), mine["match"].astype(str)], 1),
            hovertemplate="%{text}<br>%{customdata[0]}",
        )  # fmt: skip
    return _marked(_rows_named(figure.update_layout(barmode="overlay"), names), marks, start_ns, factor)


def busy(rows: pd.DataFrame, start_ns: int, names: Sequence[str], marks: pd.DataFrame | None = None) -> Figure:
    """How busy each row is, bin by bin; `rows` have `row, kind, time_ns, length_ns` (of the bin) and `busy_frac`."""
    _some(rows, "nothing runs in this window")
    factor = 1e6
    figure = blank("ms from the run's start", "", height=_height(len(names)))
    for kind, mine in rows.groupby("kind", observed=True):
        table = mine.pivot_table(index="row", columns="time_ns", values="busy_frac", observed=True)
        table = table.reindex(range(len(names)))  # else rows would be as high as they are apart
        figure.add_heatmap(
            z=table.to_numpy(dtype="float32"), y=table.index.to_numpy(), name=str(kind), showscale=False, zmin=0,
            zmax=1, x=(table.columns.to_numpy() - start_ns + mine["length_ns"].iloc[0] / 2) / factor,
            hoverongaps=False, ygap=4,
            colorscale=[(0, "rgba(128,128,128,0.08)"), (1, colour(str(kind)))],
            hovertemplate=f"{kind} %{{z:.1%}} of the time<extra></extra>",
        )  # fmt: skip
    return _marked(_rows_named(figure, names), marks, start_ns, factor)


def blank(across: str, down: str, height: int = 340) -> Figure:
    """A figure without traces: axes with titles, no background, a legend above."""
    figure = go.Figure()
    figure.update_layout(
        template="none", height=height, margin={"l": 60, "r": 16, "t": 42, "b": 48, "autoexpand": True},
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", font={"color": INK, "size": 13},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0}, hoverlabel={"namelength": -1},
        showlegend=None,
    )  # fmt: skip
    figure.update_xaxes(title_text=across, gridcolor=GRID, zerolinecolor=GRID, automargin=True)
    figure.update_yaxes(title_text=down, gridcolor=GRID, zerolinecolor=GRID, automargin=True)
    return figure


def scale(largest: float, unit: str) -> tuple[float, str]:
    """By what to divide values of up to `largest`, and the unit that they have then."""
    largest = 0.0 if np.isnan(largest) else abs(float(largest))
    if unit == "ns":
        chosen = time_unit(largest)
        return float(chosen.ns), chosen.name
    if unit == "bytes":
        return next(((float(factor), name) for factor, name in _BYTES if largest >= factor), (1.0, "bytes"))
    return (0.01, "%") if unit == "frac" else (1.0, unit)


def exact(values: Iterable[float], unit: str) -> list[str]:
    """The values with all their digits, for the hover."""
    forms = {"ns": "{:,.0f} ns", "bytes": "{:,.0f} bytes", "frac": "{:.3%}"}
    form = forms.get(unit, "{:,.6g} " + unit).rstrip()
    return ["not measured" if pd.isna(value) else form.format(value) for value in values]


def _rows_named(figure: Figure, names: Sequence[str]) -> Figure:
    every = -(-len(names) // 48)
    return figure.update_yaxes(
        tickvals=list(range(0, len(names), every)), ticktext=[label(name) for name in names][::every],
        range=[len(names) - 0.4, -0.6], automargin=True, showgrid=False, zeroline=False,
    )  # fmt: skip


def _marked(figure: Figure, marks: pd.DataFrame | None, start_ns: int, factor: float) -> Figure:
    if marks is None or marks.empty:
        return figure
    return figure.add_scatter(
        x=((marks["time_ns"] - start_ns) / factor).to_numpy(), y=marks["row"].to_numpy(), mode="markers", name="steps",
        text=[label(name) for name in marks["name"]], hovertemplate="%{text}<extra></extra>",
        marker={"symbol": "line-ns", "size": 18, "line": {"width": 2, "color": INK}},
    )  # fmt: skip


def _height(rows: int) -> int:
    """Of a figure with so many rows: a bounded one, however many there are."""
    return 130 + min(30 * rows, max(700, 7 * rows), 1400)


def _class_name(power: int) -> str:
    factor, unit = scale(float(2**power), "bytes")
    return f"{2**power / factor:,.0f} {unit}"


def _some(rows: pd.DataFrame, why: str = "there is nothing to show") -> None:
    if rows.empty:
        raise NotMeasured(why)


def figure_json(figure: Figure) -> str:
    """The figure as JSON that may stand inside an HTML script: no `<`, `>` or `&` in it."""
    text = cast(str, figure.to_json())
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
