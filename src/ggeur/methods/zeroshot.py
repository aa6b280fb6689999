"""Zero-shot: the class whose text embedding is most similar to x; it looks at no training sample at all.

logit_c = 100 cos(x, t_c)
"""

import numpy as np

from ggeur.heads.head import Params
from ggeur.methods.algorithm import Task, ZeroShot


def zeroshot(*, prompts: str | None = None) -> ZeroShot:
    """`prompts`: which of the table's sets of text (C, p) it takes; by default the first."""

    def solve(task: Task) -> Params:
        t = task.text_of(prompts, "zeroshot").astype(np.float32)
        return {"text": t / np.maximum(np.linalg.norm(t, axis=1, keepdims=True), 1e-12)}

    return ZeroShot(solve, head="cosine")
