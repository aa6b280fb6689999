"""Federation by file as it is typed: plan, summarize, fit, add and forget; and one sentence for what cannot be."""

import json
import shlex
import shutil

import numpy as np
import pytest
from PIL import Image

import ggeur as library
from ggeur.federation.plan import FederationPlan
from ggeur.federation.statistics_file import read_statistics_file
from ggeur.models.sites import site_of_rows
from ggeur.models.summarize import summarize
from ggeur.stats.storage import read_arrays
from refusal import refused

NAMES = ("ant", "bee", "cat")
META = {"encoder": "toy", "weights": "abc", "preprocessing": "none"}


def save(place, seed=0, n=90, p=8, names=NAMES, **more):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % len(names)
    x = rng.normal(size=(n, p)) + 4 * np.eye(p)[y]
    library.EmbeddingTable(**({"x": x, "y": y, "class_names": names, "meta": META} | more)).save(place)
    return place


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A plan, three tables, and what three sites make of them."""
    folder = tmp_path_factory.mktemp("made")
    FederationPlan(
        name="study", classes=NAMES, encoder={**META, "dimension": 8}, min_count=5, test_share=0.25, salt="study"
    ).save(folder / "plan.toml")
    for seed, name in enumerate(("leeds", "oslo", "york")):
        save(folder / f"{name}.npz", seed)
        summarize(folder / f"{name}.npz", folder / f"{name}.stats", plan=folder / "plan.toml")
    return folder


def same_head(a, b):
    ours, theirs = (read_arrays(folder / "head.npz") for folder in (a, b))
    return ours.keys() == theirs.keys() and all(ours[k].tobytes() == theirs[k].tobytes() for k in ours)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("method", ["lda", "auto"])
def test_files_give_the_classifier_of_the_tables_to_the_bit(ggeur, made, tmp_path, method):
    more = ("--method", method, "--out")
    code, out, _ = ggeur("fit", *(made / f"{n}.stats" for n in ("york", "leeds", "oslo")), *more, tmp_path / "files")
    assert code == 0 and "leeds (67 samples)" in out and "evaluate" in out
    tables = [made / f"{n}.npz" for n in ("leeds", "oslo", "york")]
    assert ggeur("fit", *tables, "--plan", made / "plan.toml", *more, tmp_path / "tables")[0] == 0
    assert same_head(tmp_path / "files", tmp_path / "tables")
    ours, theirs = (library.Model.load(tmp_path / where) for where in ("files", "tables"))
    assert ours.calibration["temperature"] == theirs.calibration["temperature"]
    assert ours.metrics == {} and theirs.metrics["test_samples"] == 63, "what is held out stays out of files"


@pytest.mark.usefixtures("undrawn")
def test_sites_join_by_file_are_replaced_by_a_higher_number_and_leave(ggeur, made, tmp_path):
    model, whole, new = tmp_path / "model", tmp_path / "whole", tmp_path / "york.stats"
    files = [made / f"{n}.stats" for n in ("leeds", "oslo", "york")]
    for out, given in ((model, files[:2]), (whole, files)):
        assert ggeur("fit", *given, "--method", "lda", "--out", out)[0] == 0
    first = shutil.copytree(model, tmp_path / "first")
    assert ggeur("add", model, files[2])[0] == 0 and same_head(model, whole)
    before = (model / "ledger.json").read_bytes()
    code, _, err = ggeur("add", model, files[2])
    assert code == 2 and err.says("statistics-sequence-old: york...1...--sequence 2")
    assert (model / "ledger.json").read_bytes() == before
    save(tmp_path / "york.npz", seed=9)
    summarize(tmp_path / "york.npz", new, plan=made / "plan.toml", sequence=2)
    assert ggeur("add", model, new)[0] == 0 and not same_head(model, whole)
    assert ggeur("fit", *files[:2], new, "--method", "lda", "--out", tmp_path / "again")[0] == 0
    assert same_head(model, tmp_path / "again")
    assert ggeur("add", model, files[2])[2].says("statistics-sequence-old: york")
    assert ggeur("forget", model, "york", "--yes")[0] == 0 and same_head(model, first)


@pytest.mark.usefixtures("undrawn")
def test_a_model_without_statistics_asks_for_the_files(ggeur, made, tmp_path):
    files = [made / f"{n}.stats" for n in ("leeds", "oslo")]
    assert ggeur("fit", *files, "--method", "lda", "--out", tmp_path / "m")[0] == 0
    code, _, _ = ggeur("export", tmp_path / "m", "--without-statistics", "--out", tmp_path / "bare")
    assert code == 0 and not (tmp_path / "bare" / "statistics").exists()
    assert ggeur("add", tmp_path / "m", made / "york.stats")[0] == 0


def test_what_summarize_says_and_inspect_shows(ggeur, made, tmp_path):
    code, out, _ = ggeur("summarize", made / "leeds.npz", "--plan", made / "plan.toml", "--out", tmp_path / "a.stats")
    assert code == 0 and "67 samples" in out and "23 test samples" in out and "KiB" in out
    assert (tmp_path / "a.stats").read_bytes() == (made / "leeds.stats").read_bytes(), "the same bytes again"
    code, out, _ = ggeur("inspect", tmp_path / "a.stats")
    assert code == 0 and "'leeds', file number 1" in out and "ant" in out and "salt: study" in out


def test_without_a_plan_the_defaults_stand_in_the_file(tmp_path):
    save(tmp_path / "a.npz", y=np.repeat([0, 1, 2], [45, 36, 9]))
    found = summarize(tmp_path / "a.npz", tmp_path / "a.stats")
    assert found.file.plan == FederationPlan() and found.file.plan.min_count == 10
    assert found.file.meta.classes == ("ant", "bee"), "a class that is not shared is not named either"
    assert found.file.samples + found.held_out + found.withheld == 90 and found.withheld


def test_small_groups_and_the_test_share_stay_at_home(made):
    found = read_statistics_file(made / "leeds.stats")
    (packed,) = found.packed.values()
    table = library.EmbeddingTable.load(made / "leeds.npz")
    site = site_of_rows("leeds", table.x, np.array(NAMES)[table.y]).holding_out(0.25, "study")
    assert packed.count.tolist() == np.bincount(table.y[~site.test]).tolist()
    np.testing.assert_allclose(packed.sum.sum(axis=0), table.x[~site.test].sum(axis=0, dtype=np.float64), rtol=1e-6)


@pytest.mark.parametrize("paths", [False, True])
@pytest.mark.usefixtures("undrawn")
def test_evaluate_scores_the_samples_that_the_files_are_not_of(ggeur, made, tmp_path, paths):
    """With names of samples, by which they are then held out, and without."""
    more = {"path": tuple(f"{i}.png" for i in range(90))} if paths else {}
    for seed, name in enumerate(("leeds", "york")):
        save(tmp_path / f"{name}.npz", seed, **more)
        summarize(tmp_path / f"{name}.npz", tmp_path / f"{name}.stats", plan=made / "plan.toml")
    files = [tmp_path / f"{name}.stats" for name in ("leeds", "york")]
    assert ggeur("fit", *files, "--method", "lda", "--out", tmp_path / "m")[0] == 0
    code, _, err = ggeur(
        "evaluate", tmp_path / "m", tmp_path / "leeds.npz", "--salt", "x", "--out", tmp_path / "l.scores"
    )
    assert code == 2 and err.code == "evaluation-holdout-mismatch"
    code, *_ = ggeur("evaluate", tmp_path / "m", tmp_path / "leeds.npz", "--out", tmp_path / "l.scores")
    assert code == 0
    tested = read_arrays(tmp_path / "l.scores")["samples"]
    (packed,) = read_statistics_file(files[0]).packed.values()
    assert (tested + packed.count == 30).all() and tested.sum()


def test_one_group_of_samples_without_labels(ggeur, made, tmp_path):
    code, *_ = ggeur("summarize", made / "leeds.npz", "--unlabelled", "--out", tmp_path / "a.stats")
    assert code == 0 and read_statistics_file(tmp_path / "a.stats").meta.classes == ("unlabelled",)
    code, _, err = ggeur("fit", tmp_path / "a.stats", made / "york.stats", "--out", tmp_path / "m")
    assert code == 2 and err.code in ("statistics-unlabelled", "plan-mismatch") and not (tmp_path / "m").exists()


def test_pictures_are_held_out_by_the_bytes_of_their_files(ggeur, tmp_path, monkeypatch):
    monkeypatch.setenv("GGEUR_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for name in ("dark", "light"):
        (tmp_path / "north" / name).mkdir(parents=True)
        for i in range(8):
            pixels = rng.integers(100, size=(16, 16, 3)) + (150 if name == "light" else 0)
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "north" / name / f"{i}.png")
    shutil.copytree(tmp_path / "north", tmp_path / "copies" / "north")
    for path in (tmp_path / "copies" / "north").rglob("7.png"):
        path.rename(path.with_name("0a.png"))
    assert ggeur("plan", tmp_path / "p.toml", tmp_path / "north", "--encoder", "builtin", "--min-count", "1")[0] == 0
    plan = FederationPlan.load(tmp_path / "p.toml")
    assert plan.classes == ("dark", "light") and plan.encoder.encoder == "builtin" and len(plan.salt) == 16
    counts = []
    for site in ("north", "copies/north"):
        found = summarize(tmp_path / site, tmp_path / "n.stats", plan=plan)
        (packed,) = found.file.packed.values()
        counts.append((packed.count.tolist(), np.round(packed.sum, 6).tolist()))
    assert counts[0] == counts[1], "whatever the files are called"


@pytest.mark.parametrize(
    ("name", "more", "says"),
    [
        ("encoder", {"meta": {**META, "weights": "xyz"}}, "encoder-mismatch: toy...weights"),
        ("dimension", {"p": 7}, "embeddings-dimension-mismatch: 7...8"),
        ("spelling", {"names": ("ant", "Bee", "cat")}, "plan-class-unknown: 'Bee'...Did you mean 'bee'?"),
        ("small", {"n": 12}, "privacy-min-count-excessive"),
    ],
)
def test_a_site_that_does_not_follow_the_plan_writes_nothing(ggeur, made, tmp_path, name, more, says):
    save(tmp_path / f"{name}.npz", **more)
    out = tmp_path / "a.stats"
    code, _, err = ggeur("summarize", tmp_path / f"{name}.npz", "--plan", made / "plan.toml", "--out", out)
    assert code == 2 and err.says(says) and not out.exists()


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        (np.full((4, 3), np.nan), [0, 1, 0, 1], "embeddings-not-finite"),
        ([[1.0], [1.0, 2.0]], [0, 1], "samples-ragged"),
        (np.eye(4), [0, 1, None, 1], "labels-missing"),
        (np.eye(4), [0, 1, float("nan"), 1], "labels-missing"),
        (np.zeros((120_001, 1), np.float16), np.arange(120_001), "classes-too-many: 120,001"),
        (np.zeros((40_000, 900), np.float16), np.arange(40_000), "statistics-too-large: GiB"),
    ],
)
def test_samples_that_cannot_be_summarized(tmp_path, x, y, says):
    plan = FederationPlan(min_count=0, test_share=0)
    with refused(says):
        summarize((x, y), tmp_path / "a.stats", plan=plan, name="a")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ("fit leeds.stats york.npz --out m --covariance pooled", "plan-option-conflict: covariance"),
        ("fit leeds.stats oslo.stats --out m --min-count 3", "plan-option-conflict: min_count is 3...5"),
        ("fit leeds.stats oslo.stats --contributions --out m", "contributions-without-samples: --contributions"),
        ("fit leeds.stats oslo.npz --contributions --out m", "contributions-without-samples"),
        ("fit leeds.stats leeds.stats --out m", "site-name-repeated: leeds...ggeur inspect"),
        ("fit leeds.stats leeds.npz --out m", "site-name-repeated: leeds...rename"),
        ("fit leeds.stats other.stats --out m", "plan-mismatch: salt"),
        ("fit leeds.stats cut.stats --out m", "statistics-file-damaged: cut.stats"),
        ("fit leeds.stats oslo.stats --plan nowhere.toml --out m", "file-missing: nowhere.toml"),
        ("fit leeds.stats oslo.stats --plan leeds.npz --out m", "plan-invalid: leeds.npz"),
        ("summarize leeds.npz --out m", "output-file-suffix: m.stats"),
        ("summarize leeds.stats --out m.stats", "site-data-type"),
        ("summarize leeds.npz --name a/b --out m.stats", "site-name-invalid: a/b"),
        ("summarize leeds.npz --name .a --out m.stats", "site-name-invalid: .a...--name"),
        ("summarize leeds.npz --name [ --plan plan.toml --out no/m.stats", "output-folder-missing: no/m.stats"),
        ("summarize leeds.npz --plan plan.toml --out taken.stats", "output-folder-missing: taken.stats.html"),
        ("fit leeds.stats oslo.stats --out leeds.npz/m", "folder-is-file: leeds.npz...--out"),
        ("plan plan.toml", "plan-exists: plan.toml"),
        ("plan new.toml --class ant --class ant", "plan-invalid: classes"),
        ("plan new.toml --test-share 1", "plan-invalid: test_share"),
        ("plan new.toml --covariance none", "plan-invalid: covariance"),
        ("plan new", "output-file-suffix: new.toml"),
        ("inspect cut.stats", "statistics-file-damaged: cut.stats"),
    ],
)
def test_what_cannot_be_is_a_sentence_and_nothing_is_written(ggeur, made, tmp_path, monkeypatch, argv, says):
    here = shutil.copytree(made, tmp_path / "here")
    other = FederationPlan.load(made / "plan.toml").model_copy(update={"salt": "other"})
    summarize(here / "york.npz", here / "other.stats", plan=other)
    (here / "cut.stats").write_bytes((here / "oslo.stats").read_bytes()[:-100])
    (here / "taken.stats.html").mkdir()
    monkeypatch.chdir(here)
    before = sorted(here.iterdir())
    code, _, err = ggeur(*argv.split())
    assert code == 2 and err.says(says) and sorted(here.iterdir()) == before


@pytest.mark.parametrize("name", ["", " ", "a ", " a", "a\nb", "a" * 201, "a\\b"])
def test_names_that_no_site_can_have(made, tmp_path, name):
    with refused("site-name-invalid") as error:
        summarize(made / "leeds.npz", tmp_path / "a.stats", name=name)
    assert "\n" not in str(error.value) and len(str(error.value)) < 250 and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("encoder", "says"),
    [
        ("onnx:tower.onnx", "model-encoder-file-missing: tower.onnx...--encoder onnx:PATH"),
        ("of_the_coordinator:tower", "model-custom-untrusted: of_the_coordinator:tower"),
    ],
)
def test_a_plan_imports_no_code_and_asks_where_the_encoder_is(ggeur, tmp_path, monkeypatch, encoder, says):
    """A plan is somebody else's: what it names is not run at a site before the site names it too."""
    (tmp_path / "of_the_coordinator.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "north" / "dark").mkdir(parents=True)
    Image.new("RGB", (16, 16)).save(tmp_path / "north" / "dark" / "0.png")
    FederationPlan(encoder={"encoder": encoder}, min_count=0).save(tmp_path / "p.toml")
    for command, out in (("summarize", "n.stats"), ("fit", "m")):
        code, _, err = ggeur(command, "north", "--plan", "p.toml", "--out", out)
        assert code == 2 and err.says(says) and not (tmp_path / out).exists()
    assert not (tmp_path / "ran").exists()


def test_the_command_that_a_plan_says_can_be_typed(ggeur, tmp_path):
    code, out, _ = ggeur("plan", tmp_path / "our plan.toml", "--class", "ant")
    assert code == 0 and "1 class," in out
    words = shlex.split(out.split("which writes: ")[1])
    assert words[:5] == ["ggeur", "summarize", "SITE", "--plan", "our plan.toml"]


@pytest.mark.usefixtures("undrawn")
def test_statistics_are_no_samples_to_score(ggeur, made, tmp_path):
    files = [made / f"{n}.stats" for n in ("leeds", "oslo")]
    assert ggeur("fit", *files, "--method", "lda", "--out", tmp_path / "m")[0] == 0
    for command, out in (("evaluate", "x.scores"), ("predict", "x.csv")):
        code, _, err = ggeur(command, tmp_path / "m", files[0], "--out", tmp_path / out)
        assert code == 2 and err.says("site-data-type: leeds.stats...samples"), command


def test_a_plan_that_another_program_changed(tmp_path):
    FederationPlan().save(tmp_path / "p.toml")
    text = (tmp_path / "p.toml").read_text()
    assert FederationPlan.load(tmp_path / "p.toml") == FederationPlan()
    for changed in (
        "min_count = -1",
        "min_count = 1.5",
        "covariance = 'x'",
        "salt = ''",
        "format = 0",
        "more = 1",
        "[",
    ):
        key = changed.split(" ")[0]
        (tmp_path / "p.toml").write_text("\n".join([*(t for t in text.split("\n") if not t.startswith(key)), changed]))
        with refused("plan-invalid"):
            FederationPlan.load(tmp_path / "p.toml")
    (tmp_path / "p.toml").write_text("format = 2\nmore = 1\n")
    with refused("format-newer: p.toml has the format 2"):
        FederationPlan.load(tmp_path / "p.toml")


@pytest.fixture
def keys(made, tmp_path):
    """Signed files of leeds and york, and a folder that trusts both keys."""
    (tmp_path / "keys").mkdir()
    for name in ("leeds", "york"):
        key = tmp_path / f"{name}.key"
        summarize(made / f"{name}.npz", tmp_path / f"{name}.stats", plan=made / "plan.toml", key=key)
        (tmp_path / f"{name}.pub").rename(tmp_path / "keys" / f"{name}.pub")
    return tmp_path / "keys"


@pytest.mark.needs("sign")
@pytest.mark.usefixtures("undrawn")
def test_signed_files_of_trusted_sites_are_admitted(ggeur, made, keys, tmp_path):
    first, model = read_statistics_file(tmp_path / "leeds.stats"), tmp_path / "m"
    assert len(first.signature) == 64 and first.meta.date and (tmp_path / "leeds.key").stat().st_mode & 0o77 == 0
    summarize(made / "leeds.npz", tmp_path / "again.stats", plan=made / "plan.toml", key=tmp_path / "leeds.key")
    assert read_statistics_file(tmp_path / "again.stats").signature == first.signature, "the key is made once"
    files = [tmp_path / f"{name}.stats" for name in ("leeds", "york")]
    assert ggeur("fit", *files, "--method", "lda", "--trust", keys, "--out", model)[0] == 0
    shutil.copytree(model, tmp_path / "plain")
    code, _, err = ggeur("add", model, made / "oslo.stats", "--trust", keys)
    assert code == 2 and err.says("site-untrusted: oslo")
    assert ggeur("forget", model, "york", "--yes")[0] == 0
    assert ggeur("add", model, files[1], "--trust", keys)[0] == 0 and same_head(model, tmp_path / "plain")


@pytest.mark.needs("sign")
def test_openssl_and_sha256sum_agree(made, keys, tmp_path):
    """The statement and the keys are what other programs make of them."""
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    file = read_statistics_file(tmp_path / "leeds.stats")
    load_pem_public_key((keys / "leeds.pub").read_bytes()).verify(file.signature, file.statement)
    assert file.statement.startswith(b"ggeur statistics 1\n") and b"  meta.json\n" in file.statement


def saying(file, **values):
    return file._replace(meta=file.meta.model_copy(update=values))


@pytest.mark.needs("sign")
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda f, other: f._replace(signature=b""), "statistics-unsigned: leeds"),
        (lambda f, other: f._replace(signature=other.signature), "statistics-signature-wrong: leeds"),
        (lambda f, other: f._replace(signature=bytes(64)), "statistics-signature-wrong: leeds"),
        (
            lambda f, other: saying(f, site="york"),
            "statistics-signature-wrong: york",
        ),
        (lambda f, other: saying(f, site="oslo"), "site-untrusted: oslo"),
        (lambda f, other: saying(f, sequence=2), "statistics-signature-wrong"),
        (
            lambda f, other: saying(f, date="2031-01-01"),
            "statistics-signature-wrong",
        ),
        (lambda f, other: f._replace(packed=other.packed), "statistics-signature-wrong"),
    ],
)
def test_files_that_nobody_trusted_signed_are_refused(ggeur, keys, tmp_path, change, says):
    files = [read_statistics_file(tmp_path / f"{name}.stats") for name in ("leeds", "york")]
    changed = change(*files)
    if changed.packed is files[1].packed:  # as york's numbers under the name of leeds
        packed = {"leeds": next(iter(changed.packed.values()))}
        changed = changed._replace(packed=packed)
    changed.save(tmp_path / "bad.stats")
    code, _, err = ggeur("fit", tmp_path / "bad.stats", "--trust", keys, "--out", tmp_path / "m")
    assert code == 2 and err.says(says) and not (tmp_path / "m").exists()


@pytest.mark.needs("sign")
def test_keys_that_are_none(ggeur, made, keys, tmp_path):
    (tmp_path / "bad.key").write_text("secret")
    given = ("summarize", made / "leeds.npz", "--out", tmp_path / "n.stats", "--key")
    for key in (tmp_path / "bad.key", keys / "leeds.pub"):
        assert ggeur(*given, key)[2].says("signing-key-invalid")
    (keys / "leeds.pub").write_text("public")
    given = ("fit", tmp_path / "leeds.stats", tmp_path / "york.stats", "--out", tmp_path / "m", "--trust")
    assert ggeur(*given, keys)[2].says("signing-key-invalid: leeds.pub")
    assert ggeur(*given, tmp_path / "nowhere")[2].says("folder-missing: nowhere")
    assert ggeur("fit", made / "leeds.npz", *given[2:], keys)[2].says("statistics-unsigned: leeds")
    assert not (tmp_path / "n.stats").exists() and not (tmp_path / "m").exists()


def test_fail_on_exact(ggeur, tmp_path):
    rng = np.random.default_rng(0)
    library.EmbeddingTable(x=rng.normal(size=(41, 8)), y=np.arange(41) // 40, class_names=("a", "b")).save(
        tmp_path / "t.npz"
    )
    given = ("summarize", tmp_path / "t.npz", "--out", tmp_path / "a.stats", "--fail-on", "exact")
    FederationPlan(min_count=0, test_share=0).save(tmp_path / "p.toml")
    code, out, _ = ggeur(*given, "--plan", tmp_path / "p.toml")
    assert code == 1 and "Do not export it: 1 of" in out and (tmp_path / "a.stats.html").exists()
    assert ggeur(*given)[0] == 0, "without a plan a group needs ten"
    assert ggeur(*given[:-1], "more")[2].code == "option-fail-on-unknown"


@pytest.mark.real
@pytest.mark.usefixtures("undrawn")
@pytest.mark.needs("onnx")
def test_three_sites_of_photographs_share_a_plan_and_files_alone(ggeur, shared, tmp_path, monkeypatch):
    """With `ggeur fit` on the folders themselves, which no federation has, to compare."""
    monkeypatch.setenv("GGEUR_CACHE", str(tmp_path / "cache"))
    encoder, names = f"onnx:{shared / 'weights' / 'tiny_vit_5m_224_in22k.onnx'}", ("amazon", "dslr", "webcam")
    sites = {}
    for name in names:
        sites[name] = tmp_path / "site" / name / name
        for folder in sorted((shared / "data" / "images" / "office_caltech10" / name).iterdir())[:3]:
            (sites[name] / folder.name).mkdir(parents=True)
            for path in sorted(folder.iterdir())[:14]:
                shutil.copy(path, sites[name] / folder.name)
    plan, model = tmp_path / "plan.toml", tmp_path / "model"
    code, *_ = ggeur("plan", plan, sites["amazon"], "--encoder", encoder, "--min-count", "5")
    assert code == 0 and FederationPlan.load(plan).encoder.dimension == 320
    for name in names:
        out = sites[name].parent / f"{name}.stats"
        assert ggeur("summarize", sites[name], "--plan", plan, "--encoder", encoder, "--out", out)[0] == 0
    files = [sites[name].parent / f"{name}.stats" for name in names]
    assert ggeur("fit", *files, "--out", model)[0] == 0
    given = ("--plan", plan, "--encoder", encoder, "--out", tmp_path / "folders")
    assert ggeur("fit", *sites.values(), *given)[0] == 0
    assert same_head(model, tmp_path / "folders")
    assert library.Model.load(tmp_path / "folders").metrics["avg"] > 90
    about = json.loads((model / "model.json").read_bytes())
    assert about["settings"]["plan"]["test_share"] == 0.2


@pytest.mark.needs("tables")
def test_samples_of_one_group_are_held_out_together(tmp_path):
    table = library.EmbeddingTable.load(save(tmp_path / "leeds.npz"))
    lines = [f"patient,label,{','.join(f'e{j}' for j in range(8))}"]
    for i, (x, y) in enumerate(zip(table.x.tolist(), table.y.tolist(), strict=True)):
        lines.append(f"p{i // 9},{NAMES[y]},{','.join(map(str, x))}")
    (tmp_path / "leeds.csv").write_text("\n".join(lines) + "\n")
    columns = library.TableColumns(x="e", y="label", group="patient")
    found = summarize(tmp_path / "leeds.csv", tmp_path / "a.stats", columns=columns)
    assert found.held_out and found.held_out % 9 == 0 and found.file.samples == 90 - found.held_out
