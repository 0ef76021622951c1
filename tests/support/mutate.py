"""Plant faults in product code, one at a time, and see whether the tests of that code fail: deploy/mutate.sh says how to call it.

Kinds of faults:

    operator   < for <=, + for -, && for ||, == for !=, and back
    condition  negated, always true, always false
    call       a statement that is a call, or FED_TRY or FED_REQUIRE of one, is missing
    swap       two statements that stand beside each other and share a name change places
    constant   0 for 1 and 1 for 0, n + 1 for n, a limit doubled
    status     a returned status is FED_OK
    member     an assignment to a member is missing

Nothing is planted in declarations without a value, in empty values, in asserts, in what is logged, in the texts of errors, or in
what acts only when memory is out. A fault that does not compile, or that leaves the machine code as it was, is drawn again, and so is one that
tests/mutants.txt explains.

The tests of a file run in this order, until one fails: its own test (tests/lint/mirror.py), and those that tests/lint/untested.txt
names for it; the contract test of its kind of plugin; other tests of that folder, the quickest first; and, if all pass, short
end-to-end runs, which SIDES names for the file's part of the tree.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import collections
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lint"))
import mirror  # noqa: E402
from mutate_faults import drawn, faults_of  # noqa: E402

PRODUCT = ("codecs/", "common/", "deploy/sim/", "fedclient/", "fedserver/")
EXPLAINED = "tests/mutants.txt"

def explained(root):
    """Return the faults that tests/mutants.txt explains, each as the file's path with the line's text and the fault."""
    path, found, entry = root / EXPLAINED, set(), {}
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for line in text.splitlines() + [""]:
        key, colon, value = line.partition(": ")
        if not line.strip() and entry:
            if set(entry) != {"file", "line", "fault", "why"}:
                sys.exit(f"{EXPLAINED}: an entry has {', '.join(entry)}; it needs file, line, fault and why")
            found.add((entry["file"], entry["line"], entry["fault"]))
            entry = {}
        elif colon and not line.startswith("#"):
            entry[key] = value.strip()
    return found


# A fault may cause warnings.
PRELUDE = "".join(f'#pragma GCC diagnostic ignored "-W{name}"\n' for name in """
    pragmas unused unused-variable unused-but-set-variable unused-parameter unused-function unused-value unused-result unused-label
    unused-but-set-parameter unused-const-variable type-limits sign-compare sign-conversion conversion parentheses bool-compare
    tautological-compare logical-op maybe-uninitialized uninitialized empty-body extra all return-type int-in-bool-context
    array-bounds stringop-overflow implicit-fallthrough missing-field-initializers null-dereference div-by-zero overflow
    shift-count-overflow duplicated-branches format-truncation infinite-recursion misleading-indentation pedantic
    alloc-size-larger-than= nonnull stringop-overread dangling-pointer use-after-free
""".split())
SIDES = (  # end-to-end tests of each part of the tree
    ("fedserver/", ("fedserver.test_server", "fedserver.test_faults", "e2e.test_resume")),
    ("fedclient/datacenter/", ("fedclient.datacenter.test_feddc", "contract.test_each_worker_group", "e2e.test_worker_faults")),
    ("fedclient/train/", ("fedclient.train.test_train", "e2e.test_fedsim")),
    ("fedclient/", ("fedclient.test_client", "e2e.test_each_transport", "e2e.test_resume")),
    ("codecs/", ("contract.test_codecs", "contract.test_codec_messages", "vectors.test_codec_vectors")),
    ("common/", ("fedclient.test_client", "fedserver.test_server")),
    ("deploy/sim/", ("e2e.test_fedsim",)),
)
CONTRACTS = (
    (r"fedserver/stores/", r"contract\.test_store(s|_\w+)"),
    (r"fedserver/strategies/", r"contract\.test_each_strategy"),
    (r"fedclient/datacenter/links/", r"contract\.test_each_link"),
    (r"fedclient/datacenter/(collectives/|\w+\.c)", r"contract\.test_each_(collective|worker_group)"),
    (r"fedclient/transports/", r"contract\.test_transport(s|_faults)"),
    (r"fedclient/platforms/", r"contract\.test_platforms"),
    (r"codecs/", r"contract\.test_codecs"),
)
QUICK_S = 3  # on a machine without other work
PROGRAMS = {"fedserver", "fedclientd", "fedworker", "fedsim", "fedtrain_program", "fednic", "fedcodec", "allreduce", "minimal"}
STARTS_PROGRAMS = re.compile(r"e2e\.|.*\.(apps|commands|examples|operator|tool)\.")
Test = collections.namedtuple("Test", "name target command folder variables")


def names_of_test_file(path):
    return path.removeprefix("tests/").removesuffix(".c").replace("/", ".")


class Copy:
    """A copy of the tree in which faults are planted, with a build of its own."""

    def __init__(self, root, folder):
        self.root, self.tree = root, root / folder / "tree"
        self.build = self.tree / "build/release"
        self.known = self.tree.parent / "passed.json"
        self.passed = json.loads(self.known.read_text(encoding="utf-8")) if self.known.exists() else {}
        self.failing, self.judged = set(), set()

    @contextlib.contextmanager
    def held(self):
        """Lock the copy for this run and bring it up to date."""
        self.tree.mkdir(parents=True, exist_ok=True)
        with open(self.tree.parent / "lock", "w", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                sys.exit(f"{self.tree} is in use by another run: wait for its end")
            self.refresh()
            yield self

    def refresh(self):
        """Bring the copy up to date with the tree, uncommitted changes included. Write only files that differ, so that little is compiled."""
        listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=self.root, check=True, capture_output=True)
        wanted = {os.fsdecode(name) for name in listed.stdout.split(b"\0") if name and (self.root / os.fsdecode(name)).is_file()}
        for name in wanted:
            old, new = self.tree / name, self.root / name
            if not old.is_file() or old.read_bytes() != new.read_bytes():
                old.parent.mkdir(parents=True, exist_ok=True)
                old.write_bytes(new.read_bytes())
            old.chmod(new.stat().st_mode)
        for old in self.tree.rglob("*"):
            name = old.relative_to(self.tree)
            if name.parts[0] != "build" and old.is_file() and str(name) not in wanted:
                old.unlink()
        done = subprocess.run(["cmake", "--preset", "release", "-DFED_WERROR=ON"], cwd=self.tree, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"the copy in {self.tree} can't be configured:\n{done.stderr}")
        self.read_build()

    def read_build(self):
        with open(self.build / "compile_commands.json", encoding="utf-8") as file:
            commands = json.load(file)
        done = subprocess.run(["ninja", "-t", "targets", "all"], cwd=self.build, capture_output=True, text=True, check=True)
        self.known_targets = {line.split(":")[0] for line in done.stdout.splitlines()}
        self.programs = PROGRAMS & self.known_targets
        self.objects = {}
        for entry in commands:
            path = os.path.relpath(entry["file"], self.tree)
            found = entry.get("output") or re.search(r"-o (\S+)", entry["command"]).group(1)
            self.objects.setdefault(path, found)
        self.read_tests()

    def read_tests(self):
        """Read the tests from ctest, which lists a test's command only once its program is built."""
        done = subprocess.run(["ctest", "--show-only=json-v1"], cwd=self.build, check=True, capture_output=True, text=True)
        self.tests = {}
        for entry in json.loads(done.stdout)["tests"]:
            has = {each["name"]: each["value"] for each in entry.get("properties", [])}
            variables = dict(line.split("=", 1) for line in has.get("ENVIRONMENT", []))
            target = entry["name"].removesuffix(".postgres")
            if target in self.known_targets:  # other tests are scripts
                self.tests[entry["name"]] = Test(entry["name"], target, entry.get("command"), has.get("WORKING_DIRECTORY"), variables)

    def make(self, targets, **variables):
        command = ["ninja", "-C", str(self.build), "-k", "1", *targets]
        done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)
        return done.returncode == 0, done.stdout + done.stderr

    def machine_code(self, path):
        done = subprocess.run(["objdump", "-drs", self.objects[path]], cwd=self.build, check=True, capture_output=True)
        return hashlib.sha256(done.stdout.partition(b"\n\n")[2]).hexdigest()

    def plant(self, fault, text):
        head = f'{PRELUDE}#line 1 "{self.tree / fault.path}"\n'
        (self.tree / fault.path).write_text(head + text[:fault.start] + fault.after + text[fault.end:], encoding="utf-8")

    def restore(self, path, text):
        (self.tree / path).write_text(text, encoding="utf-8")

    def run(self, name, limit_s):
        """Run a test. Return its result (passed, failed, skipped or late) and its time in seconds."""
        test, began = self.tests[name], time.monotonic()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as room:
            os.chmod(room, 0o1777)  # PostgreSQL's server is another user if the tests are root's
            variables = {**os.environ, **test.variables, "FED_TEST_LENGTH": "short", "TMPDIR": room}
            process = subprocess.Popen(test.command, cwd=test.folder, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=no_cores)
            try:
                code = process.wait(limit_s)
                how = {0: "passed", 77: "skipped"}.get(code, "failed")
            except subprocess.TimeoutExpired:
                how = "late"
            finally:
                end_group(process)
        return how, time.monotonic() - began

    def targets(self, names):
        starts_programs = any(STARTS_PROGRAMS.match(name) for name in names)
        return sorted({self.tests[name].target for name in names} | (self.programs if starts_programs else set()))

    def judge(self, names):
        """Find which of these tests pass without a fault. A test is run only if its program is new or has changed."""
        fine, said = self.make(self.targets(names))
        if not fine:
            sys.exit(f"the tree does not build without a fault:\n{said}")
        if not all(self.tests[name].command for name in names):
            self.read_tests()
        for name in names:
            program = self.tests[name].command[0]
            digest = hashlib.sha256(pathlib.Path(program).read_bytes()).hexdigest()
            if self.passed.get(name, [None])[0] != digest:
                self.measure(name, digest)
        self.judged.update(names)
        self.known.write_text(json.dumps(self.passed, indent=0), encoding="utf-8")

    def measure(self, name, digest):
        how, seconds = self.run(name, 600)
        if how == "passed":
            self.passed[name] = [digest, seconds]
        else:
            self.failing.add(name)
            print(f"left out: {name} {'is' if how in ('late', 'skipped') else 'has'} {how} without a fault", flush=True)

    def limit_of(self, name):
        return 5 * self.passed[name][1] + 20


def busy():
    """Return how many times as long as on a machine without other work things take."""
    return max(1.0, os.getloadavg()[0] / os.cpu_count())


def no_cores():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 30, 4 << 30))


def end_group(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Rings:
    """Finds the tests to run for a source file."""

    def __init__(self, copy):
        self.copy = copy
        self.named = []
        listed = copy.tree / mirror.LIST
        for line in listed.read_text(encoding="utf-8").splitlines() if listed.exists() else []:
            words = line.split()
            if len(words) > 1 and not line.startswith(("#", "-")):
                self.named.append((words[0], words[1:]))

    def known(self, names):
        return [name for name in dict.fromkeys(names) if name in self.copy.tests]

    def first(self, path):
        near = [names_of_test_file(mirror.mirror_of(path))]
        near += [names_of_test_file(test) for pattern, tests in self.named if mirror.matches(path, pattern) for test in tests]
        near += [name + ".postgres" for name in near if "postgres" in path]
        near += [name for pattern, tests in CONTRACTS if re.match(pattern, path) for name in self.copy.tests if re.fullmatch(tests, name)]
        folder = names_of_test_file(mirror.mirror_of(path)).rpartition(".")[0]
        beside = [name for name, test in self.copy.tests.items() if name.rpartition(".")[0] == folder and name == test.target]
        return self.known(near), [name for name in self.known(beside) if name not in near]

    def second(self, path):
        return self.known(next((tests for side, tests in SIDES if path.startswith(side)), ()))

    def rings(self, path):
        near, beside = self.first(path)
        return near, beside, [name for name in self.second(path) if name not in near + beside]


class Round:
    """Plants N faults, and finds which test catches each."""

    def __init__(self, copy, goal):
        self.copy, self.goal, self.rings = copy, goal, Rings(copy)
        self.why = explained(copy.root)
        self.texts, self.codes = {}, {}
        self.counts = collections.defaultdict(lambda: [0, 0])
        self.survivors = []

    def text(self, path):
        if path not in self.texts:
            self.texts[path] = (self.copy.root / path).read_text(encoding="utf-8")
        return self.texts[path]

    def faults(self, paths):
        found = [fault for path in paths if path in self.copy.objects for fault in faults_of(path, self.text(path))]
        return [fault for fault in found if (fault.path, self.line(fault), fault.says()) not in self.why]

    def line(self, fault):
        return self.text(fault.path).splitlines()[fault.line - 1].strip()

    def differs(self, fault):
        """Plant a fault. Return whether the file compiles and its machine code changes."""
        if fault.path not in self.codes:
            fine, said = self.copy.make([self.copy.objects[fault.path]])
            if not fine:
                sys.exit(f"{fault.path} does not compile without a fault:\n{said}")
            self.codes[fault.path] = self.copy.machine_code(fault.path)
        self.copy.plant(fault, self.text(fault.path))
        fine, _ = self.copy.make([self.copy.objects[fault.path]], CCACHE_READONLY="1")
        return fine and self.copy.machine_code(fault.path) != self.codes[fault.path]

    def catches(self, fault, names):
        """Return the name of the first of these tests that fails, or None."""
        for k in range(0, len(names), 6):
            fine, said = self.copy.make(self.copy.targets(names[k:k + 6]), CCACHE_READONLY="1")
            if not fine:
                return f"the linker: {said.strip().splitlines()[-1]}"
            for name in names[k:k + 6]:
                how, _ = self.copy.run(name, self.copy.limit_of(name))
                if how in ("failed", "late"):
                    return name + (" (late)" if how == "late" else "")
        return None

    def judge(self, fault):
        """Plant a fault and return the test that catches it; "" if none does; None if the fault changes nothing."""
        clean = self.text(fault.path)
        try:
            if not self.differs(fault):
                return None
            for number, ring in enumerate(self.rings.rings(fault.path)):
                unknown = [name for name in ring if name not in self.copy.judged]
                if unknown:
                    self.copy.restore(fault.path, clean)
                    self.copy.judge(unknown)
                    self.copy.plant(fault, clean)
                ring = sorted(set(ring) - self.copy.failing, key=lambda name: self.copy.passed[name][1])
                if number == 1:
                    ring = [name for name in ring if self.copy.passed[name][1] <= QUICK_S * busy()]
                catcher = self.catches(fault, ring)
                if catcher:
                    return catcher
            return ""
        finally:
            self.copy.restore(fault.path, clean)

    def plant(self, faults, wanted):
        for fault in faults:
            if wanted == 0:
                break
            catcher = self.judge(fault)
            if catcher is None:
                continue
            wanted -= 1
            print(f"{fault}: {'caught by ' + catcher if catcher else 'SURVIVED'}", flush=True)
            count = self.counts[os.path.dirname(fault.path)]
            count[0] += 1
            count[1] += catcher != ""
            if not catcher:
                self.survivors.append(fault)

    def report(self):
        """Print the table of results. Return the exit status."""
        planted, caught = (sum(count[k] for count in self.counts.values()) for k in (0, 1))
        print(f"\n{'folder':<44} {'planted':>8} {'caught':>8}")
        for folder, count in sorted(self.counts.items()):
            print(f"{folder:<44} {count[0]:>8} {count[1]:>8}")
        print(f"{'all':<44} {planted:>8} {caught:>8}")
        for fault in self.survivors:
            print(f"SURVIVED: {fault}\n    in the line: {self.line(fault)}")
        if self.copy.failing:
            return 2
        if 100 * caught < self.goal * planted:
            print(f"{caught} of {planted} are caught: the goal is {self.goal:g} percent. Write tests that catch what survived; or say "
                  f"in {EXPLAINED} why it does no harm.")
            return 1
        return 0


def git(root, *words):
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def changed(root):
    """Product sources that changed since the last tag, or else since the branch left main. If there are none: all."""
    since = git(root, "describe", "--tags", "--abbrev=0") or git(root, "merge-base", "HEAD", "main")

    def product(names):
        return [name for name in names.splitlines() if name.startswith(PRODUCT) and name.endswith(".c") and (root / name).exists()]

    return product(git(root, "diff", "--name-only", since) if since else "") or product(git(root, "ls-files"))


def sources(root, words):
    found = []
    for word in words:
        path = root / word
        if not path.exists():
            sys.exit(f"{word} is neither a file nor a folder of the tree: name one, from the top of the tree")
        found += [path] if path.is_file() else path.rglob("*.c")
    return sorted({str(path.relative_to(root)) for path in found})


def arguments(words):
    parser = argparse.ArgumentParser(prog="deploy/mutate.sh", description="Plant faults, and see whether the tests see them.")
    parser.add_argument("--goal", type=float, default=90, metavar="P")
    parser.add_argument("--only", metavar="FILE:LINE:KIND")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--copy", default="build/mutants", metavar="FOLDER")
    parser.add_argument("words", nargs="*", metavar="N [SEED] [FILE|FOLDER...]")
    given = parser.parse_args(words)
    numbers = []
    while given.words and len(numbers) < 2 and given.words[0].isdigit():
        numbers.append(int(given.words.pop(0)))
    given.number, given.seed = (numbers + [None, 1][len(numbers):])[:2]
    if given.number is None and not given.only and not given.list:
        parser.error("the number of faults is missing")
    return given


def main(words, root):
    given = arguments(words)
    only = given.only.split(":") if given.only else None
    paths = [only[0]] if only else sources(root, given.words) if given.words else changed(root)
    if not paths:
        print("no product source has changed: name files or folders")
        return 0
    if given.list:
        for path in paths:
            print(*faults_of(path, (root / path).read_text(encoding="utf-8")), sep="\n")
        return 0
    with Copy(root, given.copy).held() as copy:
        work = Round(copy, given.goal)
        faults = work.faults(paths)
        if only:
            faults = [fault for fault in faults if [str(fault.line), fault.kind][:len(only) - 1] == only[1:]]
        work.plant(faults if only else drawn(faults, given.seed), len(faults) if only else given.number)
        return work.report()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM: the next run removes the planted fault from the copy of the tree"))
    sys.exit(main(sys.argv[1:], HERE.parent.parent))
