"""Fixed point, masks and keys: against plain addition, and against what a server could put in between."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from ggeur.flower.machines.certificates import make_node_key
from ggeur.privacy.secure_aggregation.fixed_point import Block, decode, encode, places
from ggeur.privacy.secure_aggregation.keys import Announced, Attempt, KnownSites, Secrets, announce, transcript
from ggeur.privacy.secure_aggregation.masks import mask, neighbours, unmask
from refusal import refused

CRYPTOGRAPHY = pytest.mark.needs("flower")


@given(st.integers(1, 60), st.sampled_from([1e-3, 1.0, 16.0, 3e9]), st.integers(0, 2**32 - 1))
def test_a_sum_in_fixed_point_is_the_sum_but_for_its_last_places(terms, bound, seed):
    rng, blocks = np.random.default_rng(seed), [Block("a", (3, 2), bound), Block("n", (), 2.0**24)]
    each = [{"a": rng.uniform(-bound, bound, (3, 2)), "n": np.array(float(rng.integers(2**24)))} for _ in range(terms)]
    vectors = [encode(one, blocks, terms) for one in each]
    found = decode(np.sum(vectors, axis=0, dtype=np.uint64), blocks, terms)
    assert float(found["n"]) == sum(float(one["n"]) for one in each), "counts are exact"
    error = np.abs(found["a"] - sum(one["a"] for one in each)).max()
    assert error <= terms * (bound * 2.0 ** -places(terms) + 1e-15 * bound)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (1.01, "site-array-beyond-bound: beyond 1"),
        (-2.0, "site-array-beyond-bound"),
        (np.nan, "site-array-not-finite"),
        (np.inf, "site-array-not-finite"),
    ],
)
def test_what_would_come_out_as_another_number_is_refused(value, sentence):
    with refused(sentence):
        encode({"a": np.array([0.5, value])}, [Block("a", (2,), 1.0)], 3)


def test_of_millions_of_sites_too_few_places_would_be_left():
    assert places(2**22) == 40
    with refused("secure-aggregation-precision-lost: 40"):
        places(2**22 + 1)


def attempt(n, name="first"):
    return Attempt("run-0", "statistics", name, tuple(range(n)))


def announced(of, own):
    """Public keys as sites would announce them; nobody has signed them."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    def public(secret):
        return X25519PrivateKey.from_private_bytes(bytes.fromhex(secret.private)).public_key().public_bytes_raw().hex()

    return {site: Announced(public(own[site]), ("all",), "") for site in of.sites}


@CRYPTOGRAPHY
@pytest.mark.parametrize("n", [3, 8, 101, 130])
def test_masks_cancel_in_the_total_of_all_and_of_nobody_else(n):
    of, rng = attempt(n), np.random.default_rng(n)
    own = {site: Secrets.new() for site in of.sites}
    keys, plain = announced(of, own), rng.integers(0, 2**64, (n, 70_000 if n == 3 else 50), np.uint64)
    sent = plain.copy()
    for site in of.sites:
        mask(sent[site], site, own[site], of, keys, b"")
    total = sent.sum(axis=0, dtype=np.uint64)
    unmask(total, [one.seed for one in own.values()], transcript(of, keys))
    np.testing.assert_array_equal(total, plain.sum(axis=0, dtype=np.uint64))
    without = sent[:-1].sum(axis=0, dtype=np.uint64)
    unmask(without, [own[site].seed for site in of.sites[:-1]], transcript(of, keys))
    assert (without == plain[:-1].sum(axis=0, dtype=np.uint64)).mean() < 0.01, "masks with the last one are left"


@pytest.mark.parametrize("n", [101, 400])
def test_of_many_sites_each_has_about_two_log_k_neighbours_and_all_hang_together(n):
    of = attempt(n)
    near = {site: set(neighbours(site, of, b"d" * 32)) for site in of.sites}
    assert {len(others) for others in near.values()} == {2 * int(np.ceil(np.log2(n)))}
    assert all(site in near[other] for site, others in near.items() for other in others)
    seen, edge = {0}, {0}
    while edge:
        edge = set().union(*(near[site] for site in edge)) - seen
        seen |= edge
    assert seen == set(of.sites)
    assert near != {site: set(neighbours(site, of, b"e" * 32)) for site in of.sites}, "drawn by the transcript"


@CRYPTOGRAPHY
def test_the_same_vector_looks_like_noise_under_masks_and_not_without():
    of = attempt(4)
    own = {site: Secrets.new() for site in of.sites}
    vector = encode({"a": np.linspace(-1, 1, 20_000)}, [Block("a", (20_000,), 1.0)], 4)
    assert chisquare(np.bincount(vector.view(np.uint8), minlength=256)).pvalue < 1e-4
    mask(vector, 2, own[2], of, announced(of, own), b"")
    assert chisquare(np.bincount(vector.view(np.uint8), minlength=256)).pvalue > 1e-4


@CRYPTOGRAPHY
def test_masks_of_another_attempt_of_other_keys_or_another_question_are_others():
    own = {site: Secrets.new() for site in range(3)}
    drawn = []
    others = [(attempt(3, "second"), own, b""), (attempt(3), own | {2: Secrets.new()}, b""), (attempt(3), own, b"?")]
    for of, keys, question in [(attempt(3), own, b""), *others]:
        vector = np.zeros(4, np.uint64)
        mask(vector, 0, own[0], of, announced(of, keys), question)
        drawn.append(tuple(vector.tolist()))
    assert len(set(drawn)) == 4


@pytest.fixture(scope="module")
def nodes(tmp_path_factory, needs_flower):
    folder = tmp_path_factory.mktemp("keys")
    for k in range(3):
        make_node_key(folder / f"{k}")
    (folder / "roster").write_text("# ours\n" + "".join(f"{k} {(folder / f'{k}.pub').read_text()}" for k in range(3)))
    return folder


def test_keys_that_are_not_signed_by_the_site_are_refused(nodes):
    of, known = attempt(3), KnownSites(nodes / "roster")
    own = {site: Secrets.new() for site in of.sites}
    keys = {site: announce(of, site, own[site], ("all",), nodes / f"{site}") for site in of.sites}
    known.check_keys(of, keys)
    other = announced(of, {site: Secrets.new() for site in of.sites})[1]
    lies = [
        keys | {1: keys[1]._replace(public=other.public)},  # a key of the server's
        keys | {1: announce(of, 1, own[1], ("all",), nodes / "2")},  # signed by another site
        keys | {1: keys[2]},  # another site's
        keys | {1: announce(attempt(3, "before"), 1, own[1], ("all",), nodes / "1")},  # of another attempt
        keys | {1: keys[1]._replace(domains=("art",))},  # of another domain
        keys | {1: keys[1]._replace(signature="zz")},
    ]
    for lie in lies:
        with refused("site-signature-invalid: site 1"):
            known.check_keys(of, lie)
    with refused("site-keys-mismatch"):
        known.check_keys(of, {0: keys[0], 1: keys[1]})


@CRYPTOGRAPHY
def test_a_key_that_would_share_zeros_with_everybody_is_refused():
    of, own = attempt(3), {site: Secrets.new() for site in range(3)}
    keys = announced(of, own) | {1: Announced("00" * 32, ("all",), "")}
    with refused("site-key-invalid"):
        mask(np.zeros(1, np.uint64), 0, own[0], of, keys, b"")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0 ecdsa-sha2-nistp384 AAAA", "roster-key-unreadable: site 0"),
        ("zero KEY", "roster-line-invalid"),
        ("0", "roster-key-unreadable"),
    ],
)
def test_a_roster_that_cannot_be_read_is_refused(tmp_path, nodes, text, sentence):
    (tmp_path / "roster").write_text(text)
    with refused(sentence):
        KnownSites(tmp_path / "roster")
    key = (nodes / "0.pub").read_text()
    for lines, why in ((f"0 {key}0 {key}", "roster-line-invalid"), (f"0 {key}1 {key}", "roster-key-repeated")):
        (tmp_path / "roster").write_text(lines)
        with refused(why):
            KnownSites(tmp_path / "roster")
    with refused("file-unreadable"):
        KnownSites(tmp_path / "none")


def test_without_secure_sums_nobody_needs_the_package_they_are_made_with():
    without = "import sys; sys.modules['cryptography'] = None; "
    code = without + "import ggeur.flower.server.one_shot_run, ggeur.flower.site.secure_aggregation"
    subprocess.run([sys.executable, "-c", code], check=True)
