"""For an engineer: embeddings of several sites in, one model to use out."""

import tempfile
from pathlib import Path

import numpy as np

import ggeur

work = Path(tempfile.mkdtemp())

# Your pictures go here: arrays of bytes, a label each, and the site (domain) they come from.
pictures = ggeur.digits.images()
table = ggeur.EmbeddingTable(
    x=ggeur.load_encoder("builtin").encode(pictures.x),
    y=pictures.y,
    domain=pictures.domain,
    class_names=pictures.class_names,
    domain_names=pictures.domain_names,
)
table.save(work / "sites.npz")

experiment = ggeur.Experiment.of(
    {
        "data": {"table": str(work / "sites.npz")},
        "partition": {"kind": "domain"},
        "augment": {"per_prototype": 100},
        "train": {"rounds": 3, "local_epochs": 2},
    }
)
ggeur.run(experiment, out=work / "run")

model = ggeur.Model.load(work / "run")
new = table.subset(np.arange(5))
for row in model.probabilities(new):
    print(f"{model.class_names[row.argmax()]} ({100 * row.max():.0f} %)")
