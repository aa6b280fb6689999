"""Which features do not meet: tables of rules with their codes and sentences; the first that is broken is raised."""

from typing import TYPE_CHECKING

from ggeur.experiments.settings_types import of_train
from ggeur.federation.augmentation import Augmentation
from ggeur.heads import HEADS, IMAGES, arguments, resolve
from ggeur.methods import ON_EMBEDDINGS, has_own_head, kind_of, resolve_closed_form
from ggeur.methods.algorithm import ClosedForm, Reference, Selection, ZeroShot
from ggeur.stats.errors import GgeurError

if TYPE_CHECKING:
    from ggeur.experiments.settings import Settings

Rules = dict[str, tuple[bool, str]]  # code -> (whether the settings break it, sentence)


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
                raise GgeurError(
                    f"train.{key} is {value} and [head.{name}] {key} {known[key]}: give one of them.",
                    code="hyperparameter-given-twice",
                )
    if t.head not in HEADS or s.head_parameters:  # ours takes softmax, and its defaults
        arguments(t.head, s.head_parameters, softmax=t.softmax)
    _check(_linear(s, augmentation))
    if kind_of(t.method) is not ZeroShot:
        _check(_privacy(s, augmentation))


def _check(rules: Rules) -> None:
    for code, (broken, sentence) in rules.items():
        if broken:
            raise GgeurError(sentence, code=code)


def _own_head(s: "Settings") -> Rules:
    """Return what goes with a linear head alone, where the method has a head of its own."""
    t = s.train
    another = f"is not for {t.method}, which trains a head of its own: leave it out."
    return {
        "settings-head-fixed": (t.head != HEADS[0], f'[train] head = "{t.head}" {another}'),
        "settings-softmax-fixed": (t.softmax, f"[train] softmax = true {another}"),
        "settings-start-fixed": (t.solver is not None, f'[train] start = "{t.start}" {another}'),
        "privacy-projection-text": (
            s.privacy.projection is not None,
            f"[privacy] projection takes embeddings away from their text, which {t.method} needs.",
        ),
    }


def _images(s: "Settings") -> Rules:
    """Return what a network on images leaves no room for."""
    t, head = s.train, f'[train] head = "{s.train.head}" is trained on images'
    solved = kind_of(t.method) in (ClosedForm, Selection, ZeroShot) or t.solver is not None
    pixels = s.data.dataset is None or str(s.data.encoder).startswith("pixels:")
    return {
        "settings-images-solver": (
            solved,
            f'{head}, and a one-shot solver needs embeddings: use head = "linear" and an encoder.',
        ),
        "settings-images-method": (
            t.method in ON_EMBEDDINGS,
            f"{head}, and '{t.method}' changes embeddings: use another method, such as fedavg.",
        ),
        "settings-images-augmentation": (
            s.augment.kind != "none",
            f'{head}, and [augment] kind = "{s.augment.kind}" draws embeddings: use kind = "none".',
        ),
        "settings-images-units": (
            s.data.standardise or s.privacy.ball is not None,
            f"{head}, which it normalises itself: leave [data] standardise and [privacy] radius out.",
        ),
        "settings-images-encoder": (
            not pixels,
            f'{head}: give [data] encoder = "pixels:32", or another size, to keep those of a dataset.',
        ),
    }


def _linear(s: "Settings", augmentation: Augmentation) -> Rules:
    """Return what needs a linear head."""
    t, start = s.train, f"[train] start = '{s.train.start}' is not"
    linear = t.head == HEADS[0] or resolve(t.head, **s.head_parameters).linear
    bounded = linear and not t.softmax and not has_own_head(t.method)
    solved = kind_of(t.method) in (ClosedForm, Selection, ZeroShot) or t.solver is not None
    known = t.solver is None or kind_of(t.solver) is ClosedForm
    begins = t.solver is None or not known or _of_solver(s, t.solver)
    return {
        "settings-head-solved": (
            solved and not linear,
            '[train]: what is solved has a head of its own: use head = "linear", the default.',
        ),
        "augmentation-head-not-linear": (
            augmentation.rank is not None and not bounded,
            f'[augment] kind = "{s.augment.kind}" bounds the loss of a linear head: use a method that trains one, '
            '[train] head = "linear" and softmax = false.',
        ),
        "settings-start-not-solved": (not known, f"{start} solved from statistics, so nothing can start from it."),
        "settings-start-not-linear": (not begins, f"{start} a linear head, so training cannot start from it."),
    }


def _of_solver(s: "Settings", solver: str) -> bool:
    """Whether the head that `solver` solves for is linear."""
    return resolve(resolve_closed_form(solver, s.method.get(solver, {})).head).linear


def _privacy(s: "Settings", augmentation: Augmentation) -> Rules:
    """Return what would break, or not need, the privacy of statistics that are sent once, and of totals alone."""
    p, t, needs, kind = s.privacy, s.train, augmentation.needs, kind_of(s.train.method)
    auto, trained = kind is Selection, kind not in (ClosedForm, Selection)
    noisy, secure = not p.release.exact, p.secure_aggregation and kind is not Reference
    sent = not trained or needs is not None or t.solver is not None or s.data.standardise
    means = needs == "none" and (secure or (noisy and augmentation.noise is not None))
    solved = resolve_closed_form(t.method, s.method.get(t.method, {})) if kind is ClosedForm else None
    features = solved is not None and solved.features is not None
    return {
        "secure-aggregation-auto": (
            secure and auto and not noisy,
            'method = "auto" selects by the statistics of single domains, which [privacy] secure_aggregation hides: '
            "name a method that needs the total alone, such as ridge, or ggeur-limit where every domain has three "
            "sites.",
        ),
        "privacy-features": (
            features and (noisy or secure),
            f"Under [privacy] epsilon, mechanism or secure_aggregation there is no '{t.method}': noise and fixed point "
            "would fall on all products of its features; take ridge, or ggeur-limit with pooled covariance.",
        ),
        "privacy-radius-missing": (
            secure and sent and p.radius is None,
            "[privacy] secure_aggregation needs radius, a public bound on the length of a sample: totals are taken in "
            "fixed point, and longer samples are scaled down.",
        ),
        "privacy-standardise-exact": (
            noisy and s.data.standardise,
            "[data] standardise needs exact sums of samples, which [privacy] epsilon or mechanism does not allow.",
        ),
        "privacy-samples-missing": (
            noisy and auto and p.samples is None,
            'Under [privacy] epsilon, method = "auto" chooses by a public rule alone: say how many training samples '
            "there are with [privacy] samples.",
        ),
        "privacy-candidates-fixed": (
            noisy and auto and s.method.get(t.method, {}).get("candidates") is not None,
            "Under [privacy] epsilon or mechanism the candidates of auto are fixed: ncm and ridge.",
        ),
        "privacy-epsilon-without-statistics": (
            noisy and trained and needs is None and t.solver is None,
            "[privacy] epsilon or mechanism protects the statistics that sites send, and here they send none: "
            f"'{t.method}' trains on their samples. Take a one-shot solver, such as ridge, or leave it out.",
        ),
        "privacy-statistics-sent-twice": (
            noisy and trained and needs is not None and t.solver is not None,
            "Under [privacy] epsilon or mechanism sites send statistics once: for train.start or for the augmentation, "
            "not both.",
        ),
        "privacy-shapes-from-means": (
            trained and means,
            "Under [privacy] epsilon, mechanism or secure_aggregation no shapes can be estimated from the means of "
            "single clients.",
        ),
        "privacy-guided-exact": (
            (noisy or secure) and trained and s.augment.guided < 1,
            "[augment] guided below 1 needs the exact counts and shapes of single clients, which [privacy] epsilon, "
            "mechanism and secure_aggregation hide.",
        ),
        "secure-aggregation-domain-prototypes": (
            secure and trained and augmentation.prototypes,
            "Under [privacy] secure_aggregation there are no prototypes of single domains; use steps = 1.",
        ),
        "secure-aggregation-clients-sampled": (
            secure and trained and t.clients_per_round is not None,
            "Under [privacy] secure_aggregation all clients take part in every round, as totals of different clients "
            "could be taken off each other; leave clients_per_round out.",
        ),
    }
