"""Run tests of ctest many times on a busy machine, and report which fail and how long they take.

    flaky.py [options] [PATTERN] [TIMES]

PATTERN is a regular expression over ctest's names. Exit status 1 if any run failed, 2 if there is nothing to run.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

LABEL = "concurrent"  # set by tests/labels.cmake
PRESET_TIMEOUT_S = 1500  # ctest's default limit
LOOK_S = 0.02
CTEST = "ctest"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# A process that keeps a core busy, and ends when its parent has ended.
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(1000000):\n        pass\n"


class Test:
    """A test with ctest's properties of it, and the results of its runs."""

    def __init__(self, entry):
        self.name = entry["name"]
        self.command = entry.get("command")
        self.properties = {one["name"]: one["value"] for one in entry.get("properties", [])}
        # Runs of the same test must not overlap.
        self.locks = {*self.list_of("RESOURCE_LOCK"), "test " + self.name}
        self.serial = bool(self.properties.get("RUN_SERIAL"))
        self.slots = int(self.properties.get("PROCESSORS", 1))
        self.before = set(self.list_of("DEPENDS"))
        self.runs, self.failures, self.skips, self.walls, self.cpus = 0, [], 0, [], []

    def list_of(self, name):
        value = self.properties.get(name, [])
        return value if isinstance(value, list) else [value]

    def environment(self):
        return {**os.environ, **dict(one.split("=", 1) for one in self.list_of("ENVIRONMENT"))}

    def verdict(self, code, output):
        """Return the result as ctest would call it: passed, failed or skipped."""
        if code == self.properties.get("SKIP_RETURN_CODE"):
            return "skipped"
        if any(re.search(one, output) for one in self.list_of("SKIP_REGULAR_EXPRESSION")):
            return "skipped"
        if any(re.search(one, output) for one in self.list_of("FAIL_REGULAR_EXPRESSION")):
            return "failed"
        wanted = self.list_of("PASS_REGULAR_EXPRESSION")
        good = any(re.search(one, output) for one in wanted) if wanted else code == 0
        return "passed" if good != bool(self.properties.get("WILL_FAIL")) else "failed"


def session(leader):
    """Yield the processes of a session. A process group is not enough: timeout(1) makes one of its own."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                if int(file.read().rpartition(")")[2].split()[3]) == leader:
                    yield int(name)
        except (FileNotFoundError, ProcessLookupError):
            pass


class Run:
    """A run of a test that has not ended yet."""

    def __init__(self, test, number, folder):
        self.test, self.number = test, number
        self.path = os.path.join(folder, f"{test.name}.{number}.txt")
        self.start = time.monotonic()
        with open(self.path, "wb") as out:
            # A session of its own, so that a time-out can end all descendants.
            self.process = subprocess.Popen(test.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=test.environment(),
                                            cwd=test.properties.get("WORKING_DIRECTORY"), start_new_session=True)
        self.end = self.start + float(test.properties.get("TIMEOUT", PRESET_TIMEOUT_S))
        self.late = False

    def stop(self):
        for pid in session(self.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def ended(self):
        """Return the result, or None while the run goes on. The result is also added to the test's."""
        now = time.monotonic()
        if now > self.end and not self.late:
            self.late = True
            self.stop()
        pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
        if pid == 0:
            return None
        self.process.returncode = os.waitstatus_to_exitcode(status)
        test = self.test
        test.runs += 1
        test.walls.append(now - self.start)
        test.cpus.append(used.ru_utime + used.ru_stime)
        with open(self.path, "r", encoding="utf-8", errors="replace") as file:
            verdict = "failed" if self.late else test.verdict(self.process.returncode, file.read())
        if verdict == "failed":
            why = "ran past its time-out" if self.late else f"ended with {self.process.returncode}"
            test.failures.append(f"{self.path}: {why}")
            print(f"FAILED {test.name}, run {self.number}: {why}; its output: {self.path}", flush=True)
        else:
            os.unlink(self.path)
            test.skips += verdict == "skipped"
        return f"{test.name} {self.number} {verdict} {test.walls[-1]:.2f} {test.cpus[-1]:.2f}"


class Schedule:
    """Chooses the next run: each test once, then each test again, so that different tests run side by side."""

    def __init__(self, tests, times, jobs):
        self.waiting = [(test, number) for number in range(1, times + 1) for test in tests]
        self.going, self.jobs = [], jobs
        self.interrupted = False

    def interrupt(self, *_):
        """A signal handler. It only sets a flag: a test that is just being started is in no list yet, and would run on."""
        self.interrupted = True

    def may_start(self, test, number):
        if not self.going:
            return not self.unfinished(test, number)
        others = [run.test for run in self.going]
        if test.serial or any(other.serial for other in others):
            return False
        if sum(other.slots for other in others) + test.slots > self.jobs:
            return False
        return not any(test.locks & other.locks for other in others) and not self.unfinished(test, number)

    def unfinished(self, test, number):
        """Does the test depend on another test whose run of this number has not ended?"""
        names = {(other.name, k) for other, k in self.waiting} | {(run.test.name, run.number) for run in self.going}
        return any((name, number) in names for name in test.before)

    def next(self):
        for place, (test, number) in enumerate(self.waiting):
            if self.may_start(test, number):
                return self.waiting.pop(place)
            if test.serial:
                return None  # a test that must run alone waits here
        return None

    def work(self, folder, told):
        """Do all runs. told: called with a line of text for each run that has ended."""
        while (self.waiting or self.going) and not self.interrupted:
            while len(self.going) < self.jobs and (one := self.next()):
                self.going.append(Run(*one, folder))
            ended = {run: run.ended() for run in self.going}
            for line in filter(None, ended.values()):
                told(line)
            self.going = [run for run, line in ended.items() if not line]
            time.sleep(LOOK_S)

    def stop(self):
        for run in self.going:
            run.stop()
            run.process.wait()
            os.unlink(run.path)
        self.going = []


class Load:
    """Busy processes, one for each core, with the same priority as the tests."""

    def __init__(self, count):
        self.processes = [subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True) for _ in range(count)]

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()


def tests_of(build):
    out = subprocess.run([CTEST, "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True).stdout
    return [Test(entry) for entry in json.loads(out)["tests"]]


def chosen(tests, options):
    """Return the tests that match the pattern, and the tests that set up their fixtures."""
    named = [test for test in tests if re.search(options.pattern, test.name)
             and not (options.exclude and re.search(options.exclude, test.name))
             and (options.all or LABEL in test.list_of("LABELS"))
             and not (options.skip_label and set(options.skip_label) & set(test.list_of("LABELS")))]
    fixtures = {one for test in named for one in test.list_of("FIXTURES_REQUIRED")}
    setup = [test for test in tests if fixtures & set(test.list_of("FIXTURES_SETUP")) and test not in named]
    for test in named:
        for other in tests:
            if set(test.list_of("FIXTURES_REQUIRED")) & set(other.list_of("FIXTURES_SETUP")):
                test.before.add(other.name)
    return setup + named


def median(values):
    return statistics.median(values) if values else 0


def table(tests, by_cpu):
    key = (lambda test: -median(test.cpus)) if by_cpu else (lambda test: (-len(test.failures), -median(test.walls)))
    width = max([len(test.name) for test in tests] + [4])
    yield f"{'test':{width}} {'runs':>5} {'failed':>6} {'skipped':>7} {'wall s':>8} {'cpu s':>8}"
    for test in sorted(tests, key=key):
        yield (f"{test.name:{width}} {test.runs:5} {len(test.failures):6} {test.skips:7} "
               f"{median(test.walls):8.2f} {median(test.cpus):8.2f}")


def report(tests, options, missing):
    ran = [test for test in tests if test.runs]
    print("\n" + "\n".join(table(ran, options.cpu)))
    if missing:
        print(f"not built, so not run: {len(missing)} tests, the first of them {missing[0].name}")
    runs, failures = sum(test.runs for test in ran), sum(len(test.failures) for test in ran)
    skips = sum(test.skips for test in ran)
    for test in ran:
        for failure in test.failures:
            print(failure)
    print(f"CPU {sum(sum(test.cpus) for test in ran):.0f} s; {len(ran)} tests, {runs} runs: "
          f"{runs - failures - skips} passed, {skips} skipped, {failures} failed")
    return 1 if failures else 0


def parsed(arguments):
    parser = argparse.ArgumentParser(prog="deploy/flaky.sh", description="Run tests many times on a busy machine, three at a time. "
                                     f"Preset: those with threads, processes or time (ctest's label {LABEL}).")
    parser.add_argument("pattern", nargs="?", default="", metavar="PATTERN", help="a regular expression over ctest's names")
    parser.add_argument("count", nargs="?", type=int, metavar="TIMES", help="how often each test runs; preset 50, with --cpu 1")
    parser.add_argument("--all", action="store_true", help="the tests without that label too")
    parser.add_argument("--exclude", metavar="PATTERN", help="leave these tests out")
    parser.add_argument("--skip-label", action="append", metavar="LABEL", help="leave tests with this label out")
    parser.add_argument("--times", type=int, help="as TIMES")
    parser.add_argument("--load", type=int, help="how many busy loops; preset as many as there are cores, with --cpu none")
    parser.add_argument("--jobs", type=int, help="how many tests at a time; preset 3, with --cpu as many as there are cores")
    parser.add_argument("--cpu", action="store_true", help="what tests cost: all of them, once, sorted by CPU seconds")
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"), help="preset build/release")
    parser.add_argument("--out", help="the folder for what failing runs print; preset a new temporary one")
    parser.add_argument("--runs", metavar="FILE", help="write a line for each run: test, number, verdict, wall and CPU seconds")
    options = parser.parse_args(arguments)
    cores = len(os.sched_getaffinity(0))
    options.all = options.all or options.cpu
    for name, quiet, busy in (("load", 0, cores), ("jobs", cores, 3)):
        if getattr(options, name) is None:
            setattr(options, name, quiet if options.cpu else busy)
    options.times = options.times or options.count or (1 if options.cpu else 50)
    if options.times < 1 or options.jobs < 1 or options.load < 0:
        parser.error("TIMES and --jobs are at least 1, --load at least 0")
    return options


def main(arguments):
    options = parsed(arguments)
    tests = chosen(tests_of(options.build), options)
    missing = [test for test in tests if not test.command]
    tests = [test for test in tests if test.command]
    if not tests:
        print(f"flaky: no test of {options.build} that is built fits; ctest -N lists them, and --all takes those without "
              f"the label {LABEL}", file=sys.stderr)
        return 2
    folder = options.out or tempfile.mkdtemp(prefix="fed-flaky-")
    os.makedirs(folder, exist_ok=True)
    for test in tests:
        test.slots = min(test.slots, options.jobs)
    schedule = Schedule(tests, options.times, options.jobs)
    signal.signal(signal.SIGINT, schedule.interrupt)
    signal.signal(signal.SIGTERM, schedule.interrupt)
    load = Load(options.load)
    print(f"{len(tests)} tests, {options.times} times each, {options.jobs} at a time, beside {options.load} busy loops", flush=True)
    try:
        with open(options.runs or os.devnull, "w", encoding="utf-8", buffering=1) as file:
            schedule.work(folder, lambda line: print(line, file=file))
    finally:
        schedule.stop()
        load.stop()
    if schedule.interrupted:
        print("interrupted: the table has the runs that had ended")
    code = report(tests, options, missing)
    return code or (1 if schedule.interrupted else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
