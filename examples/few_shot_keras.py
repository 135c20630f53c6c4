"""The differentiable neural dictionary alone, in a Keras model: few-shot classification.

  python examples/few_shot_keras.py [--shots=5] [--epochs=10]

Each class is a random pattern; its images are noisy, shifted copies. A convolutional network maps
images to keys. The dictionary has one memory for each class. It holds the few labelled examples of
all classes, with value 1 for those of the class and 0 for the others: a lookup is the share of the
class among the nearest examples. `model.fit` trains the network through the dictionary, and the
stored keys too. For classes that the network has never seen, the examples are only written to the
dictionary, without training.
"""

import numpy as np
import tensorflow as tf
from absl import app, flags

from nec_tf import DifferentiableNeuralDictionary, RowRMSProp, WithMemory

FLAGS = flags.FLAGS
flags.DEFINE_integer("shots", 5, "Labelled examples of each class.")
flags.DEFINE_integer("epochs", 10, "Training epochs.")

NUM_CLASSES = 10
KEY_SIZE = 32
SIDE = 16  # pixels


def examples(rng: np.random.Generator, patterns: np.ndarray, count: int):
    """Returns noisy, shifted images [n, SIDE, SIDE, 1] and labels [n], `count` for each pattern."""
    labels = np.repeat(np.arange(len(patterns)), count)
    shifts = rng.integers(-2, 3, (len(labels), 2))
    images = [np.roll(patterns[c], shift, (0, 1)) for c, shift in zip(labels, shifts, strict=True)]
    noise = rng.normal(scale=0.5, size=(len(labels), SIDE, SIDE))
    order = rng.permutation(len(labels))
    return (np.stack(images) + noise)[order, ..., None].astype(np.float32), labels[order]


def new_patterns(rng: np.random.Generator) -> np.ndarray:
    """Returns a random pattern of 4 x 4 squares for each class, [NUM_CLASSES, SIDE, SIDE]."""
    coarse = rng.normal(size=(NUM_CLASSES, SIDE // 4, SIDE // 4))
    return coarse.repeat(4, axis=1).repeat(4, axis=2)


def make_encoder() -> tf.keras.Model:
    """Returns a network from images [B, SIDE, SIDE, 1] to keys [B, KEY_SIZE]."""
    return tf.keras.Sequential(
        [
            tf.keras.layers.InputLayer((SIDE, SIDE, 1)),
            tf.keras.layers.Conv2D(32, 3, activation="relu"),
            tf.keras.layers.MaxPool2D(),
            tf.keras.layers.Conv2D(32, 3, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(KEY_SIZE),
        ]
    )


class WriteExamples(tf.keras.callbacks.Callback):
    """Writes the labelled examples before each epoch, with the network's current keys."""

    def __init__(self, encoder, memory, images, labels) -> None:
        """Takes images [n, SIDE, SIDE, 1] and labels [n]."""
        super().__init__()
        self._encoder, self._memory, self._images, self._labels = encoder, memory, images, labels

    def on_epoch_begin(self, epoch: int = 0, logs=None) -> None:
        """Writes every example to the memory of every class."""
        keys = self._encoder.predict(self._images, verbose=0)
        classes = np.repeat(np.arange(NUM_CLASSES), len(keys))
        self._memory.write(
            classes,
            np.tile(keys, (NUM_CLASSES, 1)),
            (classes == np.tile(self._labels, NUM_CLASSES)).astype(np.float32),
            np.tile(
                np.arange(len(keys)), NUM_CLASSES
            ),  # an example that is stored gets its new key
        )


def classifier(encoder: tf.keras.Model, shots: int):
    """Returns a plain Keras model over the encoder, and the dictionary inside it."""
    memory = DifferentiableNeuralDictionary(
        NUM_CLASSES, KEY_SIZE, num_neighbours=2 * shots, index="exact", recognise_by_key=False
    )
    images = tf.keras.Input((SIDE, SIDE, 1))
    model = tf.keras.Model(images, memory(encoder(images)))
    model.compile(
        WithMemory("adam", RowRMSProp(memory, keys_learning_rate=1e-3, values_learning_rate=0.0)),
        tf.keras.losses.CategoricalCrossentropy(label_smoothing=0.05),
        metrics=["accuracy"],
    )
    return model, memory


def accuracy_on_new_classes(encoder: tf.keras.Model, seed: int, shots: int) -> float:
    """Writes a few examples of new classes; returns the accuracy on other images of them."""
    rng = np.random.default_rng(seed)
    patterns = new_patterns(rng)
    model, memory = classifier(encoder, shots)
    WriteExamples(encoder, memory, *examples(rng, patterns, shots)).on_epoch_begin()
    images, labels = examples(rng, patterns, 50)
    return float(np.mean(model.predict(images, verbose=0).argmax(axis=1) == labels))


def run(shots: int, epochs: int) -> tuple[float, float]:
    """Returns the accuracy on new classes before and after training on others."""
    tf.keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    encoder = make_encoder()
    before = accuracy_on_new_classes(encoder, seed=1, shots=shots)
    patterns = new_patterns(rng)
    model, memory = classifier(encoder, shots)
    write = WriteExamples(encoder, memory, *examples(rng, patterns, shots))
    images, labels = examples(rng, patterns, 200)
    targets = tf.keras.utils.to_categorical(labels, NUM_CLASSES)
    model.fit(images, targets, batch_size=64, epochs=epochs, callbacks=[write], verbose=2)
    return before, accuracy_on_new_classes(encoder, seed=1, shots=shots)


def main(_) -> None:
    """Trains, and prints the accuracy on new classes before and after."""
    before, after = run(FLAGS.shots, FLAGS.epochs)
    print(f"new classes, {FLAGS.shots} examples each, chance {1 / NUM_CLASSES:.2f}:")
    print(f"accuracy with a random network {before:.2f}, with the trained one {after:.2f}")


if __name__ == "__main__":
    app.run(main)
