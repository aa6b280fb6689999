"""Export a head to scikit-learn: a linear one as LogisticRegression, any other as HeadClassifier."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_array

from ggeur.models.exports.export_folder import numbers
from ggeur.models.model import Model


def to_sklearn(model: Model) -> Any:
    """Return the head of `model` as a fitted classifier of embeddings."""
    if model.head != "linear" or len(model.class_names) < 2:
        return HeadClassifier(model)
    found = _logistic(model)
    return found if model.ball is None else make_pipeline(FunctionTransformer(model.ball.apply), found)


def _logistic(model: Model) -> LogisticRegression:
    """Return the linear head over the temperature, for samples in the encoder's units."""
    arrays = {name: a.astype(np.float64) / model.temperature for name, a in numbers(model).items()}
    w, b = arrays["W"], arrays["b"]
    if model.units is not None:
        w = w / model.units.scale
        b = b - w @ model.units.shift
    if len(w) == 2:  # scikit-learn has one row for two classes: their difference
        w, b = w[1:] - w[:1], b[1:] - b[:1]
    found = LogisticRegression()
    found.classes_, found.coef_, found.intercept_ = np.array(model.class_names), w, b
    found.n_features_in_, found.n_iter_ = w.shape[1], np.zeros(1, np.int32)
    return found


class HeadClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted head that is not linear; `fit` does nothing."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def classes_(self) -> NDArray[Any]:
        """Return the names of the classes, in the order of the probabilities."""
        return np.array(self.model.class_names)

    @property
    def n_features_in_(self) -> int:
        return self.model.takes

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Do nothing: a federation has fitted the head."""
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Return (n, C): the probabilities of samples `X` (n, p)."""
        x = check_array(X, dtype=[np.float32, np.float64])
        self.model.check_encoder("X", x.shape[1], {})
        return self.model.probabilities_of(x)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return (n,): the class of each sample of `X` (n, p)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])
