"""Class statistics with Dask: python examples/cluster/with_dask.py 'leeds-*.parquet' ant,bee,cat"""

import sys
from glob import glob

import dask

import ggeur


@dask.delayed
def of_file(path, names):
    table, code = ggeur.EmbeddingTable.load(path), {name: i for i, name in enumerate(names)}
    y = [code[table.class_names[c]] for c in table.y]
    return ggeur.ClassStatistics.from_embeddings(table.x, y, len(names))


def statistics(pattern, names):
    parts = [of_file(path, names) for path in sorted(glob(pattern))]
    return dask.delayed(ggeur.ClassStatistics.merge)(parts).compute()


if __name__ == "__main__":
    print(statistics(sys.argv[1], sys.argv[2].split(",")).count)
