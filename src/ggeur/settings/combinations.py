"""Which features do not meet: tables of sentences, each with whether the settings break it; the first is raised."""

from typing import TYPE_CHECKING

from ggeur.core.errors import GgeurError
from ggeur.federation.augmentation import Augmentation
from ggeur.heads import HEADS, IMAGES, arguments, resolve
from ggeur.methods import ON_EMBEDDINGS, has_own_head, kind_of, resolve_closed_form
from ggeur.methods.algorithm import ClosedForm, Reference, Selection, ZeroShot
from ggeur.settings.choices import of_train

if TYPE_CHECKING:
    from ggeur.settings.schema import Settings

Rules = dict[str, bool]


def check_combinations(s: "Settings") -> None:
    """Raise for what does not meet in `s`; a user's own head and method are imported for it, so no validator can."""
    augmentation, t = s.augment.build(), s.train
    if has_own_head(t.method):
        _check(_own_head(s))
    if t.head in IMAGES or (t.head not in HEADS and resolve(t.head, **s.head_parameters).images):
        _check(_images(s))
    for name, values in s.head.items():
        known = arguments(name, values)
        for key, value in of_train(name, t).items():
            if value != known[key]:
                raise GgeurError(f"train.{key} is {value} and [head.{name}] {key} {known[key]}: give one of them.")
    if t.head not in HEADS or s.head_parameters:  # ours takes softmax, and its defaults
        arguments(t.head, s.head_parameters, softmax=t.softmax)
    _check(_linear(s, augmentation))
    if kind_of(t.method) is not ZeroShot:
        _check(_privacy(s, augmentation))


def _check(rules: Rules) -> None:
    for sentence, broken in rules.items():
        if broken:
            raise GgeurError(sentence)


def _own_head(s: "Settings") -> Rules:
    """What goes with a linear head alone, where the method has a head of its own."""
    t = s.train
    another = f"is not for {t.method}, which trains a head of its own: leave it out."
    return {
        f'[train] head = "{t.head}" {another}': t.head != HEADS[0],
        f"[train] softmax = true {another}": t.softmax,
        f'[train] start = "{t.start}" {another}': t.solver is not None,
        f"[privacy] projection takes embeddings away from their text, which {t.method} needs.": (
            s.privacy.projection is not None
        ),
    }


def _images(s: "Settings") -> Rules:
    """What a network on pictures leaves no room for."""
    t, head = s.train, f'[train] head = "{s.train.head}" is trained on pictures'
    solved = kind_of(t.method) in (ClosedForm, Selection, ZeroShot) or t.solver is not None
    pixels = s.data.dataset is None or str(s.data.encoder).startswith("pixels:")
    return {
        f'{head}, and what is solved needs embeddings: use head = "linear" and an encoder.': solved,
        f"{head}, and '{t.method}' changes embeddings: use another method, such as fedavg.": t.method in ON_EMBEDDINGS,
        f'{head}, and [augment] kind = "{s.augment.kind}" draws embeddings: use kind = "none".': (
            s.augment.kind != "none"
        ),
        f"{head}, which it normalises itself: leave [data] standardise and [privacy] radius out.": (
            s.data.standardise or s.privacy.ball is not None
        ),
        f'{head}: give [data] encoder = "pixels:32", or another size, to keep those of a dataset.': not pixels,
    }


def _linear(s: "Settings", augmentation: Augmentation) -> Rules:
    """What needs a linear head."""
    t, start = s.train, f"[train] start = '{s.train.start}' is not"
    linear = t.head == HEADS[0] or resolve(t.head, **s.head_parameters).linear
    bounded = linear and not t.softmax and not has_own_head(t.method)
    solved = kind_of(t.method) in (ClosedForm, Selection, ZeroShot) or t.solver is not None
    known = t.solver is None or kind_of(t.solver) is ClosedForm
    begins = t.solver is None or not known or _of_solver(s, t.solver)
    return {
        '[train]: what is solved has a head of its own: use head = "linear", the default.': solved and not linear,
        f'[augment] kind = "{s.augment.kind}" bounds the loss of a linear head: use a method that trains one, '
        '[train] head = "linear" and softmax = false.': augmentation.rank is not None and not bounded,
        f"{start} solved from statistics, so nothing can start from it.": not known,
        f"{start} a linear head, so training cannot start from it.": not begins,
    }


def _of_solver(s: "Settings", solver: str) -> bool:
    """Whether the head that `solver` solves for is linear."""
    return resolve(resolve_closed_form(solver, s.method.get(solver, {})).head).linear


def _privacy(s: "Settings", augmentation: Augmentation) -> Rules:
    """What would break, or not need, what [privacy] promises: noise on statistics that are sent once, totals alone."""
    p, t, needs, kind = s.privacy, s.train, augmentation.needs, kind_of(s.train.method)
    auto, trained = kind is Selection, kind not in (ClosedForm, Selection)
    epsilon, secure = p.epsilon is not None, p.secure_aggregation and kind is not Reference
    sent = not trained or needs is not None or t.solver is not None or s.data.standardise
    means = needs == "none" and (secure or (epsilon and augmentation.noise is not None))
    return {
        "[privacy] secure_aggregation needs radius, a public bound on the length of a sample: sums are taken in fixed "
        "point, "
        "and longer samples are scaled down.": secure and sent and p.radius is None,
        "[data] standardise needs exact sums of samples, which [privacy] epsilon does not allow.": (
            epsilon and s.data.standardise
        ),
        'Under [privacy] epsilon, method = "auto" chooses by a public rule alone: say how many training samples '
        "there are with [privacy] samples.": epsilon and auto and p.samples is None,
        "Under [privacy] epsilon the candidates of auto are fixed: ncm and ridge.": (
            epsilon and auto and s.method.get(t.method, {}).get("candidates") is not None
        ),
        f"[privacy] epsilon protects the statistics that sites send, and here they send none: '{t.method}' "
        "trains on their samples. Solve a head, such as ridge, or leave epsilon out.": (
            epsilon and trained and needs is None and t.solver is None
        ),
        "Under [privacy] epsilon sites send statistics once: for train.start or for the augmentation, not both.": (
            epsilon and trained and needs is not None and t.solver is not None
        ),
        "Under [privacy] epsilon or secure_aggregation no shapes can be estimated from the means of single clients.": (
            trained and means
        ),
        "[augment] guided below 1 needs the exact counts and shapes of single clients, which [privacy] epsilon and "
        "secure_aggregation hide.": (epsilon or secure) and trained and s.augment.guided < 1,
        "Under [privacy] secure_aggregation there are no prototypes of single domains; use steps = 1.": (
            secure and trained and augmentation.prototypes
        ),
        "Under [privacy] secure_aggregation all clients take part in every round, as totals of different clients "
        "could be "
        "taken off each other; leave clients_per_round out.": secure and trained and t.clients_per_round is not None,
    }
