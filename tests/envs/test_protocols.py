"""Ids stand for protocols, and settings that cannot be are refused."""

import pytest

from rlpyt.envs.atari import AtariEnvironment, make_atari
from rlpyt.envs.protocols import dopamine, game_of, machado2018, mnih2015, protocol_for
from rlpyt.errors import UsageError


def test_an_id_stands_for_its_protocol_unless_one_is_named():
    assert protocol_for("ALE/Pong-v5") == machado2018
    assert protocol_for("MsPacmanNoFrameskip-v4") == mnih2015
    assert protocol_for("ALE/Pong-v5", "dopamine") == dopamine
    assert game_of("ALE/MsPacman-v5") == "ms_pacman"
    assert not mnih2015.whole_games().life_loss


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: protocol_for("Pong-v4"), "choose protocol="),
        (lambda: protocol_for("ALE/Pong-v5", "nature"), "'nature' is unknown.*mnih2015"),
        (lambda: make_atari("CartPole-v1"), "CartPole-v1 is not an Atari id"),
        (
            lambda: make_atari("ALE/Pong-v5", stickiness=0.1),
            "no setting stickiness; games have mode and",
        ),
        (lambda: make_atari("ALE/Pong-v5", sticky=1.5), r"sticky=1.5 .* in \[0, 1\)"),
        (lambda: make_atari("ALE/Pong-v5", frame_skip=7), "a multiple of frame_skip"),
        (lambda: make_atari("ALE/Pong-v5", mode=99), "mode=99 is not among pong's"),
        (lambda: AtariEnvironment("Pong", machado2018), "'Pong' is no game"),
    ],
)
def test_what_cannot_work_is_refused_with_the_rule(call, says):
    with pytest.raises(UsageError, match=says):
        call()
