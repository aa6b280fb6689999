"""The statistics of features of a site's training samples."""

from ggeur.flower.site.opening import rows_of
from ggeur.flower.site.request import Reply, Request
from ggeur.flower.wire.feature_messages import pack_features, read_feature_question


def features(request: Request) -> Reply:
    """Return those that `request` asks for: by the map that it brings, in the clear and without noise."""
    request.exact()
    x, y, domains = rows_of(request)
    n_domains, classes = len(request.facts["domains"]), len(request.facts["classes"])
    asked = read_feature_question(request.facts, request.arrays, x.shape[1], n_domains, classes)
    return {}, pack_features(asked.statistics(x, y, domains, classes), asked)
