"""fed.data: splits of samples among clients, which must be fedsim's."""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import tempfile
import unittest

import fed
import numpy as np
from fed import _tensors, sim


def labels_of(count, seed=3):
    return np.random.default_rng(seed).integers(0, 10, count)


class Partitions(unittest.TestCase):
    def test_each_sample_has_one_client(self):
        labels = labels_of(1003)
        for how in ({}, {"dirichlet": 0.1}, {"quantity": 0.1}, {"classes_per_client": 2}, {"groups": labels}):
            parts = fed.data.partition(labels, clients=7, seed=5, **how)
            self.assertEqual(len(parts), 7)
            self.assertEqual(sorted(np.concatenate(parts).tolist()), list(range(1003)), how)

    def test_splits_differ_as_they_say(self):
        labels = np.arange(5000) % 10
        even = fed.data.partition(labels, clients=10, seed=1)
        self.assertEqual({len(part) for part in even}, {500})
        pure = fed.data.partition(labels, clients=10, classes_per_client=1, seed=1)
        self.assertEqual([len(np.unique(labels[part])) for part in pure], [1] * 10)
        few = fed.data.partition(labels, clients=10, dirichlet=0.01, seed=1)
        most = [np.bincount(labels[part], minlength=10).max() / len(part) for part in few]
        self.assertGreater(np.mean(most), 0.5)

    def test_the_seed_decides(self):
        labels = labels_of(300)
        first, again, other = (fed.data.partition(labels, clients=3, dirichlet=0.5, seed=seed) for seed in (1, 1, 2))
        self.assertEqual([part.tolist() for part in first], [part.tolist() for part in again])
        self.assertNotEqual([part.tolist() for part in first], [part.tolist() for part in other])

    def test_sizes_are_as_asked(self):
        parts = fed.data.partition(samples=100, clients=3, sizes=[1, 50, 20], seed=2)
        self.assertEqual([len(part) for part in parts], [1, 50, 20])
        self.assertEqual(len(np.unique(np.concatenate(parts))), 71)

    def test_groups_stay_whole(self):
        authors = np.array(["b", "a", "c", "a", "b", "b"])
        parts = fed.data.partition(groups=authors, clients=3, seed=1)
        self.assertEqual(sorted("".join(sorted(set(authors[part]))) for part in parts), ["a", "b", "c"])

    def test_refusals_say_why(self):
        labels = labels_of(20)
        for why, values in (("choose one of them", {"labels": labels, "clients": 2, "dirichlet": 1, "classes_per_client": 2}),
                            ("21 clients can't share 20 samples", {"labels": labels, "clients": 21}),
                            ("alpha is a number from", {"labels": labels, "clients": 2, "dirichlet": 0}),
                            ("k must be 1 to the data's", {"labels": labels, "clients": 2, "classes_per_client": 11}),
                            ("the data has no classes", {"samples": 20, "clients": 2, "dirichlet": 1}),
                            ("labels go from", {"labels": labels + 300, "clients": 2}),
                            ("whole numbers", {"labels": labels + 0.5, "clients": 2}),
                            ("samples=N", {"clients": 2}),
                            ("give one for each sample", {"labels": labels, "samples": 3, "clients": 2}),
                            ("the sum is 20 at most", {"samples": 20, "clients": 2, "sizes": [10, 11]}),
                            ("give one for each", {"samples": 20, "clients": 3, "sizes": [10, 1]}),
                            ("there are no clients", {"labels": labels, "clients": 0})):
            with self.assertRaisesRegex(fed.Error, why, msg=str(values)):
                fed.data.partition(**values)


def trained(x, labels, part, steps):
    """The weights and biases of a softmax regression after full-batch steps of rate 1 from zeros."""
    weight, bias = np.zeros((4, 3)), np.zeros(4)
    for _ in range(steps):
        scores = x[part] @ weight.T + bias
        wrong = np.exp(scores - scores.max(1, keepdims=True))
        wrong = wrong / wrong.sum(1, keepdims=True) - np.eye(4)[labels[part]]
        weight, bias = weight - wrong.T @ x[part] / len(part), bias - wrong.mean(0)
    return weight


class BesideFedsim(unittest.TestCase):
    CLIENTS, SAMPLES, STEPS = 6, 408, 8

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        random = np.random.default_rng(1)
        self.x = random.normal(size=(self.SAMPLES, 3)).round(3)
        self.labels = np.arange(self.SAMPLES) % 4
        self.x[:, 0] += self.labels
        for part in ("train", "test"):
            lines = [",".join(f"{value:.3f}" for value in row) + f",{one}" for row, one in zip(self.x, self.labels)]
            pathlib.Path(folder.name, f"{part}.csv").write_text("x,y,z,label\n" + "\n".join(lines) + "\n")
        _tensors.save({"dense1.weight": np.zeros((4, 3)), "dense1.bias": np.zeros(4)}, f"{folder.name}/zeros.safetensors")

    def mean_of(self, parts):
        return np.mean([trained(self.x, self.labels, part, self.STEPS) for part in parts], axis=0)

    def test_shards_are_those_of_fedsim(self):
        """Each client's steps take its whole shard, so the model says who had which samples."""
        for split, how in (("classes:k=2", {"classes_per_client": 2}), ("dirichlet:alpha=0.1", {"dirichlet": 0.1}), ("iid", {})):
            mine, other = (fed.data.partition(self.labels, clients=self.CLIENTS, seed=seed, **how) for seed in (9, 8))
            result = sim.run(data=self.folder, dataset="csv:label=label", model="input 3 | dense 4", clients=self.CLIENTS, rounds=1, seed=9,
                             split=split, batch=self.SAMPLES // self.CLIENTS, local_steps=self.STEPS, codec_up="float32",
                             codec_down="float32", learning_rate=1, initial=self.folder + "/zeros.safetensors", quiet=True,
                             out=f"{self.folder}/{split}")
            found = result.model()["dense1.weight"]
            self.assertLess(np.abs(found - self.mean_of(mine)).max(), 1e-5, split)
            self.assertGreater(np.abs(found - self.mean_of(other)).max(), 1e-3, split)


if __name__ == "__main__":
    unittest.main()
