"""The templates of pages, in which whatever is filled in is text, never markup."""

from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from ggeur.experiment.plan import human_bytes
from ggeur.report.svg import inline_svg


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
