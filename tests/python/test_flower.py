"""fed.flower: a Flower user's NumPyClient or ClientApp as a device. With the real package where it is installed."""
# SPDX-License-Identifier: Apache-2.0
import os
import unittest
import warnings

import fed
import fed.flower
import numpy as np
from coordinator import CoordinatorTest

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
try:
    with warnings.catch_warnings():  # flwr's own dependencies warn of each other
        warnings.simplefilter("ignore")
        import flwr.app
        import flwr.client
        import flwr.clientapp
        from flwr.server.strategy.aggregate import aggregate
except ImportError:
    flwr = None

DEEPER = np.array(3, np.int64)  # a counter, as batch normalization has


def first():
    return [np.zeros((4, 2), np.float32), np.zeros(2, np.float32), DEEPER]


def client(base, number):
    """Return a client that fits least squares to a device's own points. It is written for Flower alone, as in Flower's documents."""

    class Own(base):
        def __init__(self):
            random = np.random.default_rng(number)
            self.x = random.normal(size=(20 + 10 * number, 4)).astype(np.float32)
            self.y = self.x @ np.arange(8, dtype=np.float32).reshape(4, 2) + 1
            self.seen = []

        def fit(self, parameters, config):
            self.seen.append((config["server_round"], config["step"], [(one.shape, one.dtype) for one in parameters]))
            weight, bias, counter = parameters
            for _ in range(config["local_steps"]):
                off = self.x @ weight + bias - self.y
                weight = weight - config["learning_rate"] * self.x.T @ off / len(off)
                bias = bias - config["learning_rate"] * off.mean(axis=0)
            return [weight, bias, counter + 1], len(self.x), {"loss": float((off ** 2).mean())}

        def evaluate(self, parameters, config):
            return 0.5, 20, {"accuracy": 0.75}

    return Own()


class Flower(CoordinatorTest):
    def federate(self, base, average):
        fed.flower.save(first(), self.folder + "/first.safetensors")
        task = self.task(model=fed.flower.layout(first()), initial=self.folder + "/first.safetensors", rounds=5, cohort=2, minimum=2,
                         local_steps=4, learning_rate=0.1, app={"step": 7})
        clients = [client(base, number) for number in range(2)]

        self.run_devices(range(2), lambda number, ours: ours.run(fed.flower.trainer(clients[number], like=first())))
        self.coordinator.wait(task)
        self.assertEqual([(number, step) for number, step, _ in clients[0].seen], [(number, 7) for number in range(1, 6)])
        self.assertEqual(clients[0].seen[0][2], [((4, 2), np.float32), ((2,), np.float32), ((), np.int64)])
        model, others = first(), [client(base, number) for number in range(2)]
        for number in range(1, 6):
            config = {"server_round": number, "local_steps": 4, "learning_rate": np.float32(0.1), "step": 7}
            model = average([other.fit(model, config)[:2] for other in others])
        for ours, theirs in zip(self.coordinator.model(task).values(), model):
            np.testing.assert_allclose(ours.reshape(np.shape(theirs)), theirs, rtol=1e-5, atol=1e-6)
        self.assertEqual(model[2], 8)

    def test_any_object_with_fit_is_a_device(self):
        def average(results):
            total = sum(samples for _, samples in results)
            return [sum(arrays[k] * samples for arrays, samples in results) / total for k in range(3)]

        self.federate(object, average)

    @unittest.skipIf(flwr is None, "flwr is not installed")
    def test_a_numpyclient_ends_where_flowers_own_average_does(self):
        self.federate(flwr.client.NumPyClient, aggregate)

    @unittest.skipIf(flwr is None, "flwr is not installed")
    def test_a_clientapp_trains_and_evaluates(self):
        """The app is written as in Flower's templates: for a SuperNode, with messages."""
        app, seen = flwr.clientapp.ClientApp(), []

        @app.train()
        def train(message, context):
            config = message.content["config"]
            seen.append((config["server-round"], config["lr"], context.run_config["step"], context.node_config["partition-id"]))
            state = message.content["arrays"]
            weight, counter = state["weight"].numpy() + np.float32(config["lr"]), state["counter"].numpy() + 1
            self.assertEqual((weight.dtype, counter.dtype, counter.shape), (np.float32, np.int64, ()))
            arrays = flwr.app.ArrayRecord({"counter": flwr.app.Array(np.asarray(counter)), "weight": flwr.app.Array(weight)})
            metrics = flwr.app.MetricRecord({"train_loss": 0.25, "num-examples": 30, "f1": 0.5})
            return flwr.app.Message(flwr.app.RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

        @app.evaluate()
        def evaluate(message, context):
            metrics = flwr.app.MetricRecord({"eval_loss": 0.75, "eval_acc": 0.6, "num-examples": 20})
            return flwr.app.Message(flwr.app.RecordDict({"metrics": metrics}), reply_to=message)

        record = flwr.app.ArrayRecord({"weight": flwr.app.Array(np.zeros(3, np.float32)), "counter": flwr.app.Array(DEEPER)})
        self.assertEqual(fed.flower.layout(record), "tensors weight 3 | counter 1")
        fed.flower.save(record, self.folder + "/first.safetensors")
        task = self.task(model=fed.flower.layout(record), initial=self.folder + "/first.safetensors", rounds=3, cohort=1, learning_rate=0.5,
                         app={"step": 7})
        context = flwr.app.Context(run_id=1, node_id=2, node_config={"partition-id": 4}, state=flwr.app.RecordDict(), run_config={"step": 7})
        with self.client(0) as ours, self.client(1, "evaluator", evaluate=True) as judge:
            ours.run(fed.flower.trainer(app, like=record, context=context))
            while judge.step(fed.flower.trainer(app, like=record))["outcome"] != "evaluated":
                pass
        self.assertEqual(seen, [(number, 0.5, 7, 4) for number in range(1, 4)])
        model = self.coordinator.model(task)
        np.testing.assert_allclose(model["weight"], 1.5)
        self.assertEqual(model["counter"], DEEPER + 3)
        last = self.coordinator.rounds(task)[-1]
        self.assertEqual((last["loss"], last["accuracy"], last["test_loss"]), (0.25, 0.6, 0.75))

    @unittest.skipIf(flwr is None, "flwr is not installed")
    def test_a_clientapp_with_a_client_fn_trains(self):
        inner = client(flwr.client.NumPyClient, 0)
        app = flwr.clientapp.ClientApp(lambda context: inner.to_client())
        fed.flower.save(first(), self.folder + "/first.safetensors")
        task = self.task(model=fed.flower.layout(first()), initial=self.folder + "/first.safetensors", rounds=2, cohort=1, local_steps=4,
                         learning_rate=0.1, app={"step": 7})
        with self.client(0) as ours, self.client(1, "evaluator", evaluate=True) as judge:
            ours.run(fed.flower.trainer(app, like=first()))
            while judge.step(fed.flower.trainer(app, like=first()))["outcome"] != "evaluated":
                pass
        self.assertEqual([number for number, *_ in inner.seen], [1, 2])
        self.assertEqual(self.coordinator.model(task)["array2"], DEEPER + 2)
        self.assertEqual(self.coordinator.rounds(task)[-1]["accuracy"], 0.75)

    def losses(self, metrics):
        """Return the loss of a round whose client has these metrics."""
        class Reports:
            def fit(self, parameters, config):
                return parameters, 5, metrics

        task = self.task(rounds=1, cohort=1)
        with self.client() as ours:
            ours.run(fed.flower.trainer(Reports()))
        return self.coordinator.rounds(task)[-1]["loss"]

    def test_a_train_loss_is_the_loss(self):
        self.assertEqual(self.losses({"train_loss": 0.5, "other_loss": 3.0}), 0.5)

    def test_without_a_loss_there_is_no_figure(self):
        self.assertIsNone(self.losses({"accuracy": 0.5, "note": "text"}))

    def test_it_evaluates(self):
        task = self.task(model=fed.flower.layout(first()), rounds=1, cohort=1)
        with self.client(0) as ours, self.client(1, "evaluator", evaluate=True) as judge:
            ours.run(lambda params, told: (None, 1, {}))
            while judge.step(fed.flower.trainer(client(object, 0)))["outcome"] != "evaluated":
                pass
        self.assertEqual(self.coordinator.rounds(task)[-1]["accuracy"], 0.75)

    def test_another_number_of_arrays_is_refused(self):
        self.task(model="tensors one 3 | two 3", rounds=1, cohort=1)

        class Short:
            def fit(self, parameters, config):
                return parameters[:1], 5, {}

        with self.client() as ours, self.assertRaisesRegex(ValueError, "returned 1 arrays, the task has 2"):
            ours.run(fed.flower.trainer(Short()))


if __name__ == "__main__":
    unittest.main()
