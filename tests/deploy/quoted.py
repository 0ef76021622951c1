"""Run the commands that the documents quote, shortened: made-up pictures, one round, two steps.

    quoted.py ROOT BIN      exit status 1, with file and line, if a command fails or does not exist

Commands of fedserver and fedclientd need a running coordinator, so only their options are checked against --help; tutorials.py and
the end-to-end tests run them. The same goes for commands with a --device that this machine lacks. Scripts must exist and be executable, and
papers.sh must know its table.

The Python of a tutorial is one program. It runs where a Python has what it imports: build/python-venv, or the one that runs this.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import shlex
import struct
import subprocess
import sys
import tempfile

PROGRAMS = {"fedsim", "fedserver", "fedclientd", "fedtrain", "fedworker", "fedcodec"}
# Values for words in capitals.
PLACEHOLDERS = {"CODEC": "sbc:p=0.01", "SIZE": "1024", "OPTIMIZER": "sgd:lr=0.1", "STRATEGY": "fedavg", "SPLIT": "iid",
                "SHARE": "0", "SEED": "1", "N": "1", "CLIP": "1"}
QUICK = ["rounds=1", "iterations=0", "clients=3", "cohort=3", "goal=3", "minimum=1", "batch=2", "local_steps=1", "offline=0",
         "deadline_s=60", "hostile=0", "threads=1"]
OTHER_DATA = ("cifar10", "ptb")  # data sets without files: only the commands' options are checked


def documents(root):
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f not in ("build", "history", "decisions") and not f.startswith(".")]
        yield from (os.path.join(folder, f) for f in files if f.endswith(".md"))


def commands(path):
    """Yield line number and words of each command in a fenced block."""
    text = open(path, encoding="utf-8").read()
    for block in re.finditer(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        first = text.count("\n", 0, block.start()) + 2
        joined = re.sub(r"\\\n\s*", " ", block[1])
        for number, line in enumerate(joined.split("\n")):
            if line[:1].isspace():
                continue  # a drawing, or output of a command
            for part in re.split(r"&&|(?<!&)&$", line.split(" #")[0]):
                try:
                    words = shlex.split(re.sub(r'"\$\([^)]*\)"', "TOKEN", part))
                except ValueError:
                    continue
                if words:
                    yield first + number, words


def make_pictures(folder, train=60, test=20):
    """Write pictures of ten classes into MNIST's files. Each class has a bright row of its own."""
    for part, count in (("train", train), ("t10k", test)):
        labels = bytes(k % 10 for k in range(count))
        pictures = b"".join(bytes(255 if y == 2 * k else 0 for y in range(28) for _ in range(28)) for k in labels)
        with open(os.path.join(folder, f"{part}-images-idx3-ubyte"), "wb") as file:
            file.write(struct.pack(">4I", 0x803, count, 28, 28) + pictures)
        with open(os.path.join(folder, f"{part}-labels-idx1-ubyte"), "wb") as file:
            file.write(struct.pack(">2I", 0x801, count) + labels)


def make_table(folder):
    """Write a table of 13 columns and a price, for the commands of docs/fedtrain.md."""
    lines = [",".join([f"c{k}" for k in range(13)] + ["price"])]
    lines += [",".join(str((k * 7 + c * 3) % 11) for c in range(13)) + f",{k % 5 + 0.5}" for k in range(100)]
    for part in ("train", "test"):
        with open(os.path.join(folder, f"{part}.csv"), "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")


class Reader:
    """Runs the commands of one document, in a folder of its own."""

    def __init__(self, root, binaries, work):
        self.root, self.bin, self.work = root, binaries, work
        self.data = os.path.join(work, "data")
        os.mkdir(self.data)
        make_pictures(self.data)
        make_table(self.data)
        os.symlink(os.path.join(root, "deploy"), os.path.join(work, "deploy"))
        self.ran = self.checked = 0

    def run(self, words):
        done = subprocess.run([os.path.join(self.bin, words[0])] + words[1:], cwd=self.work, timeout=300,
                              capture_output=True, text=True)
        self.ran += 1
        return None if done.returncode == 0 else (done.stderr + done.stdout).strip()[-400:]

    def check_options(self, words):
        commands = [w for w in words[1:2] if re.fullmatch("[a-z][a-z-]*", w)]
        said = subprocess.run([os.path.join(self.bin, words[0])] + commands + ["--help"], capture_output=True, text=True)
        self.checked += 1
        if said.returncode != 0:
            return f"{' '.join(words[:2])} --help fails"
        unknown = [w for w in words if re.match("--[a-z]", w) and w.split("=")[0] not in said.stdout and w != "--dir"]
        return f"no such option: {' '.join(unknown)}" if unknown else None

    def fedsim(self, words):
        if words[1:2] != ["run"]:
            return self.run(words) if words[1:2] in (["report"], ["keys"]) else f"fedsim has no command {words[1:2]}"
        out = words[words.index("--out") + 1] if "--out" in words else None
        own = [w for w in words[2:] if w not in ("--out", out)]
        named = [] if out is None else ["--out", out]
        if any(w.startswith("server=") for w in own):  # nobody serves it here
            return self.check_keys(own)
        # lr has one layer, and no control variates
        model = [] if any(w.startswith("private_layers=") or "+scaffold" in w for w in own) else ["model=lr"]
        return self.run(["fedsim", "run"] + own + QUICK + [f"data={self.data}"] + model + named)

    def check_keys(self, words):
        known = subprocess.run([os.path.join(self.bin, "fedsim"), "keys"], capture_output=True, text=True, check=True).stdout
        self.checked += 1
        unknown = [w for w in words if not re.search(rf"^{re.escape(w.split('=')[0])} ", known, re.MULTILINE)]
        return f"fedsim has no key {' '.join(unknown)}" if unknown else None

    def has_device(self, words):
        """Return whether this machine has the device that --device names, and can use it."""
        said = subprocess.run([os.path.join(self.bin, "fedworker"), "devices"], capture_output=True, text=True).stdout
        usable = re.findall(r"^(\w+:\d+) .*\n(?! +can't)", said, re.MULTILINE)
        name = words[words.index("--device") + 1]
        return name in usable or name == "gpu" and usable != []

    def fedtrain(self, words):
        if any(w in OTHER_DATA for w in words) or "--device" in words and not self.has_device(words):
            return self.check_options(words)
        for k, word in enumerate(words[:-1]):
            if word == "--epochs":
                words[k], words[k + 1] = "--steps", "2"
            elif word == "--data":
                words[k + 1] = self.data
        return self.run(words)

    def fedworker(self, words):
        """Run a worker group of this machine alone. Check only the options of one that connects to other machines."""
        alone = words[1:2] in (["train"], ["predict"]) and not {"--listen", "--join", "--server"} & set(words)
        return self.fedtrain(words) if alone else self.check_options(words)

    def fedcodec(self, words):
        """Run the command on files that the page's earlier commands have written."""
        return self.run(words)

    def script(self, words):
        path = os.path.join(self.root, words[0])
        if not os.access(path, os.X_OK):
            return f"{words[0]} is not there, or not executable"
        self.checked += 1
        if words[0] == "deploy/sim/papers.sh" and not os.path.exists(os.path.join(self.root, f"deploy/sim/papers/{words[1]}.ini")):
            return f"{words[0]} does not know {words[1]}"
        return None

    def try_out(self, words):
        """Return what is wrong with the command; None: it works."""
        words = [re.sub(r"^build/release/bin/|^bin/|^\./", "", words[0])] + words[1:]
        words = [re.sub(r"\b[A-Z]+\b", lambda m: PLACEHOLDERS.get(m[0], m[0]), w) for w in words]
        if words[0] in ("fedsim", "fedtrain", "fedworker", "fedcodec"):
            return getattr(self, words[0])(words)
        if words[0] in PROGRAMS:
            return self.check_options(words)
        if re.match(r"(deploy|tests)/[\w/-]+\.(sh|py)$", words[0]):
            return self.script(words)
        return None


def python_of(root, modules):
    """Return a Python that can import these modules; None: there is none."""
    for python in (os.path.join(root, "build/python-venv/bin/python"), sys.executable):
        if os.path.exists(python) and subprocess.run([python, "-c", f"import {modules}"], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


def run_python(root, binaries, path):
    """Run a document's blocks of Python, in their order. Return what is wrong; None: nothing, or they can't be run here."""
    text = open(path, encoding="utf-8").read()
    program = "".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    library = os.path.join(os.path.dirname(binaries), "fedclient/python/libfedpy.so")
    if not program:
        return None
    modules = ", ".join(sorted(set(re.findall(r"^import (\w+)", program, re.MULTILINE)) - {"fed"}))
    python = python_of(root, modules)
    if python is None or not os.path.exists(library):
        print(f"{os.path.relpath(path, root)}: its Python is not run: no Python has {modules}, or the package fed is not built")
        return None
    environment = dict(os.environ, PYTHONPATH=os.path.join(root, "fedclient/python"), FED_PYTHON_LIBRARY=library, FED_BIN=binaries)
    done = subprocess.run([python, "-B", "-W", "ignore", "-c", program], env=environment, cwd="/", timeout=400, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip()[-400:]


def main(root, binaries):
    findings, ran, checked = [], 0, 0
    for path in sorted(documents(root)):
        with tempfile.TemporaryDirectory() as work:
            reader = Reader(root, binaries, work)
            for line, words in commands(path):
                wrong = reader.try_out(words)
                if wrong:
                    findings.append(f"{os.path.relpath(path, root)}:{line}: {' '.join(words)[:200]}\n    {wrong}")
            ran, checked = ran + reader.ran, checked + reader.checked
        wrong = run_python(root, binaries, path) if "docs/tutorials/" in path else None
        if wrong:
            findings.append(f"{os.path.relpath(path, root)}:1: its Python\n    {wrong}")
    print("\n".join(findings))
    print(f"quoted: {ran} commands were run, {checked} checked; {len(findings)} do not work")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])))
