"""Class statistics with Spark: spark-submit examples/cluster/with_spark.py 'leeds-*.parquet' ant,bee,cat"""

import sys

import numpy as np
from pyspark.sql import SparkSession

import ggeur


def statistics(path, names):
    code = {name: i for i, name in enumerate(names)}

    def combine(rows):
        if rows := list(rows):
            x = np.array([row.x for row in rows], np.float32)
            yield ggeur.ClassStatistics.from_embeddings(x, [code[row.y] for row in rows], len(names))

    table = SparkSession.builder.getOrCreate().read.parquet(path).select("x", "y")
    return table.rdd.mapPartitions(combine).treeReduce(lambda one, other: one + other)


if __name__ == "__main__":
    print(statistics(sys.argv[1], sys.argv[2].split(",")).count)
