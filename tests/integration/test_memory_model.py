"""Random operations on the memory and on a simple model of it must have the same results.

The model is dicts and lists, and does one thing at a time. It says which row every entry is in,
when it was last used and what its moments are, so that a difference shows at once and not only in a
later lookup. In one run about 3,000 operations are played.
"""

import dataclasses
import pathlib
import tempfile

import numpy as np
import pytest
import reference
import tensorflow as tf
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from memories import contents, make_dnd

from nec_tf import RowRMSProp
from nec_tf.memory import eviction

ACTIONS, KEY_SIZE, ALPHA = 2, 2, 0.25
KEYS_RATE, VALUES_RATE, DECAY, EPSILON = 0.2, 0.3, 0.9, 0.01


@dataclasses.dataclass
class Entry:
    action: int
    key: np.ndarray
    value: float
    state: int | bytes
    stamp: int
    key_moment: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(KEY_SIZE))
    value_moment: float = 0.0


class PlainMemory:
    """The memories of all actions: row -> entry."""

    def __init__(self, capacity, p, kernel, by_key):
        self.capacity, self.p, self.kernel, self.by_key = capacity, p, kernel, by_key
        self.entries = {}
        self.clock = 0

    def rows_of(self, action):
        return sorted(row for row, entry in self.entries.items() if entry.action == action)

    def write(self, actions, keys, values, ids):
        """One after the other; returns how many states were known."""
        known = 0
        for i, (action, key, value) in enumerate(zip(actions, keys, values, strict=True)):
            rows = self.rows_of(action)
            same = [
                row
                for row in rows
                if (
                    np.array_equal(self.entries[row].key, key)
                    if self.by_key
                    else self.entries[row].state == ids[i]
                )
            ]
            state = None if self.by_key else ids[i]
            if same:
                known += 1
                entry = self.entries[same[0]]
                entry.value += ALPHA * (value - entry.value)
                entry.key, entry.stamp = key, self.clock
            else:
                row = len(self.entries) + 1
                if len(rows) == self.capacity:
                    row = min(rows, key=lambda row: (self.entries[row].stamp, row))
                self.entries[row] = Entry(action, key, value, state, self.clock)
            self.clock += 1
        return known

    def neighbours(self, query, action):
        """Rows, nearest first."""
        rows = self.rows_of(action)
        keys = [self.entries[row].key for row in rows]
        return [rows[i] for i in reference.nearest(query, keys, self.p)]

    def arrays(self, rows):
        keys = np.array([self.entries[row].key for row in rows]).reshape(len(rows), KEY_SIZE)
        return keys, np.array([self.entries[row].value for row in rows])

    def lookup(self, queries, actions, stamp):
        """Values, [B, A] or [B]."""
        used, output = set(), []
        for asked in pairs(queries, actions):
            for query, action in asked:
                near = self.neighbours(query, action)
                used.update(near)
                output.append(reference.lookup(self.kernel, query, *self.arrays(near), self.p))
        if stamp:
            for row in used:
                self.entries[row].stamp = self.clock
            self.clock += 1
        return np.array(output).reshape(len(queries), *(() if actions is not None else (ACTIONS,)))

    def gradients(self, queries, actions):
        """Of the sum of all answers: row -> (by its key, by its value), neighbours only."""
        total = {}
        for asked in pairs(queries, actions):
            for query, action in asked:
                near = self.neighbours(query, action)
                _, d_keys, d_values = reference.lookup_gradients(
                    self.kernel, query, *self.arrays(near), self.p
                )
                for row, d_key, d_value in zip(near, d_keys, d_values, strict=True):
                    before = total.get(row, (0.0, 0.0))
                    total[row] = (before[0] + d_key, before[1] + d_value)
        return total

    def step(self, queries, actions):
        """Descends the sum of all answers; returns the rows touched."""
        gradients = self.gradients(queries, actions)
        for row, (d_key, d_value) in gradients.items():
            entry = self.entries[row]
            entry.key, entry.key_moment = reference.rmsprop(
                entry.key, entry.key_moment, d_key, KEYS_RATE, DECAY, EPSILON
            )
            entry.value, entry.value_moment = reference.rmsprop(
                entry.value, entry.value_moment, d_value, VALUES_RATE, DECAY, EPSILON
            )
        return sorted(gradients)


def pairs(queries, actions):
    """For each query, the (query, action) pairs that are asked for."""
    for i, query in enumerate(queries):
        yield [(query, a) for a in (range(ACTIONS) if actions is None else [actions[i]])]


# Few different keys, so that states come again and distances tie; and some in between.
grid = st.tuples(*[st.sampled_from([-1.0, 0.0, 0.5, 1.0])] * KEY_SIZE)
anywhere = st.tuples(*[st.floats(-2, 2, width=16)] * KEY_SIZE)
stored = st.integers(0, 100)  # the key of an entry, as gradients have left it
actions = st.integers(0, ACTIONS - 1)
values = st.integers(-20, 20).map(lambda n: n / 4)
batches = st.lists(
    st.tuples(actions, st.one_of(grid, grid, stored), values, st.integers(0, 8)), max_size=9
)
asked = st.lists(st.tuples(st.one_of(grid, anywhere, stored), actions), min_size=1, max_size=4)


class MemoryGame(RuleBasedStateMachine):
    by_key = True
    in_graph = False

    @initialize(
        capacity=st.integers(1, 6),
        p=st.integers(1, 4),
        kernel=st.sampled_from(list(reference.KERNELS)),
        queue=st.sampled_from([1, 3, 4096]),
    )
    def begin(self, capacity, p, kernel, queue):
        eviction._QUEUE, self.queue_before = queue, eviction._QUEUE
        self.model = PlainMemory(capacity, p, kernel, self.by_key)
        self.adopt_layer(self.new_layer())

    def teardown(self):
        if hasattr(self, "queue_before"):
            eviction._QUEUE = self.queue_before

    def new_layer(self):
        dnd = make_dnd(
            num_actions=ACTIONS,
            key_size=KEY_SIZE,
            capacity=self.model.capacity,
            num_neighbours=self.model.p,
            kernel=reference.CONFIGS[self.model.kernel],
            alpha=ALPHA,
            recognise_by_key=self.by_key,
        )
        return dnd, RowRMSProp(dnd, KEYS_RATE, VALUES_RATE, DECAY, EPSILON)

    def adopt_layer(self, layer):
        self.dnd, self.optimizer = layer
        compiled = (
            (lambda f: tf.function(f, reduce_retracing=True)) if self.in_graph else (lambda f: f)
        )
        self.write_layer = compiled(self.dnd.write)
        self.look_up_layer = compiled(self.dnd.lookup)
        self.step_layer = compiled(self.descend)

    def descend(self, queries, actions):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(self.dnd.lookup(queries, actions))
        tables = self.dnd.tables
        self.optimizer.apply(*tape.gradient(loss, [tables.keys, tables.values]))

    def key(self, drawn):
        if isinstance(drawn, tuple):
            return np.array(drawn)
        rows = sorted(self.model.entries)
        return self.model.entries[rows[drawn % len(rows)]].key if rows else np.zeros(KEY_SIZE)

    def queries(self, asked):
        return np.array([self.key(drawn) for drawn, _ in asked]), np.array([a for _, a in asked])

    @rule(batch=batches)
    def write(self, batch):
        of = np.array([action for action, *_ in batch], np.int64)
        keys = np.array([self.key(drawn) for _, drawn, *_ in batch]).reshape(-1, KEY_SIZE)
        news = np.array([value for _, _, value, _ in batch], np.float64)
        ids = None if self.by_key else np.array([i for *_, i in batch], np.int64)
        known = self.write_layer(of, keys, news, ids)
        assert int(known) == self.model.write(of, keys, news, ids)

    @rule(
        batch=batches.filter(bool), place=st.integers(0, 8), bad=st.sampled_from([np.nan, np.inf])
    )
    def be_refused(self, batch, place, bad):
        of = np.array([action for action, *_ in batch])
        keys = np.array([self.key(drawn) for _, drawn, *_ in batch])
        keys[place % len(batch), 1] = bad
        ids = None if self.by_key else np.zeros(len(batch), np.int64)
        refusal = tf.errors.InvalidArgumentError if self.in_graph else ValueError
        with pytest.raises(refusal, match="keys must be finite"):
            self.write_layer(of, keys, np.zeros(len(batch)), ids)

    @rule(asked=asked, every=st.booleans(), stamp=st.booleans())
    def look_up(self, asked, every, stamp):
        queries, of = self.queries(asked)
        of = None if every else of
        output = self.look_up_layer(queries, of, stamp=stamp)
        np.testing.assert_allclose(
            output, self.model.lookup(queries, of, stamp), rtol=1e-9, atol=1e-12
        )

    @rule(asked=asked)
    def see_neighbours(self, asked):
        queries, of = self.queries(asked)
        found = self.dnd.neighbours(queries, of)
        for i, (query, action) in enumerate(zip(queries, of, strict=True)):
            near = self.model.neighbours(query, action)
            assert found.rows[i, 0].numpy().tolist() == near + [0] * (self.model.p - len(near))
            keys, stored_values = self.model.arrays(near)
            assert found.values[i, 0, : len(near)].numpy().tolist() == stored_values.tolist()
            if near:
                weights = reference.weights(self.model.kernel, query, keys)
                np.testing.assert_allclose(found.weights[i, 0, : len(near)], weights, rtol=1e-9)

    @rule(asked=asked, every=st.booleans())
    def learn(self, asked, every):
        queries, of = self.queries(asked)
        of = None if every else of
        self.step_layer(queries, of)
        touched = self.model.step(queries, of)
        # The lookup before the step stamped its neighbours, which are the rows touched.
        for row in touched:
            self.model.entries[row].stamp = self.model.clock
        self.model.clock += 1
        self.adopt_rounding(touched)

    def adopt_rounding(self, rows):
        """Gradients agree but for the last digits, which the model takes over once checked."""
        tables = contents(self.dnd)
        for row in rows:
            entry = self.model.entries[row]
            for name, column in (
                ("key", "keys"),
                ("value", "values"),
                ("key_moment", "keys_mean_square"),
                ("value_moment", "values_mean_square"),
            ):
                held = tables[column][row]
                np.testing.assert_allclose(held, getattr(entry, name), rtol=1e-7, atol=1e-9)
                setattr(entry, name, held)

    @precondition(lambda self: not self.in_graph)
    @rule(used=st.booleans(), batch=batches)
    def save_and_restore(self, used, batch):
        layer = self.new_layer()
        if used:
            keys = np.array([self.key(drawn) for _, drawn, *_ in batch]).reshape(-1, KEY_SIZE)
            ids = None if self.by_key else np.arange(len(batch))
            layer[0].write([action for action, *_ in batch], keys, np.ones(len(batch)), ids)
        with tempfile.TemporaryDirectory() as folder:
            path = tf.train.Checkpoint(dnd=self.dnd).write(pathlib.Path(folder) / "checkpoint")
            tf.train.Checkpoint(dnd=layer[0]).read(path).assert_consumed()
        self.adopt_layer(layer)

    @invariant()
    def tables_hold_what_the_model_holds(self):
        if not hasattr(self, "model"):
            return
        tables = contents(self.dnd)
        entries = self.model.entries
        assert int(tables["size"]) == 1 + len(entries)
        assert int(tables["clock"]) == self.model.clock
        assert tables["keys"][0].tolist() == [0.0] * KEY_SIZE
        assert tables["values"][0] == 0.0
        for row, entry in entries.items():
            assert tables["actions"][row] == entry.action
            assert tables["keys"][row].tolist() == entry.key.tolist()
            assert tables["values"][row] == entry.value
            assert tables["stamps"][row] == entry.stamp
            assert tables["keys_mean_square"][row].tolist() == entry.key_moment.tolist()
            assert tables["values_mean_square"][row] == entry.value_moment
            if not self.by_key:
                assert tables["state_ids"][row] == entry.state
        sizes = [len(self.model.rows_of(action)) for action in range(ACTIONS)]
        assert self.dnd.sizes.tolist() == sizes


def play(examples, steps, **variant):
    game = type("Game", (MemoryGame,), variant)
    run_state_machine_as_test(
        game, settings=settings(max_examples=examples, stateful_step_count=steps)
    )


def test_a_memory_that_knows_states_by_their_keys_does_what_the_model_does():
    play(examples=40, steps=40, by_key=True)


def test_a_memory_that_knows_states_by_ids_does_what_the_model_does():
    play(examples=30, steps=40, by_key=False)


def test_inside_graphs_a_memory_does_what_the_model_does():
    play(examples=6, steps=50, in_graph=True)
