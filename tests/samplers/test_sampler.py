"""Windows of one stream: aligned, in order, the same however they are cut."""

import numpy as np
import pytest
import torch
from small_parts import run_of
from stepping import by_row, coin, in_process, sampler_of, stream, zeros_of
from toys import CountEnv, InfoEnv, SeedEnv

from rlpyt import noise
from rlpyt.arrays import tree_items, tree_map
from rlpyt.build import build
from rlpyt.logging.episodes import Episodes


def assert_equal(rows, other, answered=None):
    for (path, x), (_, y) in zip(tree_items(rows), tree_items(other), strict=True):
        n = len(x) - 1 if path == "action" or answered else len(x)
        assert x[:n].tobytes() == y[:n].tobytes(), path


@pytest.mark.parametrize("horizon", [1, 2, 3, 5])
@pytest.mark.parametrize("end", ["term", "trunc", "both", "never"])
def test_every_row_is_answered_where_it_lies_and_stands_in_exactly_one_window(horizon, end):
    envs = in_process(lambda b: CountEnv(2 + b, end, gap=1, column=b), 3)
    rows = stream(sampler_of(envs, by_row, horizon), 30 // horizon)
    column, episode, steps = rows.observation.transpose(2, 0, 1).astype(int)
    assert (column == np.arange(3)).all()
    assert np.array_equal(rows.action[:-1], steps[:-1] % 2)
    assert np.array_equal(rows.first[1:], rows.last[:-1]) and rows.first[0].all()
    going = ~rows.last[:-1]
    assert (steps[1:][going] == steps[:-1][going] + 1).all()
    assert (episode[1:] == episode[:-1] + rows.first[1:]).all()
    assert (rows.reward == np.where(rows.first, 0, 1)).all()
    assert (steps[rows.first] == 0).all()


def test_collecting_20_rows_is_collecting_4_times_5():
    """D1."""
    found = []
    for horizon, windows in ((20, 1), (5, 4), (1, 20)):
        envs = in_process(lambda b: CountEnv(3 + b, gap=1, column=b), 4)
        found.append(stream(sampler_of(envs, coin, horizon), windows))
    assert_equal(found[0], found[1])
    assert_equal(found[0], found[2])
    assert 0 < found[0].action.mean() < 1


def test_four_environments_are_the_first_half_of_eight():
    few, many = (
        stream(sampler_of(in_process(lambda b: SeedEnv(2 + b), n), coin, 5), 4) for n in (4, 8)
    )
    assert_equal(few, tree_map(lambda x: np.ascontiguousarray(x[:, :4]), many))
    assert not np.array_equal(many.action[:, :4], many.action[:, 4:])  # the control


class Padded:
    """Lets an agent act on as many columns as another run has, of which its own are the first."""

    def __init__(self, agent, columns):
        self.agent, self.columns = agent, columns
        self.draws = agent.draws

    def act(self, inputs, state, drawn):
        def pad(x):
            return torch.cat([x, x.new_zeros(self.columns - len(x), *x.shape[1:])])

        inputs, state, drawn = (tree_map(pad, x) for x in (inputs, state, drawn))
        action, kept, state = self.agent.act(inputs, state, drawn)
        return action[:4], tree_map(lambda x: x[:4], kept), tree_map(lambda x: x[:4], state)


@pytest.mark.parametrize("memory", ["none", "lstm"])
def test_a_network_answers_half_of_the_columns_with_the_same_bits_at_equal_padding(memory):
    found = []
    for num_envs in (4, 8):
        parts = build(run_of(num_envs, memory))
        sampler = parts.sampler
        if num_envs == 4:
            sampler.agent = Padded(parts.agent, 8)
        sampler.reset()
        rows = stream(sampler, 6)
        found.append((rows, sampler.window.state))
        parts.close()
    (few, many), states = zip(*found, strict=True)
    assert_equal(few, tree_map(lambda x: np.ascontiguousarray(x[:, :4]), many))
    tree_map(lambda x, y: torch.testing.assert_close(x, y[:4], rtol=0, atol=0), *states)


def test_the_first_answer_is_to_the_reset_observation():
    """B074: nothing precedes it."""
    seen = []

    def look(inputs, drawn):
        seen.append(tree_map(torch.clone, inputs))
        return zeros_of(inputs, drawn) + 1

    envs = in_process(lambda b: CountEnv(2, column=b), 2)
    sampler_of(envs, look, 4).collect()
    steps = [inputs.observation[0, 2].item() for inputs in seen]
    assert steps == [0, 1, 2, 0]
    assert [inputs.first[0].item() for inputs in seen] == [True, False, False, True]
    assert [inputs.reward[0].item() for inputs in seen] == [0, 1, 1, 0]
    assert [inputs.previous_action[0].item() for inputs in seen] == [0, 1, 1, 1]


@pytest.mark.parametrize("interval", [1, 2, 3, 6])
def test_states_are_kept_as_they_were_fed_at_every_intervals_row(interval):
    """The scripted state counts the rows that were answered before."""
    envs = in_process(lambda b: CountEnv(4, column=b), 2)
    sampler = sampler_of(envs, by_row, 6, state=torch.zeros(2, 1), state_interval=interval)
    for w in range(3):
        window = sampler.collect()
        kept = [window.kept_state(c)[0].item() for c in range(6 // interval)]
        assert kept == [w * 6 + row for row in range(0, 6, interval)]
        assert window.state.flatten().tolist() == [6 * (w + 1)] * 2


def test_the_next_window_is_answered_with_the_newest_weights_and_the_last_one_was_not():
    """B085."""
    weights = torch.zeros(2, dtype=torch.int64)
    sampler = sampler_of(in_process(lambda b: CountEnv(3), 2), lambda *_: weights, 4)
    first = sampler.collect().rows.action[:4].copy()
    weights += 1
    second = sampler.collect().rows.action[:4]
    assert (first == 0).all() and (second == 1).all()  # row 0 was the boundary row before


def test_a_reset_starts_the_same_stream_again():
    sampler = sampler_of(in_process(lambda b: SeedEnv(3), 2), coin, 4, state=torch.zeros(2, 1))
    first = stream(sampler, 3)
    sampler.reset()
    assert_equal(first, stream(sampler, 3))


def test_infos_come_with_the_row_on_which_their_episode_ended():
    sampler = sampler_of(in_process(lambda b: InfoEnv(2 + b), 2), zeros_of, 4)
    sampler.collect()
    assert {at: infos["steps"] for at, infos in sampler.infos.items()} == {(2, 0): 2, (3, 1): 3}
    sampler.collect()
    assert {at: infos["steps"] for at, infos in sampler.infos.items()} == {(1, 0): 2, (3, 1): 3,
                                                                           (4, 0): 2}  # fmt: skip


def test_steps_and_returns_agree_with_what_the_environments_counted():
    """Env-reported = sampler = logger."""
    made = []

    class Tallies(CountEnv):
        taken = 0

        def step(self, action):
            self.taken += 1
            return super().step(action)

    def make(b):
        made.append(Tallies(2 + b, gap=1, column=b))
        return made[-1]

    envs = in_process(make, 3)
    sampler, episodes, found = sampler_of(envs, zeros_of, 7), Episodes(3), []
    for _ in range(6):
        found += episodes.count(sampler.collect().rows, infos=sampler.infos)
        assert episodes.env_steps == sum(env.taken for env in made)
    assert [e.length for e in found if e.column == 1] == [3 + i for i in range(6)]
    assert all(e.raw_return == e.length for e in found)


def test_a_cut_after_a_resume_reports_no_episode_and_takes_no_step():
    """Rows of the lost column are marked, and counts are those of the rows."""

    class Unlike(CountEnv):
        made = 0

        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            Unlike.made += 1
            self.episode = 100 * Unlike.made if self.column == 1 else -1

    envs = in_process(lambda b: Unlike(n=6, column=b), 2)
    sampler, episodes = sampler_of(envs, zeros_of, 4), Episodes(2)
    assert episodes.count(sampler.collect().rows) == []
    carry, state = sampler.window.carry(), envs.snapshot()

    resumed = in_process(lambda b: Unlike(n=6, column=b), 2)
    other = sampler_of(resumed, zeros_of, 4, reset=False)
    other.window.restore(tree_map(np.copy, carry))
    assert other.envs.restore(state, other.window.slots[-1].row) == [1]
    rows = other.collect().rows
    found = episodes.count(rows)
    assert [(e.column, e.length) for e in found] == [(0, 6)]
    assert rows.cut[:, 1].tolist() == [False, True, False, False, False]
    assert rows.truncated[0].tolist() == [False, True]
    live = ~rows.last[:-1]
    assert episodes.env_steps == 8 + live.sum() - rows.cut[1:][live].sum()
    found = episodes.count(other.collect().rows)
    assert [(e.column, e.length) for e in found] == [(1, 6)]  # the new episode, all of it


def test_evaluation_and_training_noise_differ():
    found = [
        noise.Noise(0, code, range(2), 1, 0).rows(0, 20)
        for code in (noise.ACTION_NOISE, noise.EVALUATION_NOISE)
    ]
    assert not np.array_equal(*found)
