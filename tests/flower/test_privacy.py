"""[privacy] on real machines: small groups stay, counts are not sent, and noisy statistics leave a site once."""

import json
import sys
from textwrap import dedent

import numpy as np
import pytest

from ggeur.experiments.runner import run
from ggeur.experiments.settings_privacy import Privacy
from ggeur.flower.site.site_policy import SitePolicy, note_spending
from ggeur.flower.wire.records import from_records
from ggeur.models.model import Model
from ggeur.privacy.gaussian import gaussian_scale
from ggeur.stats.errors import GgeurError

MIXED = {"kind": "dirichlet", "clients": 4, "beta": 0.5}
FEW = {"auto": {"candidates": [["lda", "ggeur-limit"]], "folds": 3}}
NOISE = {"epsilon": 1e6, "radius": 1.0}


def tree(head, privacy, **more):
    return {"train": {"method": head}, "partition": MIXED, "privacy": privacy} | more


def replies(site, kind):
    """What `site` answers to a `kind` of question, as it is answered."""
    seen = []

    def look(asked, number, reply):
        if asked == kind and reply is not None:
            seen.append(from_records(reply.content))
        return reply

    site.change = look
    return seen


@pytest.mark.parametrize("method", ["lda", "ggeur-limit", "mixture"])
def test_groups_that_are_too_small_take_no_part_in_either_engine(deploy, both, method):
    deployment = deploy(tree(method, {"min_count": 4}))
    greeted = replies(deployment.sites[0], "query.hello")
    both(deployment)
    count = np.array(greeted[0][0]["count"])
    assert (count[count > 0] >= 4).all()


@pytest.mark.parametrize(("privacy", "said"), [({}, 1), ({"min_count": 2}, 0), (NOISE, 0)])
def test_a_federation_warns_that_small_groups_are_not_protected(deploy, privacy, said):
    deployment = deploy(tree("ridge", privacy))
    deployment.run()
    assert sum("Small groups are not protected" in note["why"] for note in deployment.events("note")) == said


def test_a_threshold_changes_what_is_solved(deploy):
    heads = []
    for name, privacy in (("all", {}), ("some", {"min_count": 6})):
        deployment = deploy(tree("lda", privacy), name=name)
        deployment.run()
        heads.append(deployment.head()["W"])
    assert np.abs(heads[0] - heads[1]).max() > 1e-3


def test_auto_and_training_under_a_threshold_are_the_simulations(deploy, both):
    both(deploy(tree("auto", {"min_count": 4}, method=FEW)))
    train = {"rounds": 2, "batch_size": 8, "method": "fedavg"}
    both(deploy(tree("fedavg", {"min_count": 4}, train=train, augment={"target": 20}), name="trained"))


def test_under_noise_a_greeting_tells_neither_counts_nor_a_hash_of_the_rows(deploy):
    deployment = deploy(tree("ridge", NOISE))
    greeted = replies(deployment.sites[0], "query.hello")
    deployment.run()
    facts = greeted[0][0]
    assert set(np.ravel(facts["count"])) <= {0, 1}
    from ggeur.data.table import EmbeddingTable

    known = EmbeddingTable.load(deployment.sites[0].config["table"]).split(0)
    assert facts["fingerprint"] != known.fingerprint() and len(facts["fingerprint"]) == 64


@pytest.mark.parametrize("method", ["ncm", "ridge", "ggeur-limit", "mixture"])
def test_with_hardly_any_noise_the_head_is_the_simulations(deploy, method):
    """Which is not drawn from the seed, so that heads are near and not equal."""
    deployment = deploy(tree(method, NOISE | {"epsilon": 1e12}))
    deployment.run()
    run(deployment.simulated, out=deployment.folder / "simulated")
    for name, ours in deployment.head().items():
        theirs = deployment.head(out=deployment.folder / "simulated")[name]
        assert 0 < np.abs(ours - theirs).max() <= 0.02 * np.abs(theirs).max(), name
    model = Model.load(deployment.out)
    assert model.privacy["noise"] == "operating system" and model.ball is not None
    assert Model.load(deployment.folder / "simulated").privacy["noise"] == "simulated"


def test_a_site_sends_the_same_bytes_again_and_no_second_message(deploy):
    deployment = deploy(tree("ridge", {"epsilon": 100.0, "radius": 1.0}))
    site, sent, asked = deployment.sites[2], [], []
    app = deployment.grid.app

    def twice(message, context):
        reply = app(message, context)
        if message.metadata.message_type == "query.statistics" and context.node_config["partition-id"] == 2:
            sent.append(from_records(reply.content)[1])
            sent.append(from_records(app(message, context).content)[1])
            other = from_records(message.content)
            other[0]["kind"] = "per-class"
            asked.append(other)
        return reply

    deployment.grid.app = twice
    deployment.run()
    assert sent[0].keys() == sent[1].keys() and all(np.array_equal(sent[0][k], sent[1][k]) for k in sent[0])
    from ggeur.flower.site.data import SiteData
    from ggeur.flower.site.opening import statistics
    from ggeur.flower.site.request import Request

    with pytest.raises(GgeurError, match="once"):
        statistics(Request(SiteData(site.config), *asked[0]))
    ledger = [json.loads(line) for line in (deployment.folder / "store-2" / "privacy.jsonl").read_text().splitlines()]
    assert len(ledger) == 1 and (ledger[0]["epsilon"], ledger[0]["unit"]) == (100.0, "record")


def test_auto_under_noise_takes_what_the_rule_says(deploy):
    deployment = deploy(tree("auto", {"epsilon": 100.0, "radius": 1.0, "samples": 50_000}))
    (trial,) = deployment.run().trials
    (simulated,) = run(deployment.simulated).trials
    assert trial.taken == simulated.taken == "ridge" and deployment.events("chosen")[0]["why"] in trial.message


def test_what_noise_does_not_allow_is_refused_before_anybody_is_asked(deploy):
    trained = deploy(tree("fedavg", NOISE, augment={"target": 20}))
    with pytest.raises(GgeurError, match="exact counts"):
        trained.run()
    with pytest.raises(GgeurError, match="one at a time"):
        deploy(tree(["ridge", "lda"], NOISE), name="two").run()
    assert not trained.sites[0].asked


def test_a_finished_run_is_not_reopened_at_the_price_of_every_sites_epsilon(deploy):
    deployment = deploy(tree("ridge", NOISE))
    deployment.experiment = deployment.without(1)
    deployment.run()
    asked = [len(site.asked) for site in deployment.sites]
    deployment.sites[1].online = True
    with pytest.raises(GgeurError, match="spend .privacy. epsilon again"):
        deployment.run(again=True)
    assert [len(site.asked) for site in deployment.sites] == asked and deployment.result().trials[0].missing == {1: [0]}


def test_a_projection_reaches_the_sites_and_the_model(deploy, both):
    deployment = deploy(tree("lda", {"radius": 1.0, "projection": 4}))
    both(deployment)
    model = Model.load(deployment.out)
    assert model.dimension == 4 < model.takes


def test_what_no_site_can_do_ends_in_a_sentence(deploy):
    with pytest.raises(GgeurError, match="none in groups of .privacy. min_count samples"):
        deploy(tree("lda", {"min_count": 1000})).run()
    wide = deploy(tree("lda", {"radius": 1.0, "projection": 99}, federate={"wait": 0.5}), name="wide")
    with pytest.raises(GgeurError):
        wide.run()
    assert all("99 is more than the" in event["why"] for event in wide.events("silent"))
    assert len(wide.events("silent")) == 4


@pytest.mark.parametrize(
    ("policy", "privacy", "why"),
    [
        ({"min-count": 5}, {}, "--min-count 5, and [privacy] min_count here is 0"),
        ({"min-count": 5}, {"min_count": 4}, "min_count here is 4"),
        ({"min-count": 5}, NOISE, "acts after the noise"),
        ({"epsilon": "2.0"}, {"min_count": 2}, "answers only under [privacy] epsilon"),
        ({"epsilon": "2.0"}, {"epsilon": 2.1, "radius": 1.0}, "this release would cost"),
        ({"epsilon": "2.0"}, {"epsilon": 2.0, "delta": 1e-4, "radius": 1.0}, "this release would cost"),
    ],
)
def test_a_site_holds_out_for_what_it_was_started_with(deploy, policy, privacy, why):
    deployment = deploy(tree("ridge", privacy, federate={"wait": 0.1}))
    site = deployment.sites[1]
    site.config = site.config | policy
    assert deployment.run().trials[0].missing == {1: [0]}
    assert any(why in event["why"] for event in deployment.events("silent") + deployment.events("refused"))


def test_policies_that_are_met_change_nothing_and_a_budget_is_for_all_runs(deploy):
    deployment = deploy(tree("ridge", {"epsilon": 100.0, "radius": 1.0}, federate={"wait": 0.1}))
    deployment.sites[1].config = deployment.sites[1].config | {"min-count": 5, "epsilon": "100.0"}
    assert not deployment.run().trials[0].missing
    deployment.out = deployment.folder / "second"
    assert deployment.run().trials[0].missing == {1: [0]}
    assert "it has spent" in deployment.events("refused")[0]["why"]


@pytest.mark.parametrize(
    "config", [{"min-count": "many"}, {"epsilon": 0}, {"epsilon": "inf"}, {"epsilon": 1, "delta": 2}]
)
def test_policies_that_make_no_sense_are_refused(config):
    with pytest.raises(GgeurError, match="min-count"):
        SitePolicy.of(config)


def test_a_budget_lasts_for_as_many_messages_as_another_library_says(tmp_path):
    """Messages of epsilon 0.5 each: dp-accounting composes five, and six."""
    from dp_accounting import GaussianDpEvent
    from dp_accounting.pld import PLDAccountant

    asked, delta = Privacy(epsilon=0.5, radius=1.0), 1e-5
    noise = gaussian_scale(0.5, delta)

    def composed(messages):
        return PLDAccountant().compose(GaussianDpEvent(noise), messages).get_epsilon(delta)

    budget = SitePolicy(epsilon=(composed(5) + composed(6)) / 2, delta=delta)
    for number in range(5):
        budget.afford(tmp_path, asked)
        note_spending(tmp_path, str(number), asked)
    with pytest.raises(GgeurError, match="it has spent"):
        budget.afford(tmp_path, asked)
    (tmp_path / "privacy.jsonl").write_text("{")
    with pytest.raises(GgeurError, match="cannot be read"):
        budget.afford(tmp_path, asked)


OWN = """
    from dataclasses import replace

    import numpy as np

    from ggeur import Noise, Release

    def grid(*, step: float = 0.01) -> Release:
        def mechanism(s, clients, random):
            return replace(s, sum=step * np.round(s.sum / step), second=step * np.round(s.second / step))

        return Release("a grid", mechanism, lambda covariance, clients: Noise(0.0, step / 12**0.5, step / 12**0.5))

    def uniform(*, width: float) -> Release:
        def mechanism(s, clients, random):
            return replace(s, sum=s.sum + width * (random.random(s.sum.shape) - 0.5))

        return Release("uniform noise", mechanism, lambda covariance, clients: Noise(0.0, width / 12**0.5, 0.0))
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The builder: own(name, **parameters) -> [privacy] with that mechanism, of a module in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "own_release.py").write_text(dedent(OWN))
    yield lambda name, **parameters: {"mechanism": f"own_release:{name}", "radius": 3.0, "parameters": parameters}
    sys.modules.pop("own_release", None)


def test_a_site_imports_a_custom_mechanism_only_if_it_may(deploy, own):
    deployment = deploy(tree("ridge", own("grid"), federate={"wait": 0.1}))
    with pytest.raises(GgeurError):
        deployment.run()
    journal = (deployment.out / "federation.jsonl").read_text(encoding="utf-8")
    assert "does not import the privacy mechanism 'own_release:grid'; start its node with --custom-methods" in journal
    assert not any("query.statistics" in site.asked for site in deployment.sites)


@pytest.mark.parametrize("method", ["ncm", "ridge", "mixture"])
def test_sites_apply_a_custom_mechanism_as_a_simulation_does(deploy, both, own, method):
    deployment = deploy(tree(method, own("grid", step=0.05)))
    for site in deployment.sites:
        site.config |= {"custom-methods": True}
    sent = replies(deployment.sites[0], "query.statistics")
    both(deployment)
    sums = [array for facts, arrays in sent for name, array in arrays.items() if name.endswith("sum")]
    assert sums and all(np.abs(array / 0.05 - np.round(array / 0.05)).max() < 1e-9 for array in sums)
    assert Model.load(deployment.out).privacy["mechanism"] == "own_release:grid"


def test_a_site_draws_a_custom_mechanisms_noise_once_and_notes_it(deploy, own):
    deployment = deploy(tree("ncm", own("uniform", width=1e-3)))
    for site in deployment.sites:
        site.config |= {"custom-methods": True}
    sent = replies(deployment.sites[0], "query.statistics")
    deployment.run()
    ((_, arrays),) = sent
    (kept,) = (deployment.folder / "store-0").rglob("sent/*.npz")
    with np.load(kept) as file:
        np.testing.assert_array_equal(file["sum"], arrays["sum"])
    (spent,) = (json.loads(line) for line in (deployment.folder / "store-0" / "privacy.jsonl").read_text().splitlines())
    assert (spent["mechanism"], spent["mu"]) == ("own_release:uniform", None)
    assert Model.load(deployment.out).privacy["noise"] == "operating system"


def test_custom_mechanisms_add_up_under_secure_aggregation(secure, both, own):
    deployment = secure(tree("ridge", own("grid", step=0.05) | {"secure_aggregation": True}))
    for site in deployment.sites:
        site.config |= {"custom-methods": True}
    both(deployment)
