# %% [markdown]
# # For the author of a library: statistics, geometry and augmentation
# NumPy in, NumPy out, for any framework; here two sites and scikit-learn.

# %%
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import ggeur

x, y = load_digits(return_X_y=True)
x = x / 16
train, test = np.arange(0, 1200), np.arange(1200, len(y))
sites = ggeur.partition.dirichlet(y[train], clients=2, beta=0.05, seed=1)  # who lack most of each other's classes

# %% [markdown]
# Each site sends sums; the server adds them up, and a site that leaves is subtracted again.

# %%
sums = [ggeur.ClassStatistics.from_embeddings(x[rows], y[rows], 10) for rows in sites]
total = sums[0] + sums[1]
assert np.allclose((total - sums[1]).covariance, sums[0].covariance)
shape = ggeur.Geometry.from_statistics(total)

# %% [markdown]
# Every site draws along the shape of each class that it holds.

# %%
for k, rows in enumerate(sites):
    x_new, y_new = ggeur.augment(x[rows], y[rows], shape, target=200, seed=k)
    alone = LogisticRegression(max_iter=500).fit(x[rows], y[rows]).score(x[test], y[test])
    guided = LogisticRegression(max_iter=500).fit(x_new, y_new).score(x[test], y[test])
    print(f"site {k}: {len(rows)} rows, {100 * alone:.1f} % alone, {100 * guided:.1f} % along the global shape")
