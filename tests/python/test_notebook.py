"""The example's notebook, run from its first cell to its last: by Jupyter where that is installed, else cell by cell."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import re
import unittest


try:
    import torch
except ImportError:
    torch = None
try:
    import ipykernel
    import nbclient
    import nbformat
except ImportError:
    nbclient = None

NOTEBOOK = pathlib.Path(os.environ["FED_ROOT"], "fedclient", "python", "examples", "digits.ipynb")


@unittest.skipIf(torch is None, "PyTorch is not installed")
@unittest.skipUnless("FED_MNIST_DIR" in os.environ, "FED_MNIST_DIR does not say where MNIST is")
class Notebook(unittest.TestCase):
    def check(self, said):
        accuracy, update, whole = re.search(r"accuracy ([\d.]+)%; an update took (\d+) bytes, its values as float32 (\d+)", said).groups()
        self.assertGreater(float(accuracy), 80)
        self.assertLess(int(update) * 20, int(whole))

    @unittest.skipIf(nbclient is None, "nbclient or ipykernel is not installed")
    def test_jupyter_runs_it_and_shows_tables(self):
        book = nbformat.read(NOTEBOOK, as_version=4)
        nbclient.NotebookClient(book, timeout=250, kernel_name="python3").execute()
        outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
        shown = [output["data"] for output in outputs if "data" in output]
        self.assertTrue(any("10 rounds" in data.get("text/html", "") for data in shown))
        self.check("".join(output.get("text", "") for output in outputs))

    @unittest.skipUnless(nbclient is None, "Jupyter runs it")
    def test_plain_python_runs_its_cells(self):
        said, names = [], {"print": lambda *words: said.append(" ".join(str(word) for word in words))}
        for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), names)
        self.check("\n".join(said))


if __name__ == "__main__":
    unittest.main()
