"""The page: whole, self-contained, safe with any name, and it says in words what the numbers say."""

import re
import shutil
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest

import ggeur
from ggeur.experiments.result import Result
from ggeur.paper.reproduction import AbsentRow, ChosenNumbers, Reproduction
from ggeur.paper.tuning import AS_SOUND
from ggeur.report.evidence import summary
from ggeur.report.folders import read_run
from ggeur.report.page import render, write_report
from refusal import refused

VOID = {"meta", "link", "br", "img", "hr", "input", "path", "use", "rect", "image", "line", "circle", "ellipse"}


class Page(HTMLParser):
    """Tags, attributes, ids and text of a page, and whether its tags are nested as they should be."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.links, self.text, self.open, self.handlers = [], [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self._see(tag, dict(attrs))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self._see(tag, dict(attrs))

    def _see(self, tag, attrs):
        self.tags.append(tag)
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.handlers += [name for name in attrs if name.startswith("on")]
        for name in ("src", "href", "xlink:href", "action", "srcset", "poster"):
            self.links += [attrs[name]] if attrs.get(name) else []

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def both(table5_run, own_run, tmp_path_factory):
    """A page of two runs, drawn once."""
    path = write_report([table5_run, own_run], tmp_path_factory.mktemp("both") / "report.html")
    return path.read_text(encoding="utf-8")


def only(text, key):
    """The part of the page that is about one run."""
    first, second = text.index('id="run0-summary"'), text.index('id="run1-summary"')
    return text[first:second] if key == 0 else text[second:]


def test_the_page_is_whole_and_asks_the_network_for_nothing(both):
    text, page = both, Page(both)
    assert page.open == [] and len(text.encode()) < 5 * 2**20
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert "url(http" not in text and "@import" not in text and "default-src 'none'" in text
    assert only(text, 0).count("<svg") == 7 and page.tags.count("table") == 6
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_ids_are_unique_also_with_two_runs(both):
    page = Page(both)
    assert len(page.ids) == len(set(page.ids))
    used = re.findall(r"url\(#([^)]+)\)", both)
    assert used and set(used) <= set(page.ids)


def test_names_from_data_are_text_never_markup(both):
    page = Page(both)
    assert page.tags.count("script") == 1 and "img" not in page.tags and not page.handlers
    assert "<b>" not in only(both, 1) and "<i>plain" not in both
    words = " ".join("".join(page.text).split())
    assert "<b>ant</b>" in words and "<script>alert(1)</script>" in words and "a$b$c" in words
    assert "<i>plain</i>" in words and "photo & film" in words


def test_what_the_page_shows_of_a_table(both):
    words = " ".join("".join(Page(both).text).split())
    for piece in (
        "Table 5: Office-Caltech", "Is it the geometry?", "Convergence", "Who holds what", "Spectra",
        "Do classes keep their shape", "Rounds to 95 %", "2.0 KiB", "not published", "98.75 -18.65",
        "runs only when named", "Trained for 3 rounds", "ggeur reproduce table5", "config.toml", "jax",
    ):  # fmt: skip
        assert piece in words, piece


def test_the_first_line_is_the_most_accurate_and_how_sure_that_is(both):
    first = re.search(r"Summary</h2>.*?<li>(.*?)</li>", only(both, 0), re.S).group(1)
    assert first.startswith("Highest accuracy: ") and "with 3 seeds its lead over" in first


@pytest.mark.usefixtures("undrawn")
def test_numbers_that_were_chosen_are_shown(paper_run, tmp_path):
    folder = paper_run("table5", ["FedAvg", "FedAvg + GGEUR"], "tuned")
    reading = Reproduction.load(folder)
    reading.chosen = [ChosenNumbers("FedAvg", "Office-Caltech", "rate 0.03, <b>", 61.234, 60.0, 5)]
    reading.save(folder)
    text = write_report([folder], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "rate 0.03, &lt;b&gt;" in text and "61.23" in text and "Numbers that were chosen" in text


@pytest.mark.usefixtures("undrawn")
def test_of_a_stand_in_nothing_is_called_unpublished_and_figures_name_their_data(paper_run, tmp_path):
    folder = paper_run("standin7", ["FedAvg", "FedAvg + GGEUR"])
    text = write_report([folder], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "not published" not in text and "Below each figure" not in text
    contents = re.search(r"<nav.*?</nav>", text, re.S).group(0)
    names = re.findall(r"<a [^>]*>(.*?)</a>", contents)
    assert {"Labels, standin7-office-caltech", "Labels, standin7-digits"} <= set(names)
    assert len(set(names)) == len(names)


@pytest.mark.usefixtures("undrawn")
def test_what_a_trial_says_is_said_of_that_trial(build_run):
    few = {"partition": {"kind": "domain"}, "augment": {"kind": ["none", "ggeur"]}, "run": {"seeds": [0, 1, 2]}}
    run = read_run(build_run(few, lambda i, point, seed: None if i == 1 and seed else 80.0))
    assert "<li>FedAvg + GGEUR, seed 1, and 1 more: It grew.</li>" in render([run])
    one = {"partition": {"kind": "domain"}, "run": {"seeds": [0]}}
    folder = build_run(one, name="one")
    result = Result.load(folder)
    result.trials[0].message = "Took gated."
    (folder / "result.json").write_text(result.to_json(), encoding="utf-8")
    assert "<li>Took gated.</li>" in render([read_run(folder)])


@pytest.mark.usefixtures("undrawn")
def test_how_to_run_again_what_was_left_to_sound(paper_run):
    folder = paper_run("table5", ["FedAvg", "MOON"], "tuned")
    assert "--only-changed" not in render([read_run(folder)])
    reading = Reproduction.load(folder)
    reading.absent.append(AbsentRow("FedProto", "Office-Caltech", AS_SOUND, "FedProto"))
    reading.save(folder)
    assert "--protocol tuned --rounds 3 --only-changed" in render([read_run(folder)])


def test_columns_can_be_sorted_by_value(both):
    head, body = re.search(r"<thead>(.*?)</thead>.*?<tbody>(.*?)</tbody>", both, re.S).groups()
    assert head.count("<button") == 7
    values = re.findall(r'<td data-value="([^"]*)"', body)
    assert len(values) % 6 == 0 and values[:6] == [""] * 6 and all(float(v) for v in values[6:])


@pytest.mark.parametrize("wobble", [(0.0, 0.1, -0.1), (0.0, 20.0, -20.0)])
def test_summary_says_what_ggeur_adds_and_whether_seeds_can_tell(build_run, wobble):
    kinds = {"none": 70.0, "resample": 75.0, "prototypes": 76.0, "ggeur": 79.0}
    folder = build_run(
        {"partition": {"kind": "domain"}, "augment": {"kind": list(kinds)}, "run": {"seeds": [0, 1, 2]}},
        lambda i, point, seed: kinds[point.augment.kind] + wobble[seed] * (1 + i) / 10,
    )
    run = read_run(folder)
    text = " ".join(summary(run.entries, run.table, None))
    # Student's t with two degrees of freedom: 4.303 / sqrt(3) of the deviation of what differs, 3 / 10 of the wobble.
    half = 4.3027 / 3**0.5 * 0.3 * wobble[1]
    doubt = "" if half < 9 else ", which these seeds cannot tell from zero"
    assert f"GGEUR changes FedAvg by +9.00 points [{9 - half:+.2f}, {9 + half:+.2f}]{doubt}." in text
    assert "takes 2.0 rounds and the same method without it 2.0; but a client's round holds 1.0 times" in text
    assert "With 3 rounds, the mean of the last 5 holds the first as well" in text


def test_summary_of_one_seed_claims_nothing(build_run):
    folder = build_run({"partition": {"kind": "domain"}, "augment": {"kind": ["none", "resample", "ggeur"]}})
    run = read_run(folder)
    assert "interval" not in " ".join(summary(run.entries, run.table, None))


def test_summary_over_several_settings(build_run):
    folder = build_run(
        {"partition": {"beta": [0.1, 0.5]}, "augment": {"kind": ["none", "ggeur"]}, "run": {"seeds": [0, 1, 2]}},
        lambda i, point, seed: 70.0 + 5 * (point.augment.kind == "ggeur") + 0.1 * seed * i,
    )
    run = read_run(folder)
    text = " ".join(summary(run.entries, run.table, None))
    assert "above the same method without it in every comparison" in text and "above zero in 2 of 2" in text


@pytest.mark.usefixtures("undrawn")
def test_slips_of_the_paper_are_told_though_their_rows_did_not_run(paper_run, tmp_path):
    folder = paper_run("table4", ["MOON (images)", "FedAvg"])
    words = " ".join("".join(Page(written(folder, tmp_path)).text).split())
    assert "58.36†" in words and "The mean of the four domains is 58.38." in words


@pytest.mark.usefixtures("undrawn")
def test_a_gain_that_the_paper_got_wrong_is_told(paper_run, tmp_path):
    words = " ".join("".join(Page(written(paper_run("table11", []), tmp_path)).text).split())
    assert "The paper prints a gain of +7.84 for K=300; its own rows give +7.48." in words


@pytest.mark.usefixtures("undrawn")
def test_the_command_to_run_it_again_names_its_rows(paper_run, tmp_path):
    words = " ".join("".join(Page(written(paper_run("table4", ["FedAvg", "FedAvg + GGEUR"]), tmp_path)).text).split())
    assert "--rounds 3 --rows FedAvg --rows 'FedAvg + GGEUR'" in words
    whole = " ".join("".join(Page(written(paper_run("table11", []), tmp_path)).text).split())
    assert "ggeur reproduce table11" in whole and "--rows" not in whole


def test_seconds_are_told_as_ratios(paper_run):
    run = read_run(paper_run("table10", []))
    assert summary(run.entries, run.table, run.reading) == [
        "A round takes, with ggeur against without ggeur: FedAvg 1.0 times, SCAFFOLD 1.0 times, MOON 1.0 times."
    ]


def written(folder, tmp_path):
    return write_report([folder], tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("undrawn")
def test_a_run_whose_table_is_gone_still_has_a_page(build_run, tmp_path):
    folder = build_run({"augment": {"kind": ["none", "ggeur"]}})
    (tmp_path / "built.npz").unlink()
    words = "".join(Page(written(folder, tmp_path)).text)
    assert "is no longer there" in words and "Convergence" in words and "Spectra" not in words


@pytest.mark.usefixtures("undrawn")
def test_nothing_finished(build_run, tmp_path):
    folder = build_run({"augment": {"kind": ["none", "ggeur"]}}, lambda i, point, seed: None)
    (tmp_path / "built.npz").unlink()
    words = "".join(Page(written(folder, tmp_path)).text)
    assert "nothing to compare" in words and "It grew." in words


@pytest.mark.usefixtures("undrawn")
def test_latex_beside_the_page(build_run, tmp_path):
    folder = build_run({"augment": {"kind": ["none", "ggeur"]}})
    (tmp_path / "built.npz").unlink()
    write_report([folder], tmp_path / "page.html", latex=True)
    assert (tmp_path / "page.tex").read_text(encoding="utf-8").count("\\begin{tabular}") == 1


def test_mistakes(tmp_path, table5_run):
    with refused("report-run-not-named"):
        write_report([], tmp_path / "r.html")
    with refused("result-missing"):
        write_report([tmp_path / "nowhere"], tmp_path / "r.html")
    shutil.copytree(table5_run, tmp_path / "copy")
    (tmp_path / "copy" / "reproduction.json").write_text('{"table": 1}')
    with refused("file-damaged"):
        write_report([tmp_path / "copy"], tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_a_result_of_another_experiment_is_refused(table5_run, own_run, tmp_path):
    copy = shutil.copytree(table5_run, tmp_path / "copy")
    shutil.copy(own_run / "config.toml", copy)
    with refused("result-experiment-mismatch"):
        write_report([copy], tmp_path / "r.html")


@pytest.mark.parametrize("kind", ["rows that are all alike", "very long names"])
def test_odd_tables_have_a_page_and_soon(tmp_path, kind):
    y, domain = np.tile(np.repeat(np.arange(3), 12), 2), np.repeat([0, 1], 36)
    alike = kind == "rows that are all alike"
    x = np.ones((72, 4)) if alike else np.random.default_rng(0).normal(size=(72, 4))
    names = () if alike else tuple("a" * 20_000 + c for c in "bcd")
    ggeur.EmbeddingTable(x=x.astype(np.float32), y=y, domain=domain, class_names=names).save(tmp_path / "t.npz")
    tree = {
        "data": {"table": str(tmp_path / "t.npz")},
        "partition": {"kind": "domain"},
        "augment": {"kind": ["none", "ggeur"], "target": 20, "per_prototype": 2},
        "train": {"rounds": 2, "local_epochs": 1},
        "run": {"seeds": [0, 1]},
    }
    ggeur.run(ggeur.Experiment.of(tree), out=tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        page = write_report([tmp_path / "run"], tmp_path / "page.html")
    assert "Spectra of the classes" in page.read_text() and len(page.read_text()) < 2_000_000
