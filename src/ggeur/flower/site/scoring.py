"""A solved head at a site, which is scored on its test samples at the end."""

import hashlib

from ggeur.flower.site.data import test_samples
from ggeur.flower.site.local_round import scores_of
from ggeur.flower.site.request import Reply, Request
from ggeur.flower.wire.packing import arrays_to_tree


def score(request: Request) -> Reply:
    """Score the head that `request` brings, of the kind it names, on this site's test samples, and forget the run."""
    from ggeur.heads import resolve

    said = b"".join(name.encode() + array.tobytes() for name, array in sorted(request.arrays.items()))
    request.site.policy.score(request.site.root, request.store.identity, hashlib.sha256(said).hexdigest())
    table, head = request.table(), resolve(request.site.allowed(str(request.facts["kind"]), "head"))
    test = test_samples(table)
    params = arrays_to_tree(request.arrays, request.facts["head"], "head")
    scores, confusion = scores_of(request, (table.x[test], table.y[test], table.domains[test]), params, head)
    request.forget()
    return {"scores": scores}, {"confusion": confusion}
