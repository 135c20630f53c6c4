import functools
import itertools
import os
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from nec_tf.agents.episodic_agent import Experience
from nec_tf.agents.n_step_window import NStepTuples
from nec_tf.agents.nec.agent import NecAgent
from nec_tf.agents.nec.config import NecConfig
from nec_tf.agents.nec.overlapped_updates import Minibatch, OverlappedUpdates
from nec_tf.networks import encoders

CONFIG = NecConfig(
    key_size=4, capacity=100, num_neighbours=5, index="exact", learning_rate=0.01, averaging=0.5
)


def make_agent():
    agent = NecAgent(
        ts.time_step_spec(tf.TensorSpec([3], tf.float32)),
        tensor_spec.BoundedTensorSpec([], tf.int64, 0, 1),
        encoders.mlp((3,), 4, seed=0),
        CONFIG,
        seed=0,
    )
    written = experience(40, seed=99)
    keys = agent.embedding(written.observation).numpy()
    agent.write(NStepTuples(0, written.observation, written.action, written.returns, keys))
    return agent


def experience(count=8, seed=0):
    rng = np.random.default_rng(seed)
    observations = rng.normal(size=(count, 3)).astype(np.float32)
    returns = observations.sum(1) + rng.normal(size=count).astype(np.float32)
    return Experience(observations, rng.integers(0, 2, count), returns, np.ones(count, bool))


def minibatch(count=8, seed=0):
    return Minibatch(experience(count, seed), np.zeros([count, 0], np.int64))


def variables(agent):
    networks = [*agent.online_network.variables, *agent.averaged_network.variables]
    return [variable.numpy() for variable in [*networks, *agent.dnd.tables.variables]]


def assert_same(one, other):
    for got, wanted in zip(variables(one), variables(other), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_one_at_a_time_is_what_the_agent_does_when_it_trains():
    agent, reference = make_agent(), make_agent()
    updates = OverlappedUpdates(agent)
    for seed in range(4):
        batch = minibatch(seed=seed)
        updates.begin([lambda batch=batch: batch])
        loss = updates.finish_oldest()
        wanted = reference.train(tf.nest.map_structure(tf.constant, batch.experience))
        np.testing.assert_allclose(loss.loss, wanted.loss, rtol=1e-6)
    for got, wanted in zip(variables(agent), variables(reference), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_gradients_are_of_the_time_of_their_beginning():
    agent, reference = make_agent(), make_agent()
    updates = OverlappedUpdates(agent)
    # By hand, with nothing beside: each begins while the one before it is under way.
    begun = None
    for seed in range(5):
        batch = minibatch(seed=seed)
        computed = reference.gradients(tf.nest.map_structure(tf.constant, batch.experience))
        updates.begin([lambda batch=batch: batch])
        if begun is not None:
            reference.apply(begun[1])
            loss = updates.finish_oldest()
            np.testing.assert_allclose(loss.loss, begun[0].loss, rtol=1e-5)
        begun = computed
        assert len(updates) == 1
    for got, wanted in zip(variables(agent), variables(reference), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("slow", [0, 1])
@pytest.mark.parametrize("where", ["before it looks up", "after it has looked up", "at its end"])
def test_how_long_anything_takes_decides_nothing(slow, where):
    plain, delayed = make_agent(), make_agent()
    for agent in (plain, delayed):
        updates = OverlappedUpdates(agent)
        if agent is delayed:
            slow_down(updates, slow, where)
        for seed in range(12):
            updates.begin([functools.partial(minibatch, seed=seed)])
            if len(updates) == 2:
                updates.finish_oldest()
        updates.finish_oldest()
    assert_same(plain, delayed)


def slow_down(updates, slow, where):
    """Makes every second update wait somewhere."""
    run, end, neighbours = updates._run, updates._end_reading, updates._agent.dnd._store.neighbours
    numbers = itertools.count()

    def slow_run(minibatch, number):
        try:
            return run(minibatch, number)
        finally:
            time.sleep(0.03 * (where == "at its end" and number % 2 == slow))

    def slow_end(number):
        end(number)
        time.sleep(0.03 * (where == "after it has looked up" and number % 2 == slow))

    def slow_neighbours(*arguments):
        time.sleep(0.03 * (where == "before it looks up" and next(numbers) % 2 == slow))
        return neighbours(*arguments)

    updates._run, updates._end_reading = slow_run, slow_end
    updates._agent.dnd._store.neighbours = slow_neighbours


def test_none_is_applied_while_another_one_reads():
    agent = make_agent()
    updates = OverlappedUpdates(agent)
    neighbours, may_go_on = agent.dnd._store.neighbours, threading.Event()

    def held(*arguments):
        if threading.current_thread() is not threading.main_thread():
            may_go_on.wait(30)
        return neighbours(*arguments)

    updates.begin([minibatch])
    updates._updates[0].computed.result()
    agent.dnd._store.neighbours = held
    updates.begin([functools.partial(minibatch, seed=1)])
    before = agent.online_network.get_weights()
    finishing = threading.Thread(target=updates.finish_oldest)
    finishing.start()
    finishing.join(0.3)
    assert finishing.is_alive()
    np.testing.assert_array_equal(before[0], agent.online_network.get_weights()[0])
    may_go_on.set()
    finishing.join(30)
    assert not finishing.is_alive()
    assert (before[0] != agent.online_network.get_weights()[0]).any()


def test_nothing_changes_the_memory_while_an_update_reads_it():
    agent = make_agent()
    updates = OverlappedUpdates(agent)
    neighbours, reading, may_go_on = (
        agent.dnd._store.neighbours,
        threading.Event(),
        threading.Event(),
    )

    def held(*arguments):
        reading.set()
        may_go_on.wait(30)
        return neighbours(*arguments)

    agent.dnd._store.neighbours = held
    updates.begin([minibatch])
    reading.wait(30)
    written = experience(3, seed=5)
    keys = np.ones((3, 4), np.float32)
    steps = NStepTuples(0, written.observation, written.action, written.returns, keys)
    for change in (lambda: agent.write(steps), agent.dnd.clear):
        with pytest.raises(RuntimeError, match="read"):
            change()
    may_go_on.set()
    updates.finish_oldest()
    agent.write(steps)


def test_a_failure_in_the_other_thread_is_raised_in_this_one():
    agent = make_agent()
    updates = OverlappedUpdates(agent)
    variable = agent.online_network.variables[0]
    variable.assign(np.nan * variable)
    updates.begin([minibatch, minibatch])
    with pytest.raises(tf.errors.InvalidArgumentError, match="queries"):
        updates.finish_oldest()


def test_threads_that_compute_give_way_to_the_one_that_acts():
    updates = OverlappedUpdates(make_agent())
    updates.begin([minibatch])
    updates.finish_oldest()
    (thread,) = updates._threads._threads
    own, other = (os.getpriority(os.PRIO_PROCESS, of) for of in (0, thread.native_id))
    assert other > own
