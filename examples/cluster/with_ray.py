"""Class statistics with Ray Data: python examples/cluster/with_ray.py 'leeds-*.parquet' ant,bee,cat"""

import sys

import numpy as np
import ray

import ggeur


def statistics(path, names):
    def combine(batch):
        x, code = np.stack(batch["x"]), {name: i for i, name in enumerate(names)}
        one = ggeur.ClassStatistics.from_embeddings(x, [code[y] for y in batch["y"]], len(names))
        return {"count": one.count[None], "sum": one.sum[None], "second": one.second[None]}

    parts = ray.data.read_parquet(path).map_batches(combine, batch_format="numpy", batch_size=65_536)
    made = (
        ggeur.ClassStatistics(r["count"], r["sum"], r["second"], np.zeros(r["sum"].shape[1])) for r in parts.iter_rows()
    )
    return ggeur.ClassStatistics.merge(made)


if __name__ == "__main__":
    print(statistics(sys.argv[1], sys.argv[2].split(",")).count)
