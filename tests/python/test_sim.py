"""fed.sim: scenarios of the real fedsim."""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import tempfile
import unittest
from unittest import mock

import fed
import numpy as np
from fed import sim

try:
    import matplotlib
    import pandas
except ImportError:
    pandas = None


def table(folder):
    """Write a table of numbers with two classes, for fedsim's trainer."""
    random = np.random.default_rng(1)
    for part in ("train", "test"):
        label = random.integers(0, 2, 400)
        x = random.normal(size=(400, 3)) + label[:, None] * 2
        lines = [",".join(f"{value:.4f}" for value in row) + f",{one}" for row, one in zip(x, label)]
        pathlib.Path(folder, f"{part}.csv").write_text("x,y,z,label\n" + "\n".join(lines) + "\n")


class Simulations(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        table(self.folder)

    def run_it(self, **values):
        return sim.run(data=self.folder, dataset="csv:label=label", model="input 3 | dense 2", clients=5, rounds=3, learning_rate=0.1, seed=1,
                       **{"quiet": True, "out": self.folder + "/out", **values})

    def test_a_run(self):
        result = self.run_it()
        self.assertEqual(result.summary["rounds"], 3)
        self.assertTrue(result.summary["finished"])
        self.assertEqual({name: one.shape for name, one in result.model().items()}, {"dense1.weight": (2, 3), "dense1.bias": (2,)})
        self.assertIn("<table>", result._repr_html_())
        self.assertEqual(sim.read(self.folder + "/out").summary, result.summary)

    def test_a_run_that_is_refused_leaves_nothing(self):
        pathlib.Path(self.folder, "temporary").mkdir()
        with mock.patch.object(tempfile, "tempdir", self.folder + "/temporary"):
            with self.assertRaisesRegex(fed.Error, "codec_up"):
                self.run_it(codec_up="nonsense", out=None)
            self.assertEqual(list(pathlib.Path(self.folder, "temporary").iterdir()), [])
            self.assertTrue(self.run_it(out=None).summary["finished"])
            self.assertEqual(len(list(pathlib.Path(self.folder, "temporary").iterdir())), 1)

    def test_a_grid_has_each_run(self):
        grid = self.run_it(codec_up=["float32", "sbc:p=0.5"])
        self.assertEqual([one.name for one in grid], ["codec_up=float32", "codec_up=sbc:p=0.5"])
        self.assertIn("2 runs", grid._repr_html_())
        self.assertLess(grid[1].summary["uplink_bytes"], grid[0].summary["uplink_bytes"])

    @unittest.skipIf(pandas is None, "pandas or matplotlib is not installed")
    def test_frames_and_figures(self):
        grid = self.run_it(codec_up=["float32", "sbc:p=0.5"])
        self.assertEqual(grid[0].rounds()["round"].tolist(), [1, 2, 3])
        self.assertEqual(grid[0].clients().shape[0], 5)
        self.assertEqual(grid.frame()["run"].tolist(), [one.name for one in grid])
        figure = grid.figure()
        self.assertEqual([len(line.get_xdata()) for line in figure.axes[0].lines], [3, 3])
        figure.savefig(self.folder + "/figure.png")

    def test_refusals_are_the_programs_sentences(self):
        with self.assertRaisesRegex(fed.Error, "nosuchkey"):
            self.run_it(nosuchkey=1)
        with self.assertRaisesRegex(fed.Error, "has no results of fedsim"):
            sim.read(self.folder)
        self.assertIn("codec_up", sim.keys())


if __name__ == "__main__":
    unittest.main()
