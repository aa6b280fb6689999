# %% [markdown]
# # For an engineer: folders of images at several sites in, one model to use out
# Every site has a folder `<class>/*.png`. Here they are made of the built-in digits; yours are there already.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

import ggeur

work = Path(tempfile.mkdtemp())
digits = ggeur.digits.images()
for row in np.random.default_rng(0).permutation(len(digits.x))[:1200]:
    site = digits.domain_names[digits.domain[row]]
    kept = "new" if row % 10 == 0 else site
    folder = work / kept / f"digit-{digits.y[row]}"
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(digits.x[row]).save(folder / f"{site}-{row}.png")

# %% [markdown]
# The four sites have the same ten classes, each in its own style. This is *domain shift*:

# %%
figure, axes = plt.subplots(4, 8, figsize=(6, 3.2))
for line, site in zip(axes, digits.domain_names, strict=True):
    line[0].set_title(site, loc="left", fontsize=9)
    files = sorted(work.glob(f"{site}/*/*5.png"))
    for ax, file in zip(line, files, strict=False):
        ax.imshow(Image.open(file))
        ax.axis("off")

# %% [markdown]
# Each site's images are embedded, and the classifier is computed from the statistics, without rounds. For photographs
# put a foundation model in place of `builtin`: `onnx:tower.onnx`, or the name of one on the Hugging Face hub.

# %%
sites = {name: work / name for name in digits.domain_names}
model = ggeur.fit(sites, encoder="builtin", out=work / "model")
print(model.solution_.why)

# %% [markdown]
# New images that took no part:

# %%
answers = ggeur.load_model(work / "model").predict(work / "new")
for i in range(3):
    label, p = answers.top(1)[i][0]
    print(f"{answers.names[i]} is {label} ({100 * p:.0f} %)")
right = np.array(answers.labels) == np.array(answers.truth)
percent = 100 * right.mean()
print(f"{percent:.0f} % of {len(right)} new pictures are right")

# %% [markdown]
# How good is it at each site?

# %%
origin = np.array([Path(n).name.split("-")[0] for n in answers.names])
names = digits.domain_names
accuracy = [100 * right[origin == n].mean() for n in names]
figure, ax = plt.subplots(figsize=(5, 1.8))
ax.bar_label(ax.barh(names, accuracy), fmt="%.0f %%")
