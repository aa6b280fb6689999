"""For a researcher: a grid over methods and skews on the built-in data, and a paired comparison."""

import ggeur

experiment = ggeur.Experiment.of(
    {
        "data": {"dataset": "mini-digits"},
        "partition": {"kind": "label-and-domain", "beta": 0.3},
        "augment": {"kind": ["none", "ggeur"], "target": 100, "per_prototype": 50},
        "train": {"method": ["fedavg", "fedprox"], "rounds": 5, "local_epochs": 1},
        "run": {"seeds": [0, 1]},
    }
)
result = ggeur.run(experiment, on_round=lambda event: None)  # hand `event` to your logger

rows = {(row.settings["train.method"], row.settings["augment.kind"]): row for row in result.rows()}
for (method, augment), row in rows.items():
    print(f"{method:8} {augment:6} {row.avg:.1f} ± {row.spread:.1f}")
print("FedAvg, GGEUR minus none:", ggeur.paired_difference(rows["fedavg", "ggeur"], rows["fedavg", "none"]))
