"""The templates of pages, in which whatever is filled in is text, never markup."""

import platform
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ggeur.core.errors import GgeurError
from ggeur.experiment.plan import human_bytes
from ggeur.report.svg import inline_svg

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
