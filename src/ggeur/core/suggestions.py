"""What a user may have meant: the nearest name, the file beside, the extra to install."""

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[3]


def nearest(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the nearest of the `known` names; nothing where none is near.

    >>> nearest("auot", ["auto", "lda"])
    " Did you mean 'auto'?"
    >>> nearest("something else", ["auto", "lda"])
    ''
    """
    by_plain = {_plain(one): one for one in known}
    close = get_close_matches(_plain(name), by_plain, n=1, cutoff=0.7)
    return f" Did you mean '{by_plain[close[0]]}'?" if close else ""


def nearest_file(path: Path) -> str:
    """Return the same for a `path` that is not there, among what lies beside it."""
    try:
        beside = [one.name for one in path.parent.iterdir()]
    except OSError:
        return ""
    same_stem = [name for name in beside if Path(name).stem == path.name]
    if same_stem:
        return f" Did you mean '{path.with_name(sorted(same_stem)[0])}'?"
    by_stem = {Path(name).stem: name for name in sorted(beside)}
    close = get_close_matches(path.stem, by_stem, n=1, cutoff=0.7)
    return f" Did you mean '{path.with_name(by_stem[close[0]])}'?" if close else ""


def how_to_install(extra: str) -> str:
    """Return the command that installs an `extra`: of a checkout, or of the package."""
    if (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "src" / "ggeur").is_dir():
        pip = Path(sys.prefix) / ("Scripts" if sys.platform == "win32" else "bin") / "pip"
        near = pip.relative_to(Path.cwd()) if pip.is_relative_to(Path.cwd()) else pip
        return f'{near} install -e ".[{extra}]"'
    return f"pip install 'ggeur[{extra}]'"


def _plain(name: str) -> str:
    """Return it as people confuse it: in lower case, without dashes."""
    return name.lower().replace("-", "").replace("_", "")
