# %% [markdown]
# # For an engineer: folders of pictures at several sites in, one model to use out
# Every site has a folder `<class>/*.png`. Here they are made of the built-in digits; yours are there already.

# %%
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import ggeur

work = Path(tempfile.mkdtemp())
digits = ggeur.digits.images()
for row in np.random.default_rng(0).permutation(len(digits.x))[:1200]:
    site = digits.domain_names[digits.domain[row]]
    folder = work / ("new" if row % 10 == 0 else site) / f"digit-{digits.y[row]}"
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(digits.x[row]).save(folder / f"{site}-{row}.png")

# %% [markdown]
# Each site's pictures are embedded and summed up, and the head is solved from the sums, without rounds. A foundation
# model goes in place of `builtin`: `onnx:tower.onnx`, or the name of one on the Hugging Face hub.

# %%
sites = {name: work / name for name in digits.domain_names}
model = ggeur.fit(sites, method="ggeur-limit", encoder="builtin", out=work / "model")

# %% [markdown]
# Pictures that took no part:

# %%
files = sorted(work.glob("new/*/*.png"))
x = ggeur.load_encoder("builtin").encode([np.asarray(Image.open(file)) for file in files])
labels = model.predict(x)
for file, label in list(zip(files, labels, strict=True))[:3]:
    print(f"{file.name} is {label}")
right = np.mean([label == file.parent.name for file, label in zip(files, labels, strict=True)])
print(f"{100 * right:.0f} % of {len(files)} new pictures are right")
