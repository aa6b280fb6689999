"""A head as an object of scikit-learn: a linear one as its LogisticRegression, any other as an estimator of ours."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_array

from ggeur.runs.exports.numbers import numbers
from ggeur.runs.model import Model


def to_sklearn(model: Model) -> Any:
    """The head of `model` as a fitted classifier of embeddings."""
    if model.head != "linear" or len(model.class_names) < 2:
        return HeadClassifier(model)
    found = _logistic(model)
    return found if model.ball is None else make_pipeline(FunctionTransformer(model.ball.apply), found)


def _logistic(model: Model) -> LogisticRegression:
    """W x + b over the temperature, for rows that are not in units of their own."""
    arrays = {name: a.astype(np.float64) / model.temperature for name, a in numbers(model).items()}
    w, b = arrays["W"], arrays["b"]
    if model.units is not None:
        w = w / model.units.scale
        b = b - w @ model.units.shift
    if len(w) == 2:  # where scikit-learn knows one row, by which the second class is ahead
        w, b = w[1:] - w[:1], b[1:] - b[:1]
    found = LogisticRegression()
    found.classes_, found.coef_, found.intercept_ = np.array(model.class_names), w, b
    found.n_features_in_, found.n_iter_ = w.shape[1], np.zeros(1, np.int32)
    return found


class HeadClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A head that is not linear, solved or trained already: there is nothing to fit."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def classes_(self) -> NDArray[Any]:
        """The names of the classes, in the order of the probabilities."""
        return np.array(self.model.class_names)

    @property
    def n_features_in_(self) -> int:
        return self.model.takes

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Does nothing: a federation has fitted it."""
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """(n, C): probabilities of rows `X` (n, p)."""
        x = check_array(X, dtype=[np.float32, np.float64])
        self.model.check_encoder("X", x.shape[1], {})
        return self.model.probabilities_of(x)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """(n,): the class of each row of `X` (n, p)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])
