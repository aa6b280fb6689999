"""Statistics of features on their way: the question with its map, the answer, and the checks at both ends."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.flower.wire.ask import Question
from ggeur.flower.wire.check import check_scatter
from ggeur.flower.wire.packing import MESSAGE, Arrays, pack_message
from ggeur.stats.errors import GgeurError
from ggeur.stats.features import FeatureMap, FeatureQuery, TableMap
from ggeur.stats.site_statistics import SiteStatistics
from ggeur.stats.triangles import from_triangles, triangle_size
from ggeur.stats.types import Int
from ggeur.stats.units import Units

_MOST_FEATURES = 20_000  # whose matrix has 3 GB
_ROUNDING = 1e-6  # of sums in float32, over their trace


def feature_question(asked: FeatureQuery, sample_units: Arrays) -> Question:
    """Return the question to a site, whose samples are first taken in `sample_units`, if any."""
    arrays: Arrays = {"landmarks": asked.map.landmarks, "map_units": asked.map.units.pack()}
    if asked.weights is not None:
        arrays["weights"] = asked.weights
    return Question("query.features", {"precision": asked.precision, "features": asked.map.kind}, arrays | sample_units)


def read_feature_question(
    facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], p: int, domains: int, classes: int
) -> FeatureQuery:
    """Return what is asked of a site with samples of `p` dimensions; GgeurError where it cannot be answered."""
    landmarks, units, weights = arrays.get("landmarks"), arrays.get("map_units"), arrays.get("weights")
    if landmarks is None or landmarks.dtype != np.float32 or landmarks.ndim != 2 or landmarks.shape[1] != p:
        raise GgeurError("the landmarks asked for are not points of this site's dimensions", code="site-features-map")
    if not 0 < len(landmarks) <= _MOST_FEATURES or not np.isfinite(landmarks).all():
        raise GgeurError(f"there are at most {_MOST_FEATURES} landmarks, all finite", code="site-features-number")
    if units is None or units.shape != (p + 1,) or not np.isfinite(units).all() or units[0] <= 0:
        raise GgeurError("the units of the features are not a scale and a shift", code="site-features-units")
    if weights is not None and (weights.shape != (domains, classes) or not (weights >= 0).all()):
        raise GgeurError("the weights of the groups are not those of domains and classes", code="site-features-weights")
    if facts.get("precision") not in ("float32", "float64"):
        raise GgeurError("features are in float32 or float64", code="site-features-precision")
    kind = {"kernel": FeatureMap, "tables": TableMap}.get(facts.get("features", "kernel"))
    if kind is None:
        raise GgeurError(
            "the features asked for are of a kind that this version does not know", code="site-features-kind"
        )
    if kind is TableMap and not np.isin(landmarks, (-1, 0, 1)).all():
        raise GgeurError("the corners of tables are of -1, 0 and 1", code="site-features-corners")
    return FeatureQuery(kind(Units.unpack(units), landmarks), weights, facts["precision"])


def pack_features(message: SiteStatistics, asked: FeatureQuery) -> Arrays:
    """Return a site's statistics of features as arrays, its triangle in the precision that was asked for."""
    arrays = pack_message(message)
    return arrays | {"second": arrays["second"].astype(asked.precision)}


def checked_features(arrays: Mapping[str, NDArray[Any]], asked: FeatureQuery, held: Int) -> SiteStatistics:
    """A site's statistics of features, or a GgeurError unless some data could have them.

    `held` (D, C) are the samples that the site said before that it holds.
    """
    d, classes = asked.map.dimension, held.shape[1]
    shapes = {"count": (classes,), "sum": (classes, d), "second": (1, triangle_size(d))}
    if arrays.keys() != set(MESSAGE):
        raise GgeurError("its statistics of features are not what it was asked for", code="message-statistics-invalid")
    for name, shape in shapes.items():
        kind = asked.precision if name == "second" else "float64"
        if arrays[name].shape != shape or arrays[name].dtype != kind:
            raise GgeurError(
                f"its {name} of features has shape {arrays[name].shape} and type {arrays[name].dtype}, not {shape} and "
                f"{kind}",
                code="message-array-shape",
            )
        if not np.isfinite(arrays[name]).all():
            raise GgeurError(f"its {name} of features holds NaN or infinite values", code="message-not-finite")
    weights = np.ones(held.shape) if asked.weights is None else asked.weights
    if not np.allclose(arrays["count"], (weights * held).sum(axis=0), rtol=1e-9, atol=1e-12):
        raise GgeurError(
            "its counts of features are not those of the samples it announced", code="message-counts-changed"
        )
    second = from_triangles(arrays["second"], d).astype(np.float64)
    message = SiteStatistics(arrays["count"], arrays["sum"], second, asked.map.center)
    near = np.diag(second[0])[-len(asked.map.landmarks) :]  # values are between 0 and sqrt(p), or 1
    if (near > asked.map.landmarks.shape[1] * message.count.sum() * (1 + _ROUNDING)).any():
        raise GgeurError("its second moments of features are larger than any data's", code="message-moments-too-large")
    check_scatter(message, 0, _ROUNDING * float(np.trace(second[0])))
    return message
