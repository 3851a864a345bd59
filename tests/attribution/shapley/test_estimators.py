"""Estimators by name, and on rulers whose share of text is known."""

import numpy as np
import pytest
from PIL import Image

from stand_ins.games import additive, play, random_terms, unanimity
from waltz.attribution.settings import AttributionSettings
from waltz.attribution.shapley.estimators import begin_estimation
from waltz.attribution.shapley.shapiq_estimators import MIN_EVALUATIONS
from waltz.attribution.t_shap import measure_t_shap
from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.model_registry import ModelSpec
from waltz.models.encoders.coalitions import Coalitions
from waltz.models.encoders.kinds import ruler
from waltz.models.encoders.players import PROFILES

SHORT, LONG = "a dog", "there are two dogs on the green sofa"
"""With 4 and 16 patches: 6 or 8 players, and 24 or 26."""


def found_by(name, text, profile, share, evaluations=None):
    """T-SHAP of a ruler."""
    spec = ModelSpec("ruler", "ruler", weights=f"share:{share}", revision="0")
    encoder = ruler.load(spec, Device("cpu", threads=1, reason="test"))
    image = encoder.prepare_image(Image.new("RGB", (90, 60), (10, 200, 90)))
    game = PROFILES[profile](encoder, encoder.tokenize(text), image)
    table = Coalitions(encoder, image, [game], lambda logits: logits)
    made = begin_estimation(
        name, len(game), game.words, AttributionSettings(profile, name, evaluations=evaluations, seed=3)
    )
    found, _ = play(made, lambda masks: table.values([masks])[0])
    return found, measure_t_shap(found, game.words)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("profile", ["published", "equations"])
@pytest.mark.parametrize(("name", "text"), [("permutation", LONG), ("exact", SHORT)])
def test_rulers_get_their_share(name, text, profile, share):
    found, share_of_text = found_by(name, text, profile, share)
    assert share_of_text.value == pytest.approx(share, abs=1e-6)
    assert share_of_text.standard_error == pytest.approx(0, abs=1e-6)
    assert found.residual <= 1e-5 * abs(found.value - found.base_value).max()


@pytest.mark.parametrize("name", MIN_EVALUATIONS)
def test_rulers_get_their_share_from_shapiq(name):
    # SVARM and unbiased KernelSHAP are not exact on additive games before they have all coalitions
    slow = name in ("SVARM", "UnbiasedKernelSHAP")
    evaluations = None if slow else max(150, MIN_EVALUATIONS[name](24))
    found, share_of_text = found_by(name, SHORT if slow else LONG, "equations", 0.25, evaluations)
    assert share_of_text.value == pytest.approx(0.25, abs=0.02)
    assert np.isnan(share_of_text.standard_error) != found.exact


def test_a_name_that_is_none_lists_those_that_are():
    with pytest.raises(UserError, match=r"got 'magic'\); take one of auto, permutation, exact, KernelSHAP"):
        begin_estimation("magic", 4, 2, AttributionSettings("equations"))


def test_evaluations_default_to_what_the_released_scripts_ask():
    found, asked = play(
        begin_estimation("permutation", 26, 10, AttributionSettings("published")), additive(np.arange(26.0))
    )
    assert (found.requested, len(asked)) == (530, 10)


def test_a_standard_error_can_stop_permutations_only():
    wanted = AttributionSettings("equations", evaluations=900, standard_error=0.01)
    found, _ = play(begin_estimation("permutation", 4, 2, wanted), additive(np.arange(4.0)))
    assert found.stopped_by == "standard error"
    assert play(begin_estimation("exact", 4, 2, wanted), additive(np.arange(4.0)))[0].exact
    with pytest.raises(UserError, match="SVARM has no standard error"):
        begin_estimation("SVARM", 4, 2, wanted)


@pytest.mark.parametrize("name", ["permutation", "exact", *MIN_EVALUATIONS])
def test_estimations_that_advance_in_step_do_not_mind_each_other(name):
    games = [unanimity(random_terms(players, players)) for players in (6, 9)]
    wanted = AttributionSettings("equations", evaluations=200, seed=5)
    alone = [
        play(begin_estimation(name, players, 3, wanted), game)[0] for players, game in zip((6, 9), games, strict=True)
    ]
    running = {players: begin_estimation(name, players, 3, wanted) for players in (9, 6)}
    asked = {players: next(made) for players, made in running.items()}
    together = {}
    while running:
        np.random.random()
        for (players, game), made in [((6, games[0]), running.get(6)), ((9, games[1]), running.get(9))]:
            if made is not None:
                try:
                    asked[players] = made.send(game(asked[players]))
                except StopIteration as finished:
                    together[players] = finished.value
                    del running[players]
    for players, found in zip((6, 9), alone, strict=True):
        np.testing.assert_array_equal(together[players].phi, found.phi)


@pytest.mark.parametrize("name", ["permutation", *MIN_EVALUATIONS])
def test_the_seed_and_the_evaluations_are_those_of_the_settings(name):
    asked = {
        (seed, evaluations): np.concatenate(
            play(
                begin_estimation(name, 9, 3, AttributionSettings("equations", name, evaluations, seed)),
                additive(np.ones(9)),
            )[1]
        )
        for seed in (1, 2)
        for evaluations in (200, 260)
    }
    assert not np.array_equal(asked[1, 200], asked[2, 200])
    assert len(asked[1, 200]) <= 200 < len(asked[1, 260]) <= 260
