"""fed.Client against a real coordinator, over TLS."""
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import os
import re
import threading
import time
import unittest

import fed
import numpy as np
from coordinator import MODEL, CoordinatorTest

# Some point of P-256, as a helper's key is one.
KEY = ("046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
       "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5")


class ClientTest(CoordinatorTest):
    def test_two_devices_train_what_a_plain_computation_gives(self):
        self.task(rounds=3, cohort=2, app={"step": 0.5})
        seen = []

        def device(number, client):
            def train(params, told):
                seen.append((told.number, told.app, told.learning_rate, told.model))
                self.assertEqual(params["layer.weight"].shape, (3, 4))
                params["layer.bias"] += number  # one tensor is changed in place, one is replaced
                return {"layer.weight": params["layer.weight"] + told.app["step"], "layer.bias": params["layer.bias"]}, 10, {"loss": number}

            client.run(train)

        self.run_devices((1, 3), device)
        self.assertEqual(sorted(number for number, *_ in seen), [1, 1, 2, 2, 3, 3])
        self.assertEqual(seen[0][1:], ({"step": 0.5}, np.float32(0.01), MODEL))
        model = self.coordinator.model()
        self.assertEqual(model["layer.weight"].shape, (3, 4))
        np.testing.assert_allclose(model["layer.weight"], 1.5, atol=1e-6)
        np.testing.assert_allclose(model["layer.bias"], 6, atol=1e-6)

    def test_private_layers_stay_with_their_devices(self):
        self.task(model="tensors body.w 3 | head.w 2 | head.b 1", rounds=3, cohort=2, private_layers="head")
        heads, new = {1: [], 3: []}, []

        def device(number, client):
            def train(params, told):
                self.assertEqual(told.private, ("head.w", "head.b"))
                new.append(told.own_is_new)
                if told.own_is_new:
                    np.testing.assert_array_equal(params["head.w"], 0)
                    params["head.w"][...] = 10 * number
                heads[number].append(float(params["head.w"][0]))
                params["body.w"] += 1
                params["head.w"] += number
                return None, 10, {}

            client.run(train)

        self.run_devices((1, 3), device)
        self.assertEqual(heads, {1: [10, 11, 12], 3: [30, 33, 36]})
        self.assertEqual(sum(new), 2)
        model = self.coordinator.model()
        self.assertEqual(list(model), ["body.w"])
        np.testing.assert_allclose(model["body.w"], 3, atol=1e-6)

    def test_devices_send_less_than_a_bit_a_value(self):
        model = "tensors w 64x128"
        self.task(model=model, rounds=4, cohort=2, codec_up="eden:p=0.008", small_tensor=0,
                  phases=[{"round": 3, "codec_up": "eden:p=0.008,scale=tensor"}])

        def device(number, client):
            client.run(lambda params, told: ({"w": params["w"] + 0.1 * number}, 10, {}))

        self.run_devices((1, 3), device)
        w = self.coordinator.model()["w"]
        self.assertAlmostEqual(float(w.mean()), 0.8, delta=0.08)  # a round adds 0.2 in the mean; one value is far off
        self.assertGreater(float(w.std()), 0.1)
        self.assertLess(self.coordinator.status()["rounds"][0]["update_bytes"], 600)

    def test_two_tasks_take_turns_in_two_slots(self):
        for _ in range(2):
            self.task(rounds=3, cohort=1)
        seen = []

        def train(params, told):
            seen.append((told.task, told.slot))
            return None, 1, {}

        with self.client(slots=2) as client:
            client.run(train)
        self.assertEqual(len(seen), 6)
        self.assertEqual(sorted(set(seen)), sorted(set(seen[:2])))  # each task keeps its slot
        self.assertEqual({slot for _, slot in seen}, {0, 1})
        self.assertTrue(all(a != b for a, b in zip(seen, seen[1:])))

    def test_a_device_that_comes_late_and_an_evaluator_end_too(self):
        self.task(rounds=1, cohort=1)
        with self.client() as client:
            client.run(lambda params, told: (None, 1, {}))
        for evaluate in (False, True):
            done = []
            with self.client(1 + evaluate, "evaluator" if evaluate else "device", evaluate=evaluate) as client:
                client.run(lambda params, told: (None, 1, {"loss": 1, "correct": 1}), done.append)
            self.assertEqual([event["over"] for event in done], [False] * (len(done) - 1) + [True])
            self.assertEqual(done[-1]["outcome"], "waited")
            self.assertEqual("evaluated" in [event["outcome"] for event in done], evaluate)

    def test_memory_of_kept_arrays_stays(self):
        self.task(rounds=2, cohort=1, model="input 1024 | dense 1024")  # so large that free() gives the memory back to the system
        kept = []

        def train(params, told):
            kept.extend(params.values())
            return None, 1, {}

        with self.client() as client:
            client.run(train)
        self.assertTrue(all(np.isfinite(array).all() for array in kept))

    def test_a_killed_coordinator_is_waited_for(self):
        self.task(rounds=2, cohort=1)
        outcomes = []

        def train(params, told):
            if told.number == 1 and not outcomes:
                self.coordinator.kill()
                self.coordinator.start()
            return None, 1, {}

        with self.client() as client:
            client.run(train, lambda event: outcomes.append(event["outcome"]))
        self.assertEqual(outcomes.count("counted"), 2)

    def test_a_new_device_waits_for_its_coordinator_and_tells(self):
        token, url = self.coordinator.token(), self.coordinator.url
        self.coordinator.kill()
        with self.assertLogs("fed", "WARNING") as heard:
            def start():  # once the client has failed to reach the coordinator
                for _ in range(3000):
                    if not heard.records:
                        time.sleep(0.01)
                self.coordinator.start()

            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                started = pool.submit(start)
                fed.Client(url, self.coordinator.ca, self.folder + "/new", token).close()
                started.result()
        self.assertIn("this device tries again in 0.5 s to enrol", heard.output[0])

    def test_what_the_callback_raises_comes_out(self):
        self.task(rounds=1, cohort=1)
        with self.client() as client:
            with self.assertRaisesRegex(ZeroDivisionError, "by zero"):
                client.run(lambda params, told: 1 / 0)
            with self.assertRaisesRegex(ValueError, "missing or unknown: layer.bias"):
                client.run(lambda params, told: ({"layer.weight": params["layer.weight"]}, 1, {}))
            with self.assertRaisesRegex(ValueError, r"the shape \(5,\), the model has \(3, 4\)"):
                client.run(lambda params, told: (dict(params, **{"layer.weight": np.zeros(5)}), 1, {}))
            done = []
            client.run(lambda params, told: (None, 1, {}), done.append)
        self.assertIn("counted", [event["outcome"] for event in done])

    def test_other_metrics_go_to_the_coordinator(self):
        self.task(rounds=1, cohort=1)
        with self.client() as client:
            with self.assertRaisesRegex(fed.Error, "a name has 1 to"):
                client.run(lambda params, told: (None, 7, {"f 1": 0.5}))
            client.run(lambda params, told: (None, 7, {"loss": 2, "f1": np.float32(0.75), "val/auc": 1}))
        round_ = self.coordinator.status()["rounds"][0]
        self.assertEqual(round_["loss"], 2)
        self.assertEqual([(m["name"], m["by"], m["mean"], m["samples"]) for m in round_["metrics"]],
                         [("f1", "devices", 0.75, 7), ("val/auc", "devices", 1, 7)])

    def test_a_metric_that_is_no_finite_number_is_left_out(self):
        self.task(rounds=2, cohort=1)
        left_out = {"nan": float("nan"), "none": None, "inf": -np.inf}
        outcomes = []
        with self.client() as client, self.assertLogs("fed", "WARNING") as log:
            client.run(lambda params, told: (None, 7, {"loss": 2, "f1": 0.75, **left_out}), lambda event: outcomes.append(event["outcome"]))
        self.assertEqual(outcomes.count("counted"), 2)
        self.assertEqual([m["name"] for m in self.coordinator.status()["rounds"][0]["metrics"]], ["f1"])
        self.assertEqual([line for line in log.output if "left out" not in line], [])
        self.assertEqual(len(log.output), len(left_out))

    def test_a_device_without_a_loss_is_left_out_of_the_mean(self):
        self.task(rounds=3, cohort=1)
        told, events = [{}, {"loss": None}, {"loss": 0.5}], []
        with self.client() as client:
            client.run(lambda params, round_: (None, 7, told[round_.number - 1]), events.append)
        self.assertEqual([event["loss"] for event in events if event["outcome"] == "counted"], [None, None, 0.5])
        self.assertEqual([round_["loss"] for round_ in self.coordinator.status()["rounds"]], [0.5, None, None])

    def test_a_loss_that_is_no_number_is_a_fault_of_the_training(self):
        self.task(rounds=1, cohort=1)
        with self.client() as client:
            event = client.step(lambda params, told: (None, 7, {"loss": float("nan")}))
        self.assertEqual(event["outcome"], "retry")
        self.assertIn("left a loss of nan", event["reason"])

    def test_samples_are_whole_numbers(self):
        self.task(rounds=3, cohort=1)
        right, events = [np.int64(7), 8.0, 2 ** 32 - 1], []
        with self.client() as client:
            for wrong in (0, -1, 2 ** 32, 1.5, float("nan"), None, "7"):
                with self.assertRaisesRegex(ValueError, "samples is .* must be a whole number from 1 to 4294967295"):
                    client.run(lambda params, told: (None, wrong, {}))
            client.run(lambda params, round_: (None, right[round_.number - 1], {}), events.append)
        self.assertEqual([event["samples"] for event in events if event["outcome"] == "counted"], [7, 8, 2 ** 32 - 1])

    def test_an_evaluator_without_an_accuracy_shows_none(self):
        task = self.task(rounds=3, cohort=1)
        told = [{"loss": 2}, {"loss": 2, "correct": None}, {"correct": 3}, {"correct": 0}]
        with self.client() as client, self.client(1, "evaluator", evaluate=True) as judge:
            for version, metrics in enumerate(told):
                while judge.step(lambda params, round_: (None, 4, metrics))["version"] != version:
                    pass
                while version < 3 and client.step(lambda params, round_: (None, 1, {}))["outcome"] != "counted":
                    pass
        self.assertEqual([round_["accuracy"] for round_ in self.coordinator.rounds(task)], [None, 0.75, 0])
        self.assertEqual([round_["test_loss"] for round_ in self.coordinator.rounds(task)], [2, None, None])
        self.assertEqual([round_["accuracy"] for round_ in self.coordinator.status()["rounds"]], [0, 0.75, None])

    def test_an_evaluators_correct_is_at_most_its_samples(self):
        self.task(rounds=1, cohort=1)
        with self.client(role="evaluator", evaluate=True) as judge:
            with self.assertRaisesRegex(ValueError, '"correct" is 8, and must be a whole number from 0 to 7'):
                judge.step(lambda params, told: (None, 7, {"loss": 1, "correct": 8}))

    def test_metrics_after_the_sixteenth_are_left_out(self):
        self.task(rounds=2, cohort=1)
        metrics = {f"m{k:02}": k for k in range(20)}
        with self.client() as client, self.assertLogs("fed", "WARNING") as log:
            client.run(lambda params, told: (None, 7, {"loss": 2, "nan": float("nan"), **metrics}))
        self.assertEqual([m["name"] for m in self.coordinator.status()["rounds"][0]["metrics"]], sorted(metrics)[:16])
        self.assertEqual([line for line in log.output if "'m16' and those after it are left out" not in line and "'nan' is nan" not in line], [])
        self.assertEqual(len(log.output), 2)

    def test_a_loss_that_is_no_number_is_declined_in_the_end(self):
        self.task(rounds=1, cohort=1)
        for loss in (float("inf"), 1e300):
            outcomes = []
            with self.client(int(loss == 1e300)) as client:
                while "declined" not in outcomes:
                    outcomes.append(client.step(lambda params, told: (None, 7, {"loss": loss}))["outcome"])
            self.assertEqual([one for one in outcomes if one != "waited"], ["retry"] * 3 + ["declined"])
        self.assertNotIn(None, [device["declined_until_ms"] for device in self.coordinator.devices()])

    def test_updates_that_are_out_of_range_end(self):
        self.task(rounds=1, cohort=1, model="tensors w 64x128", codec_up="eden:p=0.008", small_tensor=0)
        events = []

        def told(event):
            events.append(event["outcome"])
            if event["outcome"] == "waited":
                client.stop()

        def train(params, round_):
            params["w"][:] = 1e4 * np.random.default_rng(1).standard_normal((64, 128))
            return None, 7, {}

        with self.client() as client:
            client.run(train, told)
        self.assertEqual(events, ["refused"] * 3 + ["waited"])
        device, = self.coordinator.devices()
        self.assertIsNotNone(device["declined_until_ms"])

    def test_the_deadline_is_told(self):
        self.task(rounds=1, cohort=1, deadline_s=60)
        left = []

        def train(params, told):
            left.append(told.left_ms)
            return None, 1, {"correct": 1}

        with self.client() as client:
            client.run(train)
        with self.client(1, "evaluator", evaluate=True) as judge:
            judge.step(train)
        self.assertTrue(0 < left[0] <= 60000, left)
        self.assertIsNone(left[1])

    def test_the_logger_tells_what_happens_once(self):
        self.task(rounds=1, cohort=1)
        answers, outcomes = ["it is not charging", "it is not charging", True], []

        def told(event):
            outcomes.append(event["outcome"])
            if outcomes.count("retry") == 3:
                self.coordinator.start()

        with self.assertLogs("fed", "INFO") as log, self.client(eligible=lambda: answers.pop(0) if len(answers) > 1 else True) as client:
            for _ in range(2):
                client.step(lambda params, told: (None, 1, {}))
            self.coordinator.kill()
            client.run(lambda params, told: (None, 1, {"loss": 0.5}), told)
        lines = [line for line in log.output if "trying again in" in line]
        self.assertEqual(len(lines), 1, log.output)
        self.assertIn("WARNING:fed:", lines[0])
        self.assertIn("INFO:fed:round 1: update counted, training loss 0.5000", log.output)

    def test_a_task_is_declined_with_the_reason(self):
        self.task(rounds=1, cohort=1)

        def train(params, told):
            raise fed.Decline("this device has no data")

        with self.client() as client:
            for _ in range(100):
                done = client.step(train)
                if done["outcome"] == "declined":
                    break
            self.assertIn("this device has no data", done["reason"])

    def test_a_private_device_trains_with_its_helper_only(self):
        helper = f"{self.folder}/helper.pem"
        with open(helper, "w") as file:
            file.write(KEY + "\n")
        private = {"rounds": 1, "cohort": 3, "goal": 3, "codec_up": "ring:b=5", "clip": 1, "helper": helper}
        with self.assertRaisesRegex(fed.Error, "has no helper's key"):
            self.client(helper=self.coordinator.ca)
        self.task(rounds=1, cohort=1)
        self.task(**private, minimum=2)
        trained, seen = [], []

        def train(params, told):
            trained.append(told.task)
            return params, 1, {}

        with self.client(1, helper=helper, least_devices=3) as client:
            for _ in range(20):
                seen.append(client.step(train))
                if seen[-1]["over"] or [one["outcome"] for one in seen].count("declined") == 2:
                    break
        said = " ".join(one["reason"] for one in seen if one["outcome"] == "declined")
        self.assertIn("no helper opens its sums", said)
        self.assertIn("its rounds commit with 2 devices", said)
        self.assertEqual(trained, [])
        wanted = int(self.task(**private, minimum=3))
        with self.client(2, helper=helper, least_devices=3) as client:
            for _ in range(20):
                if client.step(train)["outcome"] == "counted":
                    break
        self.assertEqual(trained, [wanted])

    def test_a_larger_epsilon_than_the_devices_own_is_declined(self):
        for wrong in (0, -1, float("nan"), float("inf")):
            with self.assertRaisesRegex(ValueError, "most_epsilon is .* above 0"):
                self.client(most_epsilon=wrong)
        self.task(rounds=1, cohort=1)
        self.task(rounds=1, cohort=3, goal=3, codec_up="ring:b=5", clip=1, epsilon=5, delta=1e-5, participations=1)
        seen = []
        with self.assertLogs("fed", "WARNING") as log, self.client(1, most_epsilon=4.5) as client:
            for _ in range(20):
                seen.append(client.step(lambda params, told: self.fail("it has trained")))
                if [one["outcome"] for one in seen].count("declined") == 2:
                    break
        said = " ".join(one["reason"] for one in seen if one["outcome"] == "declined")
        for text in (said, " ".join(log.output)):
            self.assertIn("its promise is epsilon 5; this device wants 4.5 at most", text)
            self.assertIn("it promises no epsilon (0); this device wants 4.5 at most", text)
        with self.client(2, most_epsilon=5) as client:
            for _ in range(20):
                done = client.step(lambda params, told: (params, 1, {}))
                if done["outcome"] == "counted":
                    break
        self.assertEqual(done["outcome"], "counted")

    def test_a_device_for_private_tasks_only_needs_a_helper_and_twenty_devices(self):
        helper = f"{self.folder}/helper.pem"
        with open(helper, "w") as file:
            file.write(KEY + "\n")
        with self.assertRaisesRegex(fed.Error, "get helper.pem from the helper's party"):
            self.client(private=True)
        self.task(rounds=1, cohort=3, goal=3, minimum=3, codec_up="ring:b=5", clip=1, helper=helper)
        with self.client(1, helper=helper, private=True) as client:
            for _ in range(20):
                done = client.step(lambda params, told: self.fail("it has trained"))
                if done["outcome"] == "declined":
                    break
        self.assertIn("its rounds commit with 3 devices; this device wants 20 at least", done["reason"])

    def test_it_stops_from_another_thread(self):
        with self.client() as client:  # there is no task to train
            threading.Timer(0.3, client.stop).start()
            client.run(lambda params, told: (None, 1, {}))

    def test_it_pauses_while_the_program_says_so(self):
        self.task(rounds=1, cohort=1)
        with self.client(eligible=lambda: "it is not charging") as client:
            done = client.step(lambda params, told: (None, 1, {}))
        self.assertEqual(done["outcome"], "paused")
        self.assertIn("it is not charging", done["reason"])

    def test_errors_are_sentences(self):
        with self.assertRaisesRegex(fed.Error, "token"):
            fed.Client(self.coordinator.url, self.coordinator.ca, self.folder + "/x", "wrong")
        with self.assertRaisesRegex(fed.Error, "nosuch.pem"):
            fed.Client("https://127.0.0.1:1", self.folder + "/nosuch.pem", self.folder + "/x", "wrong")
        with self.client() as client:
            with self.assertRaisesRegex(fed.Error, "device0"):
                self.client()  # the first client uses this folder
        with self.assertRaisesRegex(RuntimeError, "closed"):
            client.step(lambda params, told: (None, 1, {}))

    def test_a_round_that_is_over_can_not_be_used(self):
        self.task(rounds=1, cohort=1)
        kept, heard = [], []

        def train(params, told):
            told.progress(1, 2)
            told.wanted()
            kept.append(told)
            return None, 1, {}

        with self.client(progress=lambda *words: heard.append(words)) as client:
            client.run(train)
        with self.assertRaisesRegex(RuntimeError, "over"):
            kept[0].wanted()
        self.assertEqual(heard, [(kept[0], 1, 2)])

    def test_numbers_are_those_of_the_headers(self):
        root = os.environ["FED_ROOT"]
        with open(root + "/common/include/fed/status.h", encoding="utf-8") as file:
            statuses = dict(re.findall(r"FED_(E\w+) = (\d+)", file.read()))
        for name in ("ERANGE", "EBUSY", "ECANCELED", "EDECLINED"):
            self.assertEqual(getattr(fed._native, name), int(statuses[name]))
        with open(root + "/fedclient/include/fedclient/fedclient.h", encoding="utf-8") as file:
            outcomes = re.findall(r"FEDCLIENT_(\w+) = (\d+)", file.read())
        self.assertEqual([name.lower() for name, _ in outcomes], list(fed.client.OUTCOMES))
        self.assertEqual([int(number) for _, number in outcomes], list(range(len(outcomes))))


if __name__ == "__main__":
    unittest.main()
