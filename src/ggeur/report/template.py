"""The templates of pages, in which whatever is filled in is text, never markup, and figures as SVG within them."""

import io
import platform
import re
from datetime import UTC, datetime
from functools import lru_cache
from html import escape
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib import rc_context
from matplotlib.figure import Figure

from ggeur.report.figures import INK
from ggeur.stats.errors import GgeurError
from ggeur.stats.long_jobs import human_bytes

_LETTERS = 10.0  # pixels of the smallest letter on any screen
_NUMBER = re.compile(r"-?\d+\.\d{3,}")


def inline_svg(figure: Figure, name: str, title: str) -> str:
    """The figure as `<svg>`, whose ids begin with `name` and which a screen reader calls by its `title`.

    Its ink follows the page, light or dark.
    """
    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": "ggeur", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'(<image\b[^>]*?)\sid="[^"]*"', r"\1", text)  # ids are made of the content: two alike would clash
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    text = re.sub(r'(xlink:href)="#([^"]+)"', rf'\1="#{name}-\2"', text)
    text = _shortened(text)
    text = re.sub(INK, "currentColor", text, flags=re.I)
    head, _, rest = text.partition(">")
    width, height = re.findall(r'(?:width|height)="([\d.]+)pt"', head)[:2]
    head = re.sub(r'\s(?:width|height)="[^"]*"', "", head)
    head += f' role="img" aria-label="{escape(title)}" data-width="{width}" data-height="{height}"'
    # Never so small that its letters cannot be read: on a narrow screen it is scrolled instead.
    letters = [float(size) for size in re.findall(r"font(?:-size)?: ?([\d.]+)px", text)]
    least = _LETTERS / min(letters, default=_LETTERS) * float(width)
    head += f' style="max-width: {max(1.5 * float(width), least):.0f}px; min-width: {least:.0f}px"'
    return f"{head}>{rest}"


def _shortened(text: str) -> str:
    """Coordinates to a hundredth of a point, in paths and places alone, never in what is written."""
    return re.sub(
        r'\b(?:d|x|y|transform)="[^"]*"',
        lambda found: _NUMBER.sub(lambda number: f"{float(number[0]):.2f}", found[0]),
        text,
    )


_MOST = 5 * 2**20  # bytes of a page that still opens fast


@lru_cache(maxsize=1)
def templates() -> Environment:
    """All templates, with what they call."""
    environment = Environment(
        loader=PackageLoader("ggeur.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"bytes": human_bytes, "svg": inline_svg}
    return environment


def render_page(template: str, title: str, too_large: str, **words: Any) -> str:
    """A whole page: `template`, which extends base.html.j2, filled with `words`; `too_large` is what to do then."""
    beside = files("ggeur.report") / "templates"
    page = (
        templates()
        .get_template(template)
        .render(
            title=title,
            style=(beside / "style.css").read_text(encoding="utf-8"),
            script=(beside / "page.js").read_text(encoding="utf-8"),
            made=f"ggeur {version('ggeur')}, Python {platform.python_version()}",
            today=datetime.now(UTC).strftime("%Y-%m-%d"),
            **words,
        )
    )
    if len(page.encode()) > _MOST:
        raise GgeurError(f"The report would be larger than 5 MB; {too_large}.", code="report-too-large")
    return page
