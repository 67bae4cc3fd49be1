"""Draws stacked bars as an SVG file, which any browser shows, so that the demo needs no plotting library."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

COLOURS = ("#4e79a7", "#f28e2b", "#76b7b2", "#e15759", "#59a14f", "#edc948", "#b07aa1")
WIDTH, HEIGHT = 960, 480
LEFT, RIGHT, TOP, BOTTOM = 90, 130, 60, 50
LINES = 4
LABELS_MAX = 12


def draw(path: Path, title: str, labels: Sequence[str], series: Mapping[str, Sequence[float]], unit: str) -> None:
    """`series` has a value for each label. The values are stacked in the order of the series."""
    totals = [sum(values) for values in zip(*series.values(), strict=True)]
    top = _round_up(max(totals, default=0.0))
    plot_width, plot_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    step = plot_width / max(1, len(labels))
    parts = [_text(LEFT, TOP - 25, title, "start", 18)]
    for line in range(LINES + 1):
        y = HEIGHT - BOTTOM - plot_height * line / LINES
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 8, y + 4, f"{top * line / LINES:,.0f} {unit}", "end"))
    heights = [0.0] * len(labels)
    for index, (name, values) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)]
        for bar, value in enumerate(values):
            height = value / top * plot_height
            x, y = LEFT + bar * step, HEIGHT - BOTTOM - heights[bar] - height
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{step * 0.85:.1f}" height="{height:.1f}" fill="{colour}">'
                f"<title>{escape(f'{labels[bar]} {name}: {value:,.2f} {unit}')}</title></rect>"
            )
            heights[bar] += height
        y = TOP + 20 * index
        parts.append(f'<rect x="{WIDTH - RIGHT + 20}" y="{y}" width="12" height="12" fill="{colour}"/>')
        parts.append(_text(WIDTH - RIGHT + 40, y + 11, name, "start"))
    every = -(-len(labels) // LABELS_MAX) or 1
    parts += [
        _text(LEFT + (bar + 0.43) * step, HEIGHT - BOTTOM + 20, labels[bar], "middle")
        for bar in range(0, len(labels), every)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" fill="#333">\n<rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _round_up(value: float) -> float:
    """Round up to a number that divides well: 1, 2, 4 or 8 times a power of ten."""
    top = 1.0
    while top * 8 < value:
        top *= 10
    return next(top * factor for factor in (1, 2, 4, 8) if top * factor >= value)


def _text(x: float, y: float, text: str, anchor: str, size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
