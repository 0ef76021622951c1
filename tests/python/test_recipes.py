"""The recipes of fedclient/python/examples/recipes, each run as a reader runs it. Those whose packages are missing are skipped."""
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import left

FOLDER = pathlib.Path(os.environ["FED_ROOT"], "fedclient", "python", "examples", "recipes")


class Recipes(unittest.TestCase):
    def recipe(self, name, packages, *arguments):
        """Return what the recipe prints."""
        missing = [one for one in packages if importlib.util.find_spec(one) is None]
        if missing:
            self.skipTest(f"not installed: {', '.join(missing)}")
        with tempfile.TemporaryDirectory() as own:
            try:
                done = subprocess.run([sys.executable, "-B", FOLDER / name, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      timeout=200, check=False, env=dict(os.environ, OMP_NUM_THREADS="1", TMPDIR=own))
            finally:
                left.end(own)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:])
        return done.stdout

    def test_a_recipe_that_is_killed_leaves_no_coordinator(self):
        program = ("import sys, tempfile, time, fed; folder = tempfile.mkdtemp(); coordinator = fed.Coordinator(folder + '/coordinator').start();"
                   "print(coordinator._process.pid, flush=True); time.sleep(1000)")
        with tempfile.TemporaryDirectory() as own:
            with subprocess.Popen([sys.executable, "-B", "-c", program], stdout=subprocess.PIPE, text=True, env=dict(os.environ, TMPDIR=own)) as recipe:
                serves = int(recipe.stdout.readline())
                recipe.kill()
            found = left.processes(own)
            left.end(own)
            self.assertIn(serves, found)
            self.assertEqual(left.processes(own), [])

    def test_lora_trainer(self):
        said = self.recipe("lora_trainer.py", ["torch", "transformers", "peft", "accelerate"])
        self.assertIn("12,288 of 629,120 values travel", said)
        first, last, size = re.search(r"loss ([\d.]+) in round 1, ([\d.]+) in round 4; an update took ([\d,]+) bytes", said).groups()
        self.assertLess(float(last), float(first) - 0.05)
        self.assertLess(int(size.replace(",", "")), 4 * 12288 + 1000)

    def test_peft_names_are_those_of_its_files(self):
        """A task's exported model is an adapter_model.safetensors."""
        program = ("import sys, torch, peft, lora_trainer, fed.torch; model = lora_trainer.model(); fed.torch.save(model, sys.argv[1]);"
                   "names = fed._tensors.load(sys.argv[1]).keys(); print(names == peft.get_peft_model_state_dict(model).keys(), len(names))")
        if any(importlib.util.find_spec(one) is None for one in ("torch", "transformers", "peft")):
            self.skipTest("PEFT is not installed")
        with tempfile.TemporaryDirectory() as folder:
            said = subprocess.run([sys.executable, "-B", "-W", "ignore", "-c", program, folder + "/adapters"], stdout=subprocess.PIPE, text=True,
                                  env=dict(os.environ, PYTHONPATH=os.pathsep.join([str(FOLDER), os.environ["PYTHONPATH"]])), timeout=200,
                                  check=True).stdout
        self.assertEqual(said, "True 6\n")

    def test_sgd_classifier(self):
        self.assertGreater(float(re.search(r"accuracy ([\d.]+)%", self.recipe("sgd_classifier.py", ["sklearn"]))[1]), 75)

    def test_to_tensorboard(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("5 rounds are in", self.recipe("to_tensorboard.py", ["torch", "tensorboard"], folder))
            reader = ("import sys; from tensorboard.backend.event_processing.event_accumulator import EventAccumulator as A; a = A(sys.argv[1]); "
                      "a.Reload(); print([(one.step, round(one.value, 4)) for one in a.Scalars('loss')], 'accuracy' in a.Tags()['scalars'])")
            said = subprocess.run([sys.executable, "-W", "ignore", "-c", reader, folder], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                  timeout=100, check=True).stdout
            self.assertEqual(said.strip(), "[(1, 1.0), (2, 0.25), (3, 0.0625), (4, 0.0156), (5, 0.0039)] False")

    def test_to_mlflow(self):
        with tempfile.TemporaryDirectory() as folder:
            said = self.recipe("to_mlflow.py", ["mlflow", "sqlalchemy", "alembic"], f"sqlite:///{folder}/mlflow.db")
            self.assertIn("MLflow has 5 losses, the last is 0.0039", said)

    def test_with_tqdm(self):
        said = self.recipe("with_tqdm.py", ["tqdm"])
        self.assertRegex(said, r"rounds: 100%.* 5/5")
        self.assertRegex(said, r"steps: 100%.* 10/10")

    def test_with_opacus(self):
        accuracy, epsilon = re.search(r"accuracy ([\d.]+)%; each device spent epsilon ([\d.]+)", self.recipe("with_opacus.py", ["torch", "opacus"])).groups()
        self.assertGreater(float(accuracy), 65)
        self.assertTrue(1 < float(epsilon) < 8)


if __name__ == "__main__":
    unittest.main()
