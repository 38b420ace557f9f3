"""What a result shows of itself in a notebook: a line of totals, bars of utilisation, and the operators that
take the most time.
"""

from __future__ import annotations

from html import escape

from ascendsim.profiling.interval import DurationInterval
from ascendsim.profiling.summary import Summary, summarise, top_operators
from ascendsim.profiling.view import ProfiledRun

STYLE = (
    "<style>.asim{font-family:sans-serif;font-size:13px}.asim table{border-collapse:collapse}.asim td,.asim "
    "th{padding:2px 10px;"
    "border-bottom:1px solid #8884}.asim .bar{display:inline-block;height:9px;background:#0072b2}.asim "
    ".likely{display:inline-block;height:9px;background:#0072b244}.asim "
    ".note{opacity:.7}</style>"
)


def html(run: ProfiledRun, count: int = 8, note: str = "", likely: DurationInterval | None = None) -> str:
    """A self-contained, escaped HTML fragment: totals, where the duration is likely to be, a note on the
    run's numbers, utilisation and the `count` longest tasks.
    """
    summary = summarise(run)
    parts = [
        STYLE,
        '<div class="asim">',
        _headline(summary),
        f"<p>{likely} ({likely.share:.0%}: {escape(likely.note)})</p>" if likely is not None else "",
        f"<p><b>Numbers:</b> {escape(note)}</p>" if note else "",
        _bars(summary),
        top_operators(run, count).to_html(),
    ]
    if summary.assumed:
        listed = escape(", ".join(summary.assumed))
        parts.append(
            f'<details class="note"><summary>{len(summary.assumed)} chip figures are '
            f"assumed</summary>{listed}</details>"
        )
    return "".join([*parts, "</div>"])


def _headline(summary: Summary) -> str:
    facts = [
        f"{summary.duration_us:,.3f} us",
        f"{summary.cycles:,} cycles",
        f"{summary.samples_per_s:,.1f} samples/s at batch {summary.batch}",
        f"{summary.tasks:,} tasks",
        f"{summary.ddr_bytes / 1e6:,.1f} MB through DDR",
    ]
    return f"<p><b>{escape(summary.model)}</b> on <b>{escape(summary.soc)}</b>: {', '.join(facts)}</p>"


def _bars(summary: Summary) -> str:
    """One row a pipe, and DDR: busy share of the whole run."""
    shares = {**summary.pipe_utilisation, "DDR bandwidth": summary.ddr_utilisation}
    rows = [
        f'<tr><td>{escape(name)}</td><td style="min-width:210px">{bar(share)}</td><td>{100 * share:.1f} '
        f"%</td></tr>"
        for name, share in shares.items()
    ]
    return f"<table>{''.join(rows)}</table>"


def bar(share: float, pixels: int = 200) -> str:
    """A bar as wide as a share of some pixels."""
    return f'<span class="bar" style="width:{round(pixels * min(share, 1.0))}px"></span>'


def light_bar(share: float, pixels: int) -> str:
    """A light bar behind another: how much longer it may well be."""
    width = round(pixels * min(max(share, 0.0), 1.0))
    return f'<span class="likely" style="width:{width}px"></span>' if width else ""
