"""[train] head and [head.NAME]: which head it is, what it is built with, and what will not do."""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from ggeur.core.errors import GgeurError
from ggeur.core.names import is_own
from ggeur.heads import HEADS, arguments
from ggeur.methods import kind_of
from ggeur.methods.algorithm import Given, Solved

if TYPE_CHECKING:
    from ggeur.settings.schema import Settings


def _one_of_them(value: object) -> object:
    """Nothing is imported here: a site validates settings before it has agreed to import anything."""
    if not isinstance(value, str) or not (value in HEADS or is_own(value)):
        raise ValueError(
            f"there is no head {value!r}; there are {', '.join(HEADS)}, or your own as package.module:name"
        )
    return value


HeadName = Annotated[str, BeforeValidator(_one_of_them)]


def head_parameters(point: "Settings") -> dict[str, Any]:
    """What `point` gives for its [train] head: under [head.NAME], or as train.hidden."""
    t = point.train
    alias = {"hidden": t.hidden} if t.head == "mlp" and t.hidden is not None else {}
    return alias | point.head.get(t.head, {})


def check_heads(point: "Settings") -> None:
    """Raise for what will not do in `point`; a user's own head and method are imported for it, so no validator can."""
    t = point.train
    if t.head != "linear" and (t.start != "random" or kind_of(t.method) in (Solved, Given)):
        raise GgeurError('[train]: closed-form heads are linear: use head = "linear".')
    for name, values in point.head.items():
        hidden = arguments(name, values).get("hidden", t.hidden)
        if name == "mlp" and t.hidden not in (None, hidden):
            raise GgeurError(f"train.hidden is {t.hidden} and [head.mlp] hidden {hidden}: give one of them.")
    arguments(t.head, head_parameters(point), softmax=t.softmax)
