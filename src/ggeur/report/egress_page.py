"""The egress report beside a file of statistics: a page and JSON for the person who approves its export."""

import json
from pathlib import Path

from ggeur.federation.egress import GIVEN, Egress, egress
from ggeur.federation.statistics_file import read_statistics_file
from ggeur.report.template import render_page
from ggeur.stats.long_jobs import human_bytes
from ggeur.stats.storage import write_bytes

_SHOWN = 2000  # groups


def write_egress_report(path: Path) -> Egress:
    """Write PATH.html and PATH.json about the file of statistics at `path`, and return what they say."""
    found = egress(read_statistics_file(path), path.read_bytes())
    title = f"May {path.name} leave?"
    order = sorted(found.groups, key=lambda group: (GIVEN.index(group.given), group.samples))
    facts = [
        ("Federation", found.file.plan.name or "none: no plan was given"),
        ("Encoder", found.file.meta.encoder.encoder or "not known"),
        ("Size", human_bytes(found.size)),
        ("SHA-256", found.sha256),
    ]
    more = max(len(order) - _SHOWN, 0)
    page = render_page(
        "egress.html.j2", title, "read the JSON beside it", e=found, groups=order[:_SHOWN], more=more, facts=facts
    )
    write_bytes(path.with_name(f"{path.name}.html"), page.encode())
    write_bytes(path.with_name(f"{path.name}.json"), json.dumps(found.to_json(), indent=1, ensure_ascii=False).encode())
    return found
