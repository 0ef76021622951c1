"""Follow the tutorials with real programs: each line of fleet.md, three-coordinators.md, two-hospitals.md and epsilon.md, and what
the text between asks for.

    tutorials.py ROOT BIN [NAME.md...]      all, or those of these names. Exit status 77: there is no network namespace here, which
                                            gives the tutorials' ports to this test alone

Lines run as they stand, but for folders: those of /tmp are the test's, build/product/bin is BIN, and the data is made up.
"""
# SPDX-License-Identifier: Apache-2.0
import glob
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import quoted

PATIENCE_S = 300
BACKGROUND = ("fedserver run", "fedserver helper", "fedclientd ")
TYPED = r"(fedserver|fedclientd|fedsim|mkdir|cp|build/product/bin/minimal|pkill) "
ALONE = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]


def lines_of(root, name):
    """Return the commands of a tutorial, in their order, each as one line."""
    text = open(os.path.join(root, "docs/tutorials", name), encoding="utf-8").read()
    blocks = re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    found = re.sub(r"\\\n\s*", " ", "\n".join(blocks)).split("\n")
    return [re.sub(r"\s*&$", "", line) for line in found if re.match(TYPED, line)]


class Machine:
    """Runs lines in a folder; programs that serve run beside the others, each with a log."""

    def __init__(self, root, binaries, work):
        self.root, self.binaries, self.work = root, binaries, work
        self.data = work + "/data"
        os.mkdir(self.data)
        quoted.make_pictures(self.data, train=4000)
        self.running = []  # (line, process, path of its log)
        self.environment = dict(os.environ, PATH=binaries + ":" + os.environ["PATH"])

    def here(self, line):
        line = line.replace("build/product/bin", self.binaries).replace("build/data/mnist", self.data).replace("deploy/conf", self.root + "/deploy/conf")
        return line.replace("/tmp/", self.work + "/")

    def start(self, line):
        path = f"{self.work}/log{len(os.listdir(self.work))}"
        with open(path, "w", encoding="utf-8") as log:
            process = subprocess.Popen(["bash", "-c", "exec " + self.here(line)], cwd=self.work, env=self.environment, stdout=log, stderr=log)
        self.running.append((line, process, path))
        if line.startswith("fedserver run"):
            self.wait(line, "front https://")

    def run(self, line):
        if line.startswith(BACKGROUND):
            return self.start(line)
        done = subprocess.run(["bash", "-c", self.here(line)], cwd=self.work, env=self.environment, timeout=PATIENCE_S, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"{line}\n    ends with {done.returncode}: {(done.stderr + done.stdout)[-600:]}")
        return done.stdout

    def log(self, start):
        return "".join(open(path, encoding="utf-8").read() for line, _, path in self.running if line.startswith(start))

    def wait(self, start, words, before=0):
        """Wait until programs whose lines begin with `start` have said the words, `before` times and once more."""
        end = time.monotonic() + PATIENCE_S
        while len(re.findall(words, self.log(start))) <= before:
            serves = any(process.poll() is None for line, process, _ in self.running if line.startswith(start))
            if time.monotonic() > end or not serves:
                raise AssertionError(f"{start}\n    never says {words}: {self.log(start)[-800:]}")
            time.sleep(0.05)

    def wait_for(self, holds, what):
        end = time.monotonic() + PATIENCE_S
        while not holds():
            expect(time.monotonic() < end, "waited in vain: " + what)
            time.sleep(0.2)

    def said(self, start, words):
        return len(re.findall(words, self.log(start)))

    def stop(self, start, number):
        """Send a signal to the programs whose lines begin with `start`, and return how they ended."""
        ends = []
        for line, process, _ in self.running:
            if line.startswith(start) and process.poll() is None:
                process.send_signal(number)
                ends.append(process.wait(PATIENCE_S))
        return ends

    def close(self):
        self.stop("", signal.SIGKILL)


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def fleet(m, lines):
    """A coordinator and two devices are killed in the middle, the model is saved, and a program of one's own trains."""
    counted = "update counted"
    for line in lines:
        if line.startswith("fedserver export"):
            m.wait("fedclientd", "accuracy")
            serve = next(x for x in lines if x.startswith("fedserver run"))
            m.stop(serve, signal.SIGKILL)
            m.start(serve)
            m.wait(serve, "goes on with round")
            device = next(x for x in lines if x.startswith("fedclientd"))
            expect(len(m.stop(device, signal.SIGKILL)) == 1, "the device had ended")
            before = m.said(device, counted)
            m.start(re.sub(r'--token "[^"]*"', "", device))
            m.wait("fedclientd", counted, before + 1)
        if line.startswith("fedserver pause"):
            m.stop("fedclientd", signal.SIGINT)
        out = m.run(line)
        if line.startswith("build/product/bin/minimal"):
            expect(re.search(r"^round 10: loss ", out, re.MULTILINE), out)
    expect(m.stop("fedserver run", signal.SIGINT).count(0) == 1, "the coordinator does not end well")
    expect(os.path.getsize(m.work + "/model.safetensors") > 1_000_000, "the model is small")


def three(m, lines):
    """Of three coordinators the leader is killed, and comes back to follow."""
    serve = [x for x in lines if x.startswith("fedserver run")]
    out = ""
    for line in lines:
        if line.startswith("pkill"):
            m.wait("fedclientd", "round 2: update counted")
            pattern = re.search(r"'(.*)'", line).group(1)
            leader = next(x for x in serve if re.sub(" +", " ", x).startswith(pattern + " "))
            before = m.said("fedclientd", "update counted")
            m.stop(leader, signal.SIGKILL)
            m.wait(serve[1][:24], "leads: term 2")
            m.wait("fedclientd", "update counted", before + 2)
            m.start(leader)
            m.wait(leader, "requests are passed on to the leader")
            continue
        if line.startswith("fedserver check"):
            expect(all(end == 0 for end in m.stop("fedclientd", signal.SIGINT) + m.stop("fedserver run", signal.SIGINT)), "not all end well")
        out = m.run(line)
    expect("0 rules broken" in out, out)


def hospitals(m, lines):
    """A round is opened, a task without the helper is declined, and a round waits while the helper is away."""
    helper, opened = "fedserver helper", r"task \d+: opened round \d+, a sum of 4 devices"
    for line in lines:
        if line.startswith("cp /tmp/council"):
            m.wait(helper, "helper: [0-9a-f]{130}")
        if line.endswith("two-devices.json"):
            m.wait(helper, opened)
        if line.startswith("pkill"):
            m.wait("fedclientd", "declines task 2.*no helper opens its sums", 3)
            expect(m.stop(helper, signal.SIGTERM) == [0], "the helper does not end well")
            before = m.said(helper, opened)
            continue
        if line.startswith("fedserver status"):
            m.wait_for(lambda ask=line: "its helper" in m.run(ask), "that the round waits for its helper")
            m.start(next(x for x in lines if x.startswith(helper)))
            m.wait(helper, opened, before)
        m.run(line)
    expect(os.path.getsize(m.work + "/model.safetensors") > 1_000_000, "the model is small")


def epsilon(m, lines):
    """The noise is told beforehand, and the ledger has what the text says."""
    for line in lines:
        out = m.run(line)
        if line.startswith("fedserver task"):
            expect("8 (K = 8) at delta 1e-05" in out and "the noise of all rounds is 0.30 of the clip" in out, out)
        if line.startswith("fedserver ledger"):
            took = [int(number) for number in re.findall(r"^[0-9a-f]{16} +took part (\d+) times, the last in round \d+, epsilon", out, re.MULTILINE)]
            expect(len(took) == 40 and sum(took) == 12 * 20 and max(took) <= 8, out)
            expect("took part 6 times, the last in round 11, epsilon 6.748" in out, out)


def start_database(work):
    """Start PostgreSQL with a database `fed`, on a socket in work/pg. Returns a function that stops it; None: it is not installed."""
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    names = [user.pw_name for user in pwd.getpwall()]
    if not programs or (os.geteuid() == 0 and ("postgres" not in names or not shutil.which("runuser"))):
        return None
    other = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = work + "/pg"
    os.mkdir(folder)
    if other:
        os.chmod(work, 0o755)
        shutil.chown(folder, "postgres")
    subprocess.run([*other, programs[-1] + "/initdb", "-D", folder + "/data", "-U", "fed", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C",
                    "--data-checksums"], cwd="/", check=True, stdout=subprocess.DEVNULL)
    control = [*other, programs[-1] + "/pg_ctl", "-D", folder + "/data", "-w", "-s"]
    subprocess.run([*control, "-o", f"-k {folder} -c listen_addresses=", "-l", folder + "/log", "start"], cwd="/", check=True)
    os.environ.update(PGHOST=folder, PGUSER="fed")
    subprocess.run([programs[-1] + "/createdb", "fed"], check=True)
    return lambda: subprocess.run([*control, "-m", "immediate", "stop"], cwd="/", check=True)


def follow(root, binaries, name, play):
    with tempfile.TemporaryDirectory(prefix="fedtutorial-") as work:
        database = start_database(work) if play is three else None
        if play is three and database is None:
            print(f"{name}: not followed, PostgreSQL is not installed; deploy/setup.sh --postgres installs it")
            return
        m = Machine(root, binaries, work)
        try:
            lines = lines_of(root, name)
            play(m, lines)
            print(f"{name}: {len(lines)} lines were followed", flush=True)
        finally:
            m.close()
            if database:
                database()


PLAYS = {"fleet.md": fleet, "three-coordinators.md": three, "two-hospitals.md": hospitals, "epsilon.md": epsilon}


def main(root, binaries, names):
    if os.environ.get("FED_TUTORIALS") != "alone":
        if subprocess.run([*ALONE, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            print("skipped: a network namespace can't be made here")
            return 77
        return subprocess.run([*ALONE, sys.executable, "-B", __file__, root, binaries, *names], env=dict(os.environ, FED_TUTORIALS="alone"), check=False).returncode
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for name, play in PLAYS.items():
        if name in (names or PLAYS):
            follow(root, binaries, name, play)
    return 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]))
