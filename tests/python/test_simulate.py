"""fed.simulate: clients that Python trains, on the real fedsim. Those of modules are skipped without PyTorch."""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import fed
import numpy as np
from fed import _tensors

try:
    import torch
except ImportError:
    torch = None

SLOW = """
import os, sys, time
import fed, numpy as np

def train(model, round, shard):
    open(os.path.join(sys.argv[1], f"pid-{os.getpid()}"), "w").close()
    time.sleep(60)

fed.simulate({"w": np.zeros(4)}, [np.ones((2, 4))] * 4, rounds=3, processes=2, train=train, out=sys.argv[1] + "/out")
"""


def points(count, seed=1):
    """Samples of a linear function, with noise."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, 4)).astype(np.float32)
    return x, (x @ np.array([1, -2, 3, 0.5]) + 0.1 * random.normal(size=count)).astype(np.float32)


def fit(model, round, shard):
    """Steps of linear regression on random samples of a shard."""
    x, y = shard
    random = np.random.default_rng(round.seed)
    loss = 0.0
    for _ in range(round.local_steps):
        pick = random.integers(0, len(x), round.batch)
        wrong = x[pick] @ model["w"] + model["b"] - y[pick]
        model["w"] -= round.learning_rate * x[pick].T @ wrong / round.batch
        model["b"] -= round.learning_rate * wrong.mean()
        loss += float((wrong**2).mean()) / round.local_steps
    return {"loss": loss}


def error(model, round):
    x, y = points(100, seed=2)
    return {"loss": float(((x @ model["w"] + model["b"] - y) ** 2).mean()), "norm": float(np.abs(model["w"]).sum())}


class SimulateTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.runs = 0
        x, y = points(400)
        self.shards = [(x[part], y[part]) for part in fed.data.partition(samples=400, clients=20)]

    def simulate(self, model=None, shards=None, **values):
        self.runs += 1
        given = {"rounds": 4, "learning_rate": 0.1, "batch": 4, "local_steps": 5, "codec_up": "sbc:p=0.5", "crowd": self.folder + "/crowd",
                 "processes": 2, "quiet": True, "out": f"{self.folder}/out{self.runs}", **values}
        return fed.simulate({"w": np.zeros(4), "b": np.zeros(1)} if model is None else model, self.shards if shards is None else shards, **given)


class Functions(SimulateTest):
    """Clients whose trainer is a function of NumPy arrays."""

    def test_a_run_learns_and_leaves_fedsims_files(self):
        def busy(model, round, shard):
            until = time.thread_time() + 0.02  # more than fedsim itself takes for a client
            while time.thread_time() < until:
                pass
            return fit(model, round, shard)

        result = self.simulate(train=busy, evaluate=error, rounds=8)
        self.assertTrue(result.summary["finished"])
        rows = result._rows("rounds.csv")
        self.assertEqual([row["counted"] for row in rows], [20] * 8)
        self.assertLess(rows[-1]["test_loss"], 0.1 * rows[0]["train_loss"])
        self.assertGreater(rows[-1]["up_bytes"], 0)
        self.assertIsNone(rows[-1]["accuracy"])
        np.testing.assert_allclose(result.model()["w"], [1, -2, 3, 0.5], atol=0.3)
        evaluations = result._rows("evaluations.csv")
        self.assertEqual(evaluations[-1]["version"], 8)
        self.assertAlmostEqual(evaluations[-1]["norm"], np.abs(result.model()["w"]).sum(), places=5)
        self.assertEqual([row["samples"] for row in result._rows("clients.csv")], [20] * 20)
        self.assertGreater(result.summary["total_cpu_s"], result.summary["train_cpu_s"] + result.summary["evaluate_cpu_s"])
        self.assertIn("<svg", pathlib.Path(result.folder, "report.html").read_text())

    def test_the_number_of_processes_changes_no_bit(self):
        runs = [self.simulate(train=fit, evaluate=error, processes=count, seed=seed, cohort=10, goal=8, offline=0.2, codec_up="qsgd:bits=4",
                              line="3g", speed="sample_s=0.01,spread=0.5")
                for count, seed in ((1, 1), (3, 1), (2, 2))]
        files = [[pathlib.Path(one.folder, "model.safetensors").read_bytes(), one._rows("evaluations.csv"),
                  [{name: value for name, value in row.items() if name != "wall_s"} for row in one._rows("rounds.csv")]] for one in runs]
        self.assertEqual(files[0], files[1])
        self.assertNotEqual(files[0][0], files[2][0])

    def test_without_evaluate_nothing_is_measured(self):
        result = self.simulate(train=fit)
        self.assertEqual([row["test_loss"] for row in result._rows("rounds.csv")], [None] * 4)
        with self.assertRaisesRegex(fed.Error, "where `evaluate` is given"):
            result.evaluations()

    def test_each_client_has_private_layers_of_its_own(self):
        """They begin as in the model that is given, and come back as the client left them."""
        folder = pathlib.Path(self.folder, "heads")
        folder.mkdir()

        def train(model, round, shard):
            with open(folder / str(round.client), "a", encoding="utf-8") as file:
                file.write(f"{model['head.w'][0]:g} ")
            model["body.w"] += 1
            model["head.w"] += round.client + 1
            return {"loss": 1.0}

        model = {"body.w": np.zeros(3, np.float32), "head.w": np.full(2, 5, np.float32)}
        shards = [np.ones((2, 2))] * 3
        result = self.simulate(model, shards, rounds=3, cohort=3, codec_up="float32", private_layers="head", train=train)
        for client in range(3):
            wanted = " ".join(f"{5 + k * (client + 1)}" for k in range(3)) + " "
            self.assertEqual((folder / str(client)).read_text(encoding="utf-8"), wanted)
        self.assertEqual(list(result.model()), ["body.w"])
        np.testing.assert_allclose(result.model()["body.w"], 3)
        with self.assertRaisesRegex(fed.Error, "private_layers has no model that evaluate= could measure"):
            self.simulate(model, shards, private_layers="head", train=train, evaluate=error)

    def test_accuracy_as_a_fraction(self):
        result = self.simulate(train=fit, evaluate=lambda model, round: {"accuracy": 0.25 * round.version})
        self.assertEqual([row["accuracy"] for row in result._rows("rounds.csv")], [0.25, 0.5, 0.75, 1])

    def test_a_function_that_raises(self):
        def broken(model, round, shard):
            if round.client == 7:
                raise ValueError("no such sample")
            return fit(model, round, shard)

        with self.assertRaisesRegex(fed.Error, r"(?s)client 7 failed in round 1:.*in broken.*ValueError: no such sample") as caught:
            self.simulate(train=broken)
        self.assertIsInstance(caught.exception.__cause__, ValueError)
        with self.assertRaisesRegex(fed.Error, r"(?s)the evaluation of version \d+ failed:.*ZeroDivisionError"):
            self.simulate(train=fit, evaluate=lambda model, round: 1 / 0)

    def test_a_worker_that_dies(self):
        def deadly(model, round, shard):
            if round.client == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return fit(model, round, shard)

        with self.assertRaisesRegex(fed.Error, r"the process that trained client 3 has ended.*worker process \d of 2 was killed by signal 9"):
            self.simulate(train=deadly)

    def test_samples_must_be_there(self):
        with self.assertRaisesRegex(fed.Error, "shard 1 has no samples"):
            self.simulate(train=fit, shards=[self.shards[0], (np.zeros((0, 4)), np.zeros(0))])
        with self.assertRaisesRegex(fed.Error, r"(?s)client \d+ failed in round 1:.*no samples"):
            self.simulate(train=lambda model, round, shard: {"samples": 0})
        with self.assertRaisesRegex(fed.Error, "there are no shards"):
            self.simulate(train=fit, shards=[])

    def test_refusals(self):
        for why, values in (("clients", {"clients": 3}), ("one run", {"codec_up": ["float32", "sbc:p=0.1"]}), ("one run", {"seed": 1, "cohort": "2 | 3"}),
                            ("there in a round", {"goal": 21, "cohort": 21}), ("nosuchkey", {"nosuchkey": 1}), ("it must be 1 or more", {"processes": 0})):
            with self.assertRaisesRegex(fed.Error, why):
                self.simulate(train=fit, **values)
        with self.assertRaisesRegex(fed.Error, "`train` must say how"):
            self.simulate()
        with self.assertRaisesRegex(fed.Error, "must be a function"):
            self.simulate(train=fit, evaluate=self.shards[0])

    def test_results_are_not_overwritten(self):
        self.simulate(train=fit, out=self.folder + "/same")
        with self.assertRaisesRegex(fed.Error, "there are results already"):
            self.simulate({"other": np.zeros(3)}, train=fit, out=self.folder + "/same")
        self.assertEqual(list(_tensors.load(self.folder + "/same/initial.safetensors")), ["w", "b"])

    def test_spawned_workers_do_the_same(self):
        forked, spawned = (self.simulate(train=fit, evaluate=error, start=start) for start in ("fork", "spawn"))
        self.assertEqual(forked.model()["w"].tobytes(), spawned.model()["w"].tobytes())

    def test_a_large_model_and_another_after_it(self):
        def big(model, round, shard):
            model["w"] += 1
            return {"loss": 0.0}

        result = self.simulate({"w": np.zeros((300, 1000)), "s": np.float32(2)}, train=big, codec_up="float32", codec_down="float32", rounds=2)
        self.assertEqual({name: float(one.mean()) for name, one in result.model().items()}, {"w": 2.0, "s": 2.0})


class Strategies(SimulateTest):
    """A strategy that is a Python function."""

    def test_it_gets_every_update_and_decides(self):
        shapes = []

        def mean(updates):
            shapes.append(updates.shape)
            return updates.mean(axis=0)

        own = self.simulate(train=fit, strategy=mean, rounds=3, codec_up="float32")
        self.assertEqual(shapes, [(20, 5)] * 3)
        built_in = self.simulate(train=fit, rounds=3, codec_up="float32")
        np.testing.assert_allclose(own.model()["w"], built_in.model()["w"], rtol=1e-5)
        nothing = self.simulate(train=fit, strategy=lambda updates: np.zeros(5), rounds=2)
        self.assertEqual(nothing.model()["w"].tolist(), [0] * 4)

    def test_order_does_not_depend_on_the_processes(self):
        first = [self.simulate(train=fit, strategy=lambda updates: updates[3] - updates[1] / 2, processes=count) for count in (1, 3)]
        self.assertEqual(first[0].model()["w"].tobytes(), first[1].model()["w"].tobytes())

    def test_failures_say_why(self):
        with self.assertRaisesRegex(fed.Error, r"(?s)the strategy failed:.*ZeroDivisionError") as caught:
            self.simulate(train=fit, strategy=lambda updates: 1 / 0)
        self.assertIsInstance(caught.exception.__cause__, ZeroDivisionError)
        for wrong, why in (((lambda updates: updates), r"shape \(20, 5\), not \(5,\)"), ((lambda updates: updates[0] * np.nan), "not finite")):
            with self.assertRaisesRegex(fed.Error, why):
                self.simulate(train=fit, strategy=wrong)


class Endings(unittest.TestCase):
    """All processes end with the one that called simulate()."""

    def start(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        caller = subprocess.Popen([sys.executable, "-c", SLOW, folder.name], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  env=dict(os.environ, XDG_CACHE_HOME=folder.name))
        self.addCleanup(caller.stderr.close)
        for _ in range(600):
            pids = [int(path.name[4:]) for path in pathlib.Path(folder.name).glob("pid-*")]
            if len(pids) == 2:
                return caller, pids
            time.sleep(0.1)
        self.fail(f"no worker has begun to train: {caller.poll()}")

    def gone(self, pids):
        """Wait until none of these processes is there. In a minute they would have trained on."""
        for _ in range(300):
            left = [pid for pid in pids if self.is_alive(pid)]
            if not left:
                return
            time.sleep(0.1)
        self.fail(f"these processes live on: {left}")

    def is_alive(self, pid):
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        return state.rsplit(")", 1)[1].split()[0] != "Z"

    def test_ctrl_c(self):
        caller, pids = self.start()
        caller.send_signal(signal.SIGINT)
        self.assertIn(b"KeyboardInterrupt", caller.communicate(timeout=30)[1])
        self.gone(pids)

    def test_a_killed_caller(self):
        caller, pids = self.start()
        caller.kill()
        caller.wait()
        self.gone(pids)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Modules(SimulateTest):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(4)
        self.labels = random.integers(0, 3, 600)
        self.x = (random.normal(size=(600, 5)) + 2 * np.eye(3, 5)[self.labels]).astype(np.float32)
        parts = fed.data.partition(self.labels, clients=10, dirichlet=0.3)
        self.shards = [(self.x[part], self.labels[part]) for part in parts]

    @staticmethod
    def net():
        return torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 3))

    def test_a_module_learns_whatever_the_processes_are(self):
        before = torch.get_rng_state()
        runs = [self.simulate(self.net, rounds=8, evaluate=(self.x, self.labels), processes=count, batch=16, local_steps=10) for count in (1, 2)]
        self.assertTrue(torch.equal(before, torch.get_rng_state()))
        self.assertGreater(runs[0].summary["test_accuracy"], 0.8)
        one, two = (run.model() for run in runs)
        self.assertEqual({name: array.tobytes() for name, array in one.items()}, {name: array.tobytes() for name, array in two.items()})
        fed.torch.load(self.net(), one)

    def test_datasets_loaders_and_functions_are_shards(self):
        sets = [torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y)) for x, y in self.shards]
        as_sets = self.simulate(self.net, sets, evaluate=sets[0])
        self.assertEqual(as_sets.model().keys(), self.simulate(self.net, evaluate=self.shards[0]).model().keys())
        loaders = [torch.utils.data.DataLoader(one, batch_size=8, shuffle=True) for one in sets]
        result = self.simulate(self.net, loaders, evaluate=loaders[0])
        self.assertEqual([row["samples"] for row in result._rows("clients.csv")], [len(one) for one in sets])
        functions = [lambda round, k=k: self.shards[k] for k in range(10)]
        self.assertEqual(self.simulate(self.net, functions).model()["0.weight"].tobytes(), self.simulate(self.net).model()["0.weight"].tobytes())

    def test_a_trainer_of_ones_own(self):
        def train(module, round, shard):
            with torch.no_grad():
                module[0].bias += len(shard[0]) / len(shard[0])
            return {"loss": 1.5}

        result = self.simulate(self.net, train=train, evaluate=lambda module, round: {"loss": float(module[0].bias.mean())},
                               codec_up="float32", codec_down="float32", rounds=2)
        first = self.first_bias()
        np.testing.assert_allclose(result.model()["0.bias"], first + 2, rtol=1e-5)
        self.assertEqual([row["train_loss"] for row in result._rows("rounds.csv")], [1.5, 1.5])

    def first_bias(self):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            return self.net()[0].bias.detach().numpy()

    def test_what_does_not_travel_does_not_pass_from_client_to_client(self):
        class Counting(torch.nn.Linear):
            def __init__(self):
                super().__init__(5, 3)
                self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

            def forward(self, x):
                self.steps += 1
                return super().forward(x) * self.steps

        one, two = (self.simulate(Counting, processes=count, learning_rate=0.01, codec_up="float32").model()["weight"] for count in (1, 2))
        self.assertEqual(one.tobytes(), two.tobytes())

    def test_a_module_that_raises(self):
        class Broken(torch.nn.Linear):
            def forward(self, x):
                raise RuntimeError("no forward")

        with self.assertRaisesRegex(fed.Error, r"(?s)client \d+ failed in round 1:.*no forward"):
            self.simulate(lambda: Broken(5, 3))
        with self.assertRaisesRegex(fed.Error, "give a function that returns it"):
            self.simulate(self.net())
        with self.assertRaisesRegex(fed.Error, "it must return a PyTorch module"):
            self.simulate(lambda: 3)


if __name__ == "__main__":
    unittest.main()
