"""The loss of A3C against the paper's equations, written in NumPy, and its gradients."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from nec_tf.agents.a3c.loss import a3c_loss, n_step_returns

FIRST, MID, LAST = (int(kind) for kind in (ts.StepType.FIRST, ts.StepType.MID, ts.StepType.LAST))


def steps(step_type, reward, discount, action=None):
    """Returns trajectories [B, T + 1]; observations do not matter."""
    step_type = np.array(step_type, np.int32)
    following = np.concatenate([step_type[:, 1:], step_type[:, -1:]], axis=1)
    return trajectory.Trajectory(
        step_type=step_type,
        observation=np.zeros(step_type.shape, np.float32),
        action=np.zeros_like(step_type) if action is None else np.array(action, np.int32),
        policy_info=(),
        next_step_type=following,
        reward=np.array(reward, np.float32),
        discount=np.array(discount, np.float32),
    )


@pytest.mark.parametrize(
    ("step_type", "reward", "discount", "values", "expected"),
    [
        # No end: 1 + 0.5 (2 + 0.5 (4 + 0.5 * 16)), and so on.
        ([MID] * 4, [1, 2, 4, 99], [1] * 4, [7, 7, 7, 16], [5, 8, 12]),
        # Terminated after two steps: nothing follows the second reward. The rest is padding.
        ([MID, MID, LAST, LAST], [1, 2, 99, 99], [1, 0, 1, 1], [7, 7, 16, 16], [2, 2]),
        # Cut off by a time limit after two steps: the value of the last observation follows.
        ([MID, MID, LAST, LAST], [1, 2, 99, 99], [1, 1, 1, 1], [7, 7, 16, 16], [6, 10]),
        # A new episode in the same rows: 2 ends the first one, 4 + 0.5 * 6 belongs to the second.
        ([MID, LAST, FIRST, MID], [2, 99, 4, 99], [0, 1, 1, 1], [7, 7, 7, 6], [2, None, 7]),
    ],
)
def test_returns_worked_out_by_hand(step_type, reward, discount, values, expected):
    experience = steps([step_type], [reward], [discount])
    found = n_step_returns(experience, tf.constant([values], tf.float32), 0.5)[0].numpy()
    for got, wanted in zip(found, expected, strict=False):
        assert wanted is None or got == wanted


def reference(experience, logits, values, discount):
    """Algorithm S3, one step at a time, in float64: sums of policy loss, value loss and entropy."""
    batch, rows = experience.reward.shape
    policy_loss = value_loss = entropy = 0.0
    for b in range(batch):
        for t in range(rows - 1):
            if experience.step_type[b, t] == LAST:
                continue
            rewards, gammas, i = 0.0, 1.0, t
            while True:  # R = sum of gamma^i r, then gamma^k V unless the episode terminated
                rewards += gammas * experience.reward[b, i]
                gammas *= discount * experience.discount[b, i]
                i += 1
                if i == rows - 1 or experience.step_type[b, i] == LAST:
                    break
            target = rewards + gammas * values[b, i]
            pi = np.exp(logits[b, t]) / np.sum(np.exp(logits[b, t]))
            advantage = target - values[b, t]
            policy_loss += -np.log(pi[experience.action[b, t]]) * advantage
            value_loss += advantage**2
            entropy += -np.sum(pi * np.log(pi))
    return np.array([policy_loss, value_loss, entropy]) / batch


def random_case(seed):
    rng = np.random.default_rng(seed)
    batch, rows, actions = 3, 6, 4
    step_type = np.full((batch, rows), MID)
    step_type[0, 3:] = LAST
    step_type[1, 2], step_type[1, 3] = LAST, FIRST
    discount = np.ones((batch, rows))
    discount[0, 2] = 0.0
    reward, values = rng.normal(size=(2, batch, rows))
    action = rng.integers(0, actions, (batch, rows))
    experience = steps(step_type, reward, discount, action)
    return experience, rng.normal(size=(batch, rows, actions)), values


def as_tensors(*arrays):
    return [tf.constant(array, tf.float32) for array in arrays]


@pytest.mark.parametrize("seed", [1, 2])
def test_the_parts_are_those_of_the_papers_algorithm(seed):
    experience, logits, values = random_case(seed)
    loss = a3c_loss(experience, *as_tensors(logits, values), 0.9)
    expected = reference(experience, logits, values, 0.9)
    np.testing.assert_allclose([loss.policy_loss, loss.value_loss, loss.entropy], expected, 1e-5)
    assert float(loss.steps) == pytest.approx((3 + 4 + 5) / 3)


def test_gradients_are_those_of_the_papers_algorithm():
    """Finite differences, with returns and advantages of the policy loss held constant."""
    experience, logits, values = random_case(3)
    x, y = (tf.Variable(tensor) for tensor in as_tensors(logits, values))
    with tf.GradientTape() as tape:
        parts = a3c_loss(experience, x, y, 0.9)
        loss = parts.policy_loss + 0.5 * parts.value_loss - 0.01 * parts.entropy
    by_logits, by_values = tape.gradient(loss, [x, y])

    def changed(array, index, change):
        array = array.copy()
        array[index] += change
        return array

    # The policy's gradient: values, and with them returns and advantages, stay as they are.
    for index in np.ndindex(logits.shape):
        up, down = (
            reference(experience, changed(logits, index, d), values, 0.9) for d in (1e-5, -1e-5)
        )
        slope = (up - down) / 2e-5
        assert float(by_logits[index]) == pytest.approx(slope[0] - 0.01 * slope[2], abs=1e-4)
    # The value's gradient, d (R - V)^2 / dV with R constant: -2 (R - V), and none by the policy.
    returns = n_step_returns(experience, y, 0.9).numpy()
    expected = np.zeros_like(values)
    expected[:, :-1] = 0.5 * -2.0 * (returns - values[:, :-1]) / len(values)
    expected[experience.step_type == LAST] = 0.0
    np.testing.assert_allclose(by_values, expected, atol=1e-5)
