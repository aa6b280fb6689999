"""`python -m benchmarks [name ...]`: every comparison, measured in this run; ratios above 1 are ours ahead."""

import importlib
import sys

ALL = ("sampling", "training", "embedding")


def main(names: list[str]) -> None:
    print("| comparison | work | ours | other | ratio |\n|---|---|---|---|---|")
    for name in names or ALL:
        for line in importlib.import_module(f"benchmarks.{name}").main():
            print(
                f"| {line.what} | {line.work} | {line.ours:.3g} s | {line.other:.3g} s | {line.ratio:.2f} |", flush=True
            )


main(sys.argv[1:])
