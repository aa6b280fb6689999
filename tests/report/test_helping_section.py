"""Who helps whom on a page: one card a figure, one sentence a finding, names as they are, files that are read back."""

import json
import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from ggeur.core.errors import GgeurError
from ggeur.experiment.helps import FILE, from_json, helping, load, save, to_json
from ggeur.federation.helping_words import findings
from ggeur.methods import resolve, resolve_solved
from ggeur.report.helping_section import helping_figures, helping_section
from ggeur.report.page import write_report
from ggeur.settings.schema import settings

BY_DOMAIN = settings({"data": {"table": "-"}, "partition": {"kind": "domain"}}).partition


@pytest.fixture(scope="module")
def found(build_table):
    return helping(build_table(), BY_DOMAIN, resolve_solved("lda", {}), 0, name="lda")


def of_sites(h, n, name="university hospital number {}"):
    """The same of `n` sites with long names, all alike but for their names."""
    return h._replace(
        sites=tuple(name.format(i) for i in range(n)),
        **{k: getattr(h, k)[:1] * n for k in ("rows", "accuracy", "from_others", "to_all", "to_others", "places")},
        matrix=(h.matrix[0][:1] * n,) * n,
        distance=((0.0,) * n,) * n,
        shapley=h.shapley[:1] * n if n <= 8 else None,
    )


def parsed(h, id="x"):
    """The section as a tree, which only tags that are nested as they should be make."""
    return ElementTree.fromstring(f"<div>{helping_section(h, id)}</div>")


def test_the_section_is_whole_and_says_every_finding_once(found):
    tree = parsed(found, "run0-helps")
    text, ids = " ".join("".join(tree.itertext()).split()), [e.get("id") for e in tree.iter() if e.get("id")]
    said = findings(found)
    assert len(ids) == len(set(ids)) and {f"run0-helps{key}" for key in ("", "-shares", "-matrix", "-map")} <= set(ids)
    for sentence in (said.worst, said.alone, said.shapley, said.matrix, said.map, *said.left_out):
        assert text.count(sentence) == 1
    assert len(said.left_out) == 3 and f"{sum(found.rows)} rows were left out" in text and "(lda)" in text


def test_names_are_text(found):
    bad = ("<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "a$b$c")
    tree = parsed(found._replace(sites=bad))
    assert not {"script", "img"} & {e.tag for e in tree.iter()} and all(
        name in "".join(tree.itertext()) for name in bad
    )


@pytest.mark.parametrize("n", [1, 2, 4, 8, 12, 60])
def test_labels_of_few_and_many_sites_with_long_names_do_not_overlap(found, n):
    drawn = helping_figures(of_sites(found, n))
    assert len(drawn) == (0 if n == 1 else 3)
    for f in drawn:
        f.figure.draw_without_rendering()
        for ax in f.figure.axes:
            for labels in (ax.get_xticklabels(), ax.get_yticklabels()):
                if len(labels) > 1 and not labels[0].get_rotation():
                    boxes = [label.get_window_extent() for label in labels if label.get_text()]
                    assert not any(a.overlaps(b) for a, b in pairwise(boxes))
        for legend in f.figure.legends:
            boxes = [text.get_window_extent() for text in legend.get_texts()]
            assert not any(a.overlaps(b) for a, b in pairwise(boxes))


def test_a_run_folder_with_the_file_has_the_section(own_run, found, tmp_path):
    without = write_report([own_run], tmp_path / "without.html").read_text(encoding="utf-8")
    save(found, own_run)
    try:
        text = write_report([own_run], tmp_path / "report.html").read_text(encoding="utf-8")
    finally:
        (own_run / FILE).unlink()
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids)) and "run0-helps" in ids and 'href="#run0-helps"' in text
    assert "Who helps whom" not in without and "-helps" not in without


# ---------------------------------------------------------------- the file


def test_the_file_is_read_back_as_it_was(found, tmp_path):
    assert load(tmp_path) is None
    save(found, tmp_path)
    assert load(tmp_path) == found == from_json(to_json(found))
    empty = found._replace(accuracy=(None, *found.accuracy[1:]), shapley=None)
    assert from_json(to_json(empty)) == empty


@pytest.mark.parametrize(
    "change",
    [{"schema": 2}, {"guess": "much"}, {"guess": float("nan")}, {"sites": ["a"]}, {"more": 1}, {"matrix": [[]]}],
)
def test_a_file_that_is_none_is_refused_by_name(found, tmp_path, change):
    tree = json.loads(to_json(found)) | change
    del tree["sha256"]
    (tmp_path / FILE).write_text(json.dumps(tree), encoding="utf-8")
    with pytest.raises(GgeurError, match=r"helps\.json does not say who helps whom"):
        load(tmp_path)


def test_a_damaged_file_is_noticed(found, tmp_path):
    (tmp_path / FILE).write_bytes(to_json(found).replace(b"photo", b"phony"))
    with pytest.raises(GgeurError, match="checksum"):
        load(tmp_path)


def test_of_a_method_that_chooses_the_head_that_it_takes_is_looked_at(build_table):
    chosen = resolve("auto", None, {"candidates": ["lda", "gated"], "folds": 2})
    h = helping(build_table(), BY_DOMAIN, chosen, 0)
    taken = {c.label: c.solved for c in chosen.candidates}[h.head]
    assert h == helping(build_table(), BY_DOMAIN, taken, 0, name=h.head)
    assert np.isfinite(h.distance).all()
