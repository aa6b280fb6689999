"""Tables about what GGEUR adds: to each method, over every control, and in all tables at a glance."""

from collections.abc import Mapping, Sequence

from paper_cells import markdown, minus, told

from ggeur.report.tables import Number

GGEUR = " + GGEUR"
PLAIN, FULL = "FedAvg", f"FedAvg{GGEUR}"
AUTO, SAME_MEANS, SAME_ROWS = "auto, one-shot", "FedAvg, prototypes", "FedAvg, resampled"
PROTOCOLS = ("paper", "sound", "tuned", "released")
Averages = Mapping[str, Mapping[str, Number]]  # by protocol and row


def glance(tables: Mapping[str, Averages]) -> str:
    """FedAvg's gain in every table under each protocol; then what is left over the same without noise, and `auto`."""
    rows = []
    for name, each in tables.items():
        most = next((each[p] for p in ("sound", "paper") if FULL in each.get(p, {})), {})
        still = most.get(SAME_MEANS, most.get(SAME_ROWS))
        gained = [told(each.get(p, {}).get(FULL), each.get(p, {}).get(PLAIN)) for p in PROTOCOLS]
        others = [told(most.get(FULL), still), told(most.get(AUTO), most.get(FULL))]
        rows.append([f"`{name}`", _printed(each, PLAIN), *gained, *others])
    titles = ["GGEUR adds to FedAvg", "published", *(f"`{p}`" for p in PROTOCOLS), "over no noise", "`auto` over it"]
    return markdown(titles, rows)


def gains(each: Averages) -> str:
    """What GGEUR adds to each method, paired by seed, under each protocol, beside the paper's gain."""
    plain = [n.removesuffix(GGEUR) for numbers in each.values() for n in numbers if n.endswith(GGEUR)]
    rows = []
    for name in dict.fromkeys(plain):
        trials = (minus(numbers.get(name + GGEUR), numbers.get(name)) for numbers in each.values())
        rows.append([name, *trials, _printed(each, name)])
    return markdown(["GGEUR adds to", *(f"`{protocol}`" for protocol in each), "published"], rows)


def _printed(each: Averages, name: str) -> str:
    a, b = (each.get("paper", {}).get(n, Number(())).published for n in (name + GGEUR, name))
    return "-" if a is None or b is None else f"{a - b:+.2f}"


def controls(each: Averages, ours: Sequence[str]) -> str:
    """FedAvg with GGEUR against every row of `ours`, under each protocol."""
    rows = [
        [name, *(minus(numbers.get(FULL), numbers.get(name)) for numbers in each.values())]
        for name in [PLAIN, *ours]
        if any(FULL in numbers and name in numbers for numbers in each.values())
    ]
    return markdown(["FedAvg + GGEUR minus", *(f"`{protocol}`" for protocol in each)], rows)
