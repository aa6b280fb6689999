"""The error that a user's mistake raises, the warning, and what the user may have meant."""

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class GgeurError(Exception):
    """Bad input or an impossible request, told in one sentence: what, where, and what to do.

    The command line prints it and exits with code 2; everything else is a defect of ours. `code` names the mistake for
    programs, and stays when the `sentence` is worded anew.

    Parameters
    ----------
    sentence : what is wrong, where, and what to do.
    code : the name of the mistake, which stays when the sentence changes.

    >>> import ggeur
    >>> try:
    ...     ggeur.partition.dirichlet([0, 0, 1], clients=2, beta=-1.0)
    ... except ggeur.GgeurError as error:
    ...     print(f"{error.code}: {error}")
    partition-beta-invalid: beta is -1.0; a Dirichlet parameter must be positive and below 1e300.
    """

    def __init__(self, sentence: str, *, code: str = "unspecified") -> None:
        super().__init__(sentence)
        self.code = code


class Unavailable(GgeurError):
    """A request needs something that is absent: an arm that needs it is left out of a run, and the others go on."""


class GgeurWarning(UserWarning):
    """Legal, but probably not what was meant.

    >>> import warnings
    >>> warnings.simplefilter("error", GgeurWarning)  # to have none of it
    >>> warnings.simplefilter("default", GgeurWarning)
    """


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
    if path.exists() or path.name == "result.json":
        return ""
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
