# %% [markdown]
# # For a researcher: a federated method of one's own, compared with others
# A method is a few pure functions; what is left out is FedAvg's. This one takes the median of clients' heads, number
# by number, in place of their mean: a client far from all others cannot move it far.

# %%
import jax
import jax.numpy as jnp

import ggeur
from ggeur.methods.method import Method, cross_entropy_loss


def median(head):
    def aggregate(server, total, facts):
        middle = jax.tree.map(lambda each: jnp.median(each, axis=0), total["params"])
        return {**server, "params": middle}

    return Method(loss=cross_entropy_loss(head), adds={"params": "every"}, aggregate=aggregate)


# %% [markdown]
# It is named like any other, and compared over the same seeds, splits and first heads. In a module of yours it would
# be `module:median`.

# %%
experiment = ggeur.Experiment.of(
    {
        "data": {"dataset": "mini-digits"},
        "partition": {"kind": "label-and-domain", "beta": 0.3},
        "augment": {"kind": ["none", "ggeur"], "target": 100, "per_prototype": 50},
        "train": {"method": ["fedavg", "__main__:median"], "rounds": 5, "local_epochs": 1},
        "run": {"seeds": [0, 1]},
    }
)
result = ggeur.run(experiment, on_round=lambda event: None)  # hand `event` to your logger
rows = {(row.settings["train.method"].split(":")[-1], row.settings["augment.kind"]): row for row in result.rows()}
for (method, augment), row in rows.items():
    print(f"{method:8} {augment:6} {row.avg:.1f} ± {row.spread:.1f}")
for augment in ("none", "ggeur"):
    gain = ggeur.paired_difference(rows["median", augment], rows["fedavg", augment])
    print(f"{augment}, median minus FedAvg: {gain}")
