"""The text transformer against transformers' CLIPTextModelWithProjection on the same weights, and its gradient too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers

from ggeur.encoders.text_tower import Texts, embed_tokens, lay_out, run_tower
from ggeur.encoders.text_weights import load_tower
from refusal import refused

pytestmark = pytest.mark.needs("hf")
TINY = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4, vocab_size=99)
SHAPES = {
    "tiny": dict(**TINY, max_position_embeddings=20, projection_dim=24, bos_token_id=97, eos_token_id=98),
    "exact gelu": dict(
        **TINY, max_position_embeddings=20, projection_dim=24, bos_token_id=97, eos_token_id=98, hidden_act="gelu"
    ),
    "ViT-B/16": dict(projection_dim=512, bos_token_id=49406, eos_token_id=49407),
}


class Case:
    """A model on disk as transformers saves it, and texts that begin alike: of several lengths, two of them equal."""

    def __init__(self, folder, shape):
        torch.manual_seed(0)
        config = transformers.CLIPTextConfig(**SHAPES[shape])
        self.model = transformers.CLIPTextModelWithProjection(config).eval()
        self.model.save_pretrained(folder)
        self.shape, self.tower = load_tower(folder)
        rng, (start, end) = np.random.default_rng(0), (config.bos_token_id, config.eos_token_id)
        self.begin = [start, 4, 4, 4, 4]
        self.tokens = [[*self.begin, *rng.integers(start, size=n).tolist(), end] for n in (3, 1, 6, 2, 1, 3)]
        self.context, self.end = config.max_position_embeddings, end

    @property
    def padded(self):
        return np.array([text + [self.end] * (self.context - len(text)) for text in self.tokens])

    @property
    def wanted(self):
        with torch.no_grad():
            return self.model(input_ids=torch.tensor(self.padded)).text_embeds.numpy()

    def ours(self, prefix=0):
        texts = lay_out(self.tokens, prefix)
        shared = jnp.asarray(self.tower.tokens[np.array(self.begin[:prefix])]) if prefix else None
        samples = self.tower.tokens[texts.ids]
        return np.asarray(jax.jit(lambda tower: run_tower(self.shape, tower, samples, texts, shared))(self.tower))


@pytest.fixture(scope="module", params=SHAPES)
def case(request, tmp_path_factory):
    return Case(tmp_path_factory.mktemp("tower"), request.param)


def test_it_is_transformers_own_and_a_shared_prefix_changes_nothing(case):
    """End-of-text pooling, QuickGELU and the causal mask are all in it: texts have several lengths, and are padded."""
    np.testing.assert_allclose(case.ours(), case.wanted, atol=1e-4)
    np.testing.assert_allclose(case.ours(prefix=5), case.ours(), atol=1e-5)
    plain = Texts(
        case.padded.ravel(),
        np.tile(np.arange(case.context), len(case.tokens)),
        ((len(case.tokens), case.context),),
        np.arange(len(case.tokens)) * case.context + np.array([len(text) - 1 for text in case.tokens]),
    )
    all_77 = jax.jit(lambda tower: run_tower(case.shape, tower, case.tower.tokens[plain.ids], plain))(case.tower)
    np.testing.assert_allclose(all_77, case.ours(), atol=1e-5)


def test_gradients_are_those_of_torch(case):
    """Of one batch's cross-entropy, with respect to the embeddings of the tokens that the texts are made of."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(9, case.wanted.shape[1])).astype(np.float32), rng.integers(6, size=9)
    weight = case.model.text_model.embeddings.token_embedding.weight
    text = case.model(input_ids=torch.tensor(case.padded)).text_embeds
    cosine = torch.nn.functional.normalize(torch.tensor(x)) @ torch.nn.functional.normalize(text).T
    (wanted,) = torch.autograd.grad(torch.nn.functional.cross_entropy(10 * cosine, torch.tensor(y)), weight)
    texts = lay_out(case.tokens, 5)

    def loss(samples, shared):
        t = run_tower(case.shape, case.tower, samples, texts, shared)
        t, u = t / jnp.linalg.norm(t, axis=1, keepdims=True), x / np.linalg.norm(x, axis=1, keepdims=True)
        return -jax.nn.log_softmax(10 * u @ t.T)[np.arange(9), y].mean()

    samples, shared = (jnp.asarray(case.tower.tokens[np.array(ids)]) for ids in (texts.ids, case.begin))
    found = np.zeros_like(case.tower.tokens)
    for ids, gradient in zip((texts.ids, case.begin), jax.jit(jax.grad(loss, (0, 1)))(samples, shared), strict=True):
        np.add.at(found, np.array(ids), np.asarray(gradient))
    used = np.unique([*texts.ids, *case.begin])
    wanted = wanted.numpy()[used]
    assert np.abs(wanted).max() > 1e-3, "the test is too weak"
    np.testing.assert_allclose(found[used], wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_weights_are_read_byte_for_byte(case):
    state = {name: tensor.numpy() for name, tensor in case.model.state_dict().items()}
    tower, layer = case.tower, "text_model.encoder.layers.1"
    assert tower.tokens.tobytes() == state["text_model.embeddings.token_embedding.weight"].tobytes()
    assert tower.projection.tobytes() == state["text_projection.weight"].tobytes()
    assert tower.blocks["down"]["weight"][1].tobytes() == state[f"{layer}.mlp.fc2.weight"].tobytes()
    assert tower.blocks["q"]["bias"][1].tobytes() == state[f"{layer}.self_attn.q_proj.bias"].tobytes()


def test_a_whole_clip_folder_serves_encoder_and_tower_alike(tmp_path):
    """What `ggeur embed` makes by transformers is what the tower makes of the same folder."""
    from ggeur.encoders.encoder import load_encoder
    from ggeur.encoders.text_tower import BytePairs

    tower = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2)
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    words = [*letters, *(f"{c}</w>" for c in letters), "<|startoftext|>", "<|endoftext|>"]
    (tmp_path / "vocab.json").write_text("{" + ", ".join(f'"{word}": {i}' for i, word in enumerate(words)) + "}")
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    config = transformers.CLIPConfig(
        text_config=dict(**tower, vocab_size=54, max_position_embeddings=32, bos_token_id=52, eos_token_id=53),
        vision_config=dict(**tower, patch_size=8, image_size=32),
        projection_dim=24,
    )
    torch.manual_seed(0)
    transformers.CLIPModel(config).save_pretrained(tmp_path)
    transformers.CLIPImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    ).save_pretrained(tmp_path)
    transformers.CLIPTokenizer.from_pretrained(str(tmp_path)).save_pretrained(str(tmp_path))
    names, tokens = ["ant", "queen bee"], BytePairs(tmp_path)
    found = embed_tokens(*load_tower(tmp_path), [tokens(f"a picture of a {name}") for name in names])
    wanted = load_encoder(str(tmp_path)).encode_text(names, ["a picture of a {}"])
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_what_is_no_tower_is_one_sentence(tmp_path):
    with refused("text-tower-missing: config.json"):
        load_tower(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"damaged")
    with refused("text-tower-invalid"):
        load_tower(tmp_path)
