"""Figures with their words, which stand in `captions.toml`."""

from typing import Any, NamedTuple

from matplotlib.figure import Figure

from ggeur.core.packaged import packaged_toml

_CAPTIONS = packaged_toml("report", "captions.toml")


class CaptionedFigure(NamedTuple):
    """A figure with its words; `on_page` if its ink may follow the page."""

    key: str
    figure: Figure
    short: str  # its name in the page's list of contents
    title: str
    caption: str
    on_page: bool


def captioned(key: str, figure: Figure, **words: Any) -> CaptionedFigure:
    """The figure with its caption, in which `words` fill the gaps."""
    entry = _CAPTIONS[key]
    title, caption = (entry[part].format(**words) for part in ("title", "caption"))
    return CaptionedFigure(key, figure, entry["short"], title, caption, entry.get("on_page", False))
