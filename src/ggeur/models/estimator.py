"""A classifier of scikit-learn's kind, solved from statistics: of an array, of several sites, or as they sent them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from ggeur.federation.stored_statistics import StoredFederation, StoredStatistics
from ggeur.heads import resolve as resolve_head
from ggeur.heads import sizes
from ggeur.heads.head import double_logits
from ggeur.methods import kind_of
from ggeur.methods.algorithm import Selection
from ggeur.models.sites import AnySite, GivenSite, check_site_labels, read_sites, site_of_rows
from ggeur.models.solution import Solution, SolvedSites, check_method, solve, solve_sites
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import Covariance, SiteStatistics, largest
from ggeur.stats.statistics import ClassStatistics
from ggeur.stats.types import Float
from ggeur.stats.validate import check_all, check_is

_ALONE = "all"  # the one site, where none are named


class OneShotClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A head solved from counts, sums and second moments, which sites send once; no rounds, no seed to tune.

    Parameters
    ----------
    method : a one-shot classifier (`ggeur methods`), or "auto", which selects one by the statistics alone.
    parameters : those of the method, such as {"shrinkage": 0.5}; default: its own defaults.
    covariance : "per-class" second moments, or "pooled" ones, of which one matrix travels for all classes.
    seed : of the synthetic samples of "auto", and of heads that draw.

    Attributes
    ----------
    classes_ : name or number of each class, in the order of columns of `predict_proba`.
    n_features_in_ : number of dimensions p.
    solution_ : the selected solver, why, and its hyperparameters.
    params_ : numbers of the head, such as W (C, p) and b (C,).
    statistics_ : the statistics of each site.
    metrics_ : accuracy on test samples, after `ggeur.fit`.
    calibration_ : the temperature, after `ggeur.fit`.

    >>> x, y = np.random.default_rng(0).normal(size=(60, 4)), np.repeat(["ant", "bee", "cat"], 20)
    >>> x[np.arange(60), np.repeat([0, 1, 2], 20)] += 5
    >>> OneShotClassifier("lda").fit_sites([(x[::2], y[::2]), (x[1::2], y[1::2])]).score(x, y)
    1.0
    """

    def __init__(
        self,
        method: str = "ggeur-limit",
        *,
        parameters: Mapping[str, Any] | None = None,
        covariance: Covariance = "per-class",
        seed: int = 0,
    ) -> None:
        self.method = method
        self.parameters = parameters
        self.covariance = covariance
        self.seed = seed

    def fit(self, X: Any, y: Any, sites: ArrayLike | None = None) -> Self:
        """Solve the head for samples `X` (n, p) of classes `y` (n,); `sites` (n,) says whose each sample is, default:
        one's.

        Every site is a domain of its own.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        whose = np.full(len(y), _ALONE) if sites is None else column_or_1d(sites)
        check_consistent_length(y, whose)
        with _value_errors():
            check_site_labels(y, "y")
            check_site_labels(whose, "sites")
            check_classification_targets(y)
            each = [site_of_rows(str(s), X[whose == s], y[whose == s]) for s in np.unique(whose).tolist()]
            return self._solve_sites(each)

    def fit_sites(self, sites: Sequence[GivenSite] | Mapping[str, GivenSite], *, encoder: str | None = None) -> Self:
        """Solve the head for several `sites`: pairs (X, y), embedding tables or paths, or a mapping of names to them.

        `encoder` names what embeds those that are folders of pictures.
        """
        with _value_errors():
            return self._solve_sites(read_sites(sites, encoder))

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, site: str = _ALONE) -> Self:
        """Add samples `X` (n, p) of classes `y` (n,) to what is there, as those of `site`, and solve again.

        `classes` are all that will come; others may come too, as long as the head is asked only for what it has seen.
        The method may have changed since, as long as what was summed up for the one before does for it.
        """
        first = not hasattr(self, "statistics_")
        X, y = validate_data(self, X, y, dtype=np.float64, reset=first)
        with _value_errors():
            given: Any = classes if first else vars(self)["classes_"]
            known = [] if given is None else np.asarray(given).tolist()
            check_site_labels([*known, *np.asarray(y).tolist()], "y or classes")
            check_classification_targets(y)
            check_method(self.method, "pooled")
            if kind_of(self.method) is Selection:
                raise GgeurError(
                    f"'{self.method}' selects by all statistics at once, and partial_fit has them one after the other: "
                    "name a method, or use fit_sites or from_statistics.",
                    code="method-choice-impossible",
                )
            solution = Solution.given(self.method, self.parameters or {}, self.covariance, self.seed)
            before: dict[str, StoredStatistics] = {} if first else {s.name: s for s in self.statistics_}
            kind = _kind_to_send(solution, before.values())
            self.solution_, self.classes_ = solution, np.union1d(known, y) if known else np.unique(y)
            names, new = tuple(map(str, self.classes_.tolist())), site_of_rows(site, X, y).statistics(kind)
            before[site] = before[site].joined(new, names) if site in before else new
            federation = StoredFederation(before.values(), names)
            self.statistics_: tuple[StoredStatistics, ...] = federation.stored
            seen = np.sum([one.counts for one in federation.sites], axis=0) > 0
            if seen.sum() > 1:  # of one class, there is nothing to tell yet
                self.params_ = solution.solve(federation).params
            return self

    @classmethod
    def from_statistics(
        cls,
        statistics: Sequence[ClassStatistics] | Mapping[str, ClassStatistics],
        *,
        classes: ArrayLike | None = None,
        method: str = "ggeur-limit",
        parameters: Mapping[str, Any] | None = None,
    ) -> Self:
        """The classifier of what sites sent: their `statistics`, of one domain each, by name or in order.

        `classes` (C,) are the names or numbers of the classes, default 0, 1, ...; `method` and `parameters` are the
        classifier's. How much the statistics hold, per class or pooled, is how much it may need.
        """
        with _value_errors():
            named: Any = statistics
            if not isinstance(named, Mapping):
                several = check_all("statistics", statistics, ClassStatistics, "statistics")
                named = {f"site-{i:06d}": s for i, s in enumerate(several)}
            for name, s in named.items():
                check_is(f"What {name} sent", s, ClassStatistics, "statistics")
            each = {str(name): SiteStatistics(s.count, s.sum, s.second, s.center) for name, s in named.items()}
            if not each:
                raise GgeurError("There are no statistics to solve a head from.", code="statistics-missing")
            first = next(iter(each.values()))
            kind, shape = first.kind, first.sum.shape
            if any(m.kind != kind or m.sum.shape != shape for m in each.values()):
                raise GgeurError(
                    "The statistics differ in kind, classes or dimensions; all sites must send alike.",
                    code="statistics-mismatch",
                )
            found = cls(method, parameters=parameters, covariance=kind)
            check_method(method, "pooled")
            found.classes_ = np.arange(shape[0]) if classes is None else np.asarray(classes)
            check_site_labels(found.classes_, "classes")
            if found.classes_.shape != shape[:1] or len(set(found.classes_.tolist())) < shape[0]:
                raise GgeurError(
                    f"The statistics are of {shape[0]} classes; name as many, none of them twice.",
                    code="class-names-mismatch",
                )
            found.n_features_in_ = shape[1]
            names = tuple(map(str, found.classes_.tolist()))
            return found._solve([StoredStatistics(n, names, kind, {n: m}) for n, m in each.items()], names)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """(n,): the class of each sample of `X` (n, p)."""
        logits = self._logits(X)  # which says whether there is a head
        return np.asarray(self.classes_[logits.argmax(axis=1)])

    def predict_proba(self, X: ArrayLike) -> Float:
        """(n, C): the probability of each class, in the order of `classes_`, of each sample of `X` (n, p)."""
        t = getattr(self, "calibration_", {}).get("temperature", 1.0)  # which `ggeur.fit` has fitted
        return np.asarray(softmax(self._logits(X) / t, axis=1))

    def _solve_sites(self, sites: Sequence[AnySite]) -> Self:
        """Sum up, select where that is asked for, and solve, for `sites` as `read_sites` gives them."""
        return self._taking(solve_sites(sites, self.method, self.parameters or {}, self.covariance, self.seed))

    def _taking(self, found: SolvedSites) -> Self:
        """Take over a classifier that was solved for sites already."""
        self.classes_, self.n_features_in_ = np.array(found.labels), found.federation.dimension
        self.solution_, self.params_, self.statistics_ = found.solution, found.params, found.federation.stored
        return self

    def _solve(self, stored: Iterable[StoredStatistics], names: tuple[str, ...]) -> Self:
        federation = StoredFederation(stored, names)
        self.solution_, found = solve(federation, self.method, self.parameters or {}, self.covariance, self.seed)
        self.statistics_, self.params_ = federation.stored, found.params
        return self

    def _logits(self, X: ArrayLike) -> Float:
        check_is_fitted(self, "params_")
        x, params = validate_data(self, X, dtype=np.float64, reset=False), self.params_
        kind = self.solution_.solved.head
        head = resolve_head(kind, **sizes(kind, params))
        return np.asarray(double_logits(head, params, x))


def _kind_to_send(solution: Solution, before: Iterable[StoredStatistics]) -> Covariance:
    """Return what new samples are summed up to: as much as those `before` were, which must do for the method of
    today.
    """
    kinds = {s.kind for s in before}
    if short := [kind for kind in kinds if largest([kind, solution.kind]) != kind]:
        raise GgeurError(
            f"'{solution.method}' needs {solution.kind} second moments, and the samples so far were summed up to "
            f"{short[0]}: fit it to all samples anew.",
            code="statistics-covariance-missing",
        )
    return largest([*kinds, solution.kind]) or solution.kind


@contextmanager
def _value_errors() -> Iterator[None]:
    """A user's mistake as scikit-learn has it."""
    try:
        yield
    except GgeurError as error:
        raise ValueError(str(error)) from error
