"""A site's noisy statistics: they are released once, and a repeated request gets the same bytes.

Another draw of the noise, or an answer to another question, would be a second release, and cost its epsilon again. So
what was sent is kept beyond the end of the run. `privacy.jsonl` beside it records the privacy budget that is spent.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.federation.summary import summarise
from ggeur.flower.site.request import Request
from ggeur.flower.site.site_policy import note_spending, spending
from ggeur.flower.wire.packing import Arrays, pack_message
from ggeur.flower.wire.requested import RequestedStatistics, samples_of
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import read_arrays, write_atomically
from ggeur.stats.types import Int


def released(request: Request, wanted: RequestedStatistics, samples: tuple[NDArray[Any], Int, Int]) -> Arrays:
    """Return the noisy statistics that `request` asks for, of `samples`: x, y and domains."""
    folder = request.site.root / "sent"
    asked = json.dumps([wanted.facts, request.facts["classes"], request.facts["domains"]])
    name = request.store.identity.rpartition("-")[0]  # run and client: the server chooses the trial's number
    question = hashlib.sha256(asked.encode()).hexdigest()[:16]
    path = folder / f"{name}-{question}.npz"
    with spending(request.site.root):
        if not path.exists():
            _release(request, wanted, samples, path)
    return read_arrays(path)


def _release(request: Request, wanted: RequestedStatistics, samples: tuple[NDArray[Any], Int, Int], path: Path) -> None:
    """Draw the noise of this run's one release, and keep the result in `path`."""
    folder, name = path.parent, path.stem.rpartition("-")[0]
    if "center" in request.arrays or next(folder.glob(f"{name}-*.npz"), None) is not None:
        raise GgeurError(
            "this site sends its statistics under a privacy mechanism once, and this would be a second time",
            code="policy-second-message",
        )
    request.site.policy.afford(request.site.root, request.point.privacy)
    x, y, domains = samples
    clients, arrays = request.point.federate.sites or 1, Arrays()
    for part in wanted.parts(sorted(set(domains.tolist()))):
        mine = samples_of(part, domains)
        message = summarise(x[mine], y[mine], len(request.facts["classes"]), wanted.kind)
        arrays |= pack_message(request.release.apply(message, clients), part.prefix)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Before the file: rather record a release that is never sent than send one unrecorded.
    note_spending(request.site.root, request.store.identity, request.point.privacy)
    with write_atomically(path) as file:
        np.savez(file, allow_pickle=False, **arrays)
