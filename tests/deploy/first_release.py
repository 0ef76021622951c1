"""Release 0.1.0 and this one, in each order: first_release.py ROOT BUILD

It builds release 0.1.0 from git's history, once for each build folder, and runs its programs:

  beside   a coordinator of 0.1.0 serves a device of 0.1.0 and one of this release. Each command of this release runs beside it, and
           changes nothing: it fails with the sentence that docs/operate.md has, the tables stay, rounds go on, and 0.1.0 reads its database
  front    the same, where the rounds and the front are services of their own
  upgrade  in the order of docs/operate.md: back up, stop, start this release. Both devices go on. Each command of 0.1.0 is refused then
  back     the backup, restored by 0.1.0: both devices go on
  stale    the rounds alone are upgraded, and the front of 0.1.0 is left running: it harms nothing
  killed   this release starts after kill -9 of 0.1.0
  copy     the same backup, restored by this release into a new directory, is a coordinator of this release

Release 0.1.0 has SQLite alone. Without git's history back to it, the test is skipped.
"""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import hashlib
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time

COMMIT = "2d9f7977a0444baf9b662b36eee1c53c0a597a55"  # release 0.1.0
LAYOUT = 7  # of its database
SECONDS = 240  # limit of a wait in seconds
SKIPPED = 77
PROGRAMS = ("fedserver", "fedclientd")
# A round needs both devices. Many local steps keep rounds apart by some milliseconds.
TASK = """{"name": "t", "model": "input 2 | dense 8 | relu | dense 2", "codec_up": "3lc:s=1", "codec_down": "float32", "local_steps": 500,
           "batch": 8, "rounds": 100000, "cohort": 2, "goal": 2, "minimum": 2, "deadline_s": 600}"""

OLDER = f"has layout {LAYOUT}, of release 0.1.0, and process %d serves it"
# How to run each command of this release beside 0.1.0: words after --dir, the exit status, and words of the answer.
BESIDE = {
    "init": [("", 1, "holds a coordinator already"), ("--keep", 0, "left as it is")],
    "run": [("--front-port 0 --devices-port 0", 1, "is being served by process %d")],
    "front": [("--front-port 0 --devices-port 1", 1, OLDER)],
    "helper": [("--upstream https://127.0.0.1:1 --upstream-ca ca.pem", 1, "can't open ca.pem")],
    "token": [("", 1, OLDER)],
    "tokens": [("", 1, OLDER), ("--json", 1, OLDER)],
    "task": [("{work}/task.json", 1, OLDER)],
    "tasks": [("", 1, OLDER), ("--json", 1, OLDER)],
    "cancel": [("1", 1, OLDER)],
    "pause": [("1", 1, OLDER)],
    "resume": [("1", 1, OLDER)],
    "priority": [("1 1", 1, OLDER)],
    "move": [("1 1", 1, OLDER)],
    "ledger": [("1", 1, OLDER), ("--json 1", 1, OLDER), ("--lost 1 1", 1, OLDER)],
    "reopen": [("1", 1, OLDER), ("--force 1", 1, OLDER)],
    "page": [("", 1, OLDER), ("--bearer", 1, OLDER), ("--revoke", 1, OLDER)],
    "devices": [("", 1, OLDER), ("--json", 1, OLDER)],
    "rename": [("00000000 it", 1, OLDER)],
    "revoke": [("00000000", 1, OLDER)],
    "audit": [("", 1, OLDER), ("--json", 1, OLDER)],
    "status": [("", 1, OLDER), ("--json", 1, OLDER)],
    "export": [("{work}/model.safetensors", 1, OLDER)],
    "backup": [("{work}/copy-by-the-new", 1, OLDER)],
    "restore": [("{work}/backup", 1, "holds a coordinator already")],
    "check": [("", 1, OLDER), ("--json", 1, OLDER)],
    "health": [("", 1, "of another release"), ("--json", 1, "of another release")],
    "cert": [(word, 1, OLDER) for word in ("show", "ca", "renew", "new-ca", "drop-old-ca", "--add-host it.example")],
}
# How to run each command of 0.1.0 on what this release has upgraded. All but the last two must say `NEWER`.
NEWER = "has layout "
AFTER = ["run --front-port 0 --devices-port 0", "front --front-port 0 --devices-port 1", "token", "task {work}/task.json", "devices",
         "revoke 00000000", "status", "export {work}/model.safetensors", "backup {work}/copy-by-the-old", "check", "restore {work}/backup", "init"]


def fail(text):
    sys.exit(f"first_release.py: {text}")


def skip(text):
    print(f"skipped: {text}")
    sys.exit(SKIPPED)


def say(*words, **options):
    """Run a command, which must succeed, and return what it prints."""
    run = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)
    if run.returncode != 0:
        fail(f"{' '.join(words)} ends with {run.returncode}:\n{run.stdout[-4000:]}")
    return run.stdout


def build_old(root, folder):
    """Return the folder of the programs of 0.1.0."""
    known = subprocess.run(["git", "-C", root, "cat-file", "-e", f"{COMMIT}^{{commit}}"], text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, check=False) if shutil.which("git") else None
    if known is None or known.returncode != 0:
        skip(f"git's history does not reach release 0.1.0, commit {COMMIT[:7]}: {known.stdout.strip() if known else 'git is not here'}")
    source, build = os.path.join(folder, "source"), os.path.join(folder, "build")
    if not os.path.isdir(source):
        shutil.rmtree(f"{source}.new", ignore_errors=True)
        os.makedirs(f"{source}.new")
        say("git", "-C", root, "archive", "-o", f"{source}.tar", COMMIT)
        with tarfile.open(f"{source}.tar") as archive:
            archive.extractall(f"{source}.new")
        os.remove(f"{source}.tar")
        os.rename(f"{source}.new", source)
    launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    say("cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DFED_TESTS=OFF", *launcher)
    say("cmake", "--build", build, "--target", *PROGRAMS)
    return os.path.join(build, "bin")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def put_table(folder):
    """Write a table of two classes that any model can tell apart."""
    os.mkdir(folder)
    for part, rows in (("train", 60), ("test", 12)):
        with open(os.path.join(folder, f"{part}.csv"), "w", encoding="utf-8") as file:
            file.write("x,y,label\n" + "".join(f"{k % 2},{k % 7 / 7},{k % 2}\n" for k in range(rows)))


def digest_of(folder):
    """Return the digest of all files of a folder, with their names."""
    digest = hashlib.sha256()
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            digest.update(name.encode() + b"\0" + file.read())
    return digest.hexdigest()


class Device:
    def __init__(self, world, bin_dir, name):
        self.log = os.path.join(world.work, f"{name}.log")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(world.device_words(bin_dir, name, world.run(world.old, "token").strip()), stdout=log, stderr=log)
        world.children.append(self.process)

    def counted(self):
        """Return how many updates of this device were counted."""
        with open(self.log, encoding="utf-8") as file:
            return file.read().count(": update counted")


class World:
    def __init__(self, work, old, new):
        self.work, self.old, self.new = work, old, new
        self.home = os.path.join(work, "home")
        self.front_port, self.devices_port = free_port(), free_port()
        self.children, self.services, self.devices = [], [], []
        put_table(os.path.join(work, "data"))
        with open(os.path.join(work, "task.json"), "w", encoding="utf-8") as file:
            file.write(TASK)

    def ask(self, bin_dir, line, home=None):
        """Run `fedserver LINE --dir HOME`. Return its exit status and what it prints."""
        words = line.replace("{work}", self.work).split()
        run = subprocess.run([os.path.join(bin_dir, "fedserver"), words[0], "--dir", home or self.home, *words[1:]], text=True,
                             timeout=SECONDS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return run.returncode, run.stdout

    def run(self, bin_dir, line, home=None):
        status, said = self.ask(bin_dir, line, home)
        if status != 0:
            fail(f"`fedserver {line}` of {bin_dir} ends with {status}: {said}")
        return said

    def wait_until(self, done, what):
        end = time.monotonic() + SECONDS
        while not done():
            for child in self.services + [device.process for device in self.devices]:
                if child.poll() is not None:
                    fail(f"while the test waited until {what}, {child.args[0]} {child.args[1]} ended with {child.returncode}: {self.tail()}")
            if time.monotonic() > end:
                fail(f"for {SECONDS} s the test waited until {what}: {self.tail()}")
            time.sleep(0.05)

    def tail(self):
        text = ""
        for name in sorted(os.listdir(self.work)):
            if name.endswith(".log"):
                with open(os.path.join(self.work, name), encoding="utf-8", errors="replace") as file:
                    text += f"\n-- {name}\n" + "".join(file.readlines()[-8:])
        return text

    def device_words(self, bin_dir, name, token):
        return [os.path.join(bin_dir, "fedclientd"), "--server", f"https://127.0.0.1:{self.front_port}", "--ca", f"{self.home}/ca.pem",
                "--state", os.path.join(self.work, name), "--token", token, "--dataset", "csv", "--data",
                os.path.join(self.work, "data"), "--hold", "2"]

    def check_all(self, home):
        """Let this release verify what a coordinator that nobody serves has stored."""
        if ": 0 rules broken" not in self.run(self.new, "check", home):
            fail(f"`fedserver check` finds broken rules in {home}")

    def start_one(self, bin_dir, command, *options):
        with open(os.path.join(self.work, f"{command}.log"), "a", encoding="utf-8") as log:
            child = subprocess.Popen([os.path.join(bin_dir, "fedserver"), command, "--dir", self.home, "--front-port", str(self.front_port),
                                      "--devices-port", str(self.devices_port), *options], stdout=log, stderr=log)
        self.children.append(child)
        self.services.append(child)
        return child

    def listens(self, port):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
            return True
        return False

    def start(self, bin_dir, apart=False):
        self.start_one(bin_dir, "run", *(["--no-front"] if apart else []))
        if apart:
            self.start_one(bin_dir, "front")
        self.wait_until(lambda: self.listens(self.front_port) and self.listens(self.devices_port), "both ports are open")

    def stop(self, how=signal.SIGTERM):
        for child in self.services:
            child.send_signal(how)
        for child in self.services:
            child.wait(timeout=SECONDS)
        self.services = []
        self.wait_until(lambda: not self.listens(self.front_port), "the front's port is closed")

    def rounds_go_on(self, when):
        for device in self.devices:
            before = device.counted()
            self.wait_until(lambda d=device, b=before: d.counted() >= b + 2, f"two more updates of each device count {when}")

    def tables(self):
        """Return the layout and the tables."""
        with contextlib.closing(sqlite3.connect(f"file:{self.home}/server.db?mode=ro", uri=True, timeout=SECONDS)) as db:
            return db.execute("PRAGMA user_version").fetchone(), db.execute("SELECT name, sql FROM sqlite_master ORDER BY 1").fetchall()

    def close(self):
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.wait()


def walk_beside(world, commands, served_by):
    """Run these commands of this release beside a coordinator of 0.1.0."""
    tables = world.tables()
    if tables[0] != (LAYOUT,):
        fail(f"release 0.1.0 made layout {tables[0]}, and this test says {LAYOUT}")
    for name in commands:
        for words, status, answer in BESIDE[name]:
            line = f"{name} {words}".strip()
            got, said = world.ask(world.new, line)
            wanted = answer.replace("%d", str(served_by))
            if got != status or wanted not in said:
                fail(f"beside 0.1.0 `fedserver {line}` ends with {got}, not {status} and \"{wanted}\": {said}")
            world.rounds_go_on(f"after `fedserver {line}` beside 0.1.0")
            if world.tables() != tables:
                fail(f"`fedserver {line}` has changed the tables of 0.1.0")
            world.run(world.old, "status")


def beside(world):
    sys.path.insert(0, os.path.join(sys.argv[1], "deploy"))
    program_help = __import__("program_help")
    names = [command.name for command in program_help.read_program(os.path.join(world.new, "fedserver"))[1] if command.name]
    if sorted(names) != sorted(BESIDE):
        fail(f"say in BESIDE how to run {sorted(set(names) ^ set(BESIDE))}")
    world.run(world.old, "init --host 127.0.0.1")
    world.run(world.old, "task {work}/task.json")
    world.start(world.old)
    world.devices = [Device(world, world.old, "old-device"), Device(world, world.new, "new-device")]
    world.rounds_go_on("in the first rounds")
    world.run(world.old, "backup {work}/backup")
    kept = digest_of(f"{world.work}/backup")
    walk_beside(world, names, world.services[0].pid)
    status, said = world.ask(world.new, "check", f"{world.work}/backup")
    if status != 1 or "restore it into a new directory" not in said or digest_of(f"{world.work}/backup") != kept:
        fail(f"`fedserver check` of a backup of 0.1.0 ends with {status}, or has changed the backup: {said}")
    for left in ("copy-by-the-new", "model.safetensors"):
        if os.path.exists(os.path.join(world.work, left)):
            fail(f"a refused command left {left}")
    print(f"beside: {sum(len(lines) for lines in BESIDE.values())} command lines of {len(names)} commands; "
          f"{world.devices[0].counted()} updates of the old device")


def front(world):
    world.stop()
    world.start(world.old, apart=True)
    world.rounds_go_on("with two services")
    rounds, old_front = world.services
    walk_beside(world, ["front", "run", "status"], rounds.pid)
    old_front.terminate()
    old_front.wait(timeout=SECONDS)
    world.services.remove(old_front)
    status, said = world.ask(world.new, f"front --front-port {world.front_port} --devices-port {world.devices_port}")
    if status != 1 or OLDER % rounds.pid not in said:
        fail(f"a front of this release beside rounds of 0.1.0 ends with {status}: {said}")
    world.rounds_go_on("after the front of this release was refused")
    world.start_one(world.old, "front")
    world.wait_until(lambda: world.listens(world.front_port), "the front of 0.1.0 serves again")
    world.run(world.old, "status")
    world.stop()
    world.start(world.old)
    world.rounds_go_on("with one service again")
    print("front: refused beside 0.1.0, whose own front takes its place again")


def upgrade(world):
    shutil.rmtree(f"{world.work}/backup")
    world.run(world.old, "backup {work}/backup")
    world.stop()
    world.start(world.new)
    world.rounds_go_on("after the upgrade")
    world.run(world.new, "health")
    for line in AFTER:
        status, said = world.ask(world.old, line)
        wanted = "holds a coordinator already" if line.split()[0] in ("restore", "init") else NEWER
        if status != 1 or wanted not in said:
            fail(f"after the upgrade `fedserver {line}` of 0.1.0 ends with {status}, without \"{wanted}\": {said}")
        world.rounds_go_on(f"after `fedserver {line}` of 0.1.0")
    for line in ("status", "devices", "tasks", "audit", "cert show", "backup {work}/new-backup"):
        world.run(world.new, line)
    world.check_all(f"{world.work}/new-backup")
    shutil.rmtree(f"{world.work}/new-backup")
    print("upgrade: both devices went on; 0.1.0 is refused")


def back(world):
    world.stop()
    os.rename(world.home, f"{world.home}-upgraded")
    world.run(world.old, "restore {work}/backup")
    world.start(world.old)
    world.rounds_go_on("after the way back to 0.1.0")
    world.run(world.old, "status")
    print("back: both devices went on with the backup that 0.1.0 restored")


def late_device_enrols(world):
    # An evaluator takes no slot of a round, so no round waits for it when it is killed.
    token = world.run(world.new, "token --role evaluator").strip()
    path = os.path.join(world.work, "late-device.log")

    def has_enrolled():
        with open(path, encoding="utf-8", errors="replace") as file:
            return "enrolled as" in file.read()

    with open(path, "w", encoding="utf-8") as log, subprocess.Popen(
            [*world.device_words(world.old, "late-device", token), "--evaluate"], stdout=log, stderr=log) as device:
        try:
            world.wait_until(has_enrolled, "a third device has enrolled")
        finally:
            device.kill()


def stale(world):
    """Upgrade the rounds alone, and leave a front of 0.1.0 running. Its page can't be had, and all else goes on."""
    world.stop()
    world.start(world.old, apart=True)
    world.rounds_go_on("before the upgrade of the rounds alone")
    rounds, old_front = world.services
    rounds.terminate()
    rounds.wait(timeout=SECONDS)
    world.services.remove(rounds)
    world.start_one(world.new, "run", "--no-front")
    world.rounds_go_on("beside a front of 0.1.0")
    late_device_enrols(world)
    old_front.terminate()
    old_front.wait(timeout=SECONDS)
    world.services.remove(old_front)
    world.start_one(world.new, "front")
    world.wait_until(lambda: world.ask(world.new, "health")[0] == 0 and world.listens(world.front_port), "the new front serves")
    world.rounds_go_on("with a front of this release")
    world.stop()
    world.check_all(world.home)
    print("stale: a front of 0.1.0 beside rounds of this release harmed nothing")


def killed(world):
    """Upgrade after a power cut, from a backup that 0.1.0 restored again."""
    shutil.rmtree(world.home)
    world.run(world.old, "restore {work}/backup")
    world.start(world.old)
    world.rounds_go_on("before kill -9")
    world.stop(signal.SIGKILL)
    world.start(world.new)
    world.rounds_go_on("after kill -9 and the upgrade")
    world.stop()
    world.check_all(world.home)
    print("killed: both devices went on after kill -9 and the upgrade")


def copy(world):
    kept = digest_of(f"{world.work}/backup")
    world.run(world.new, "restore {work}/backup", f"{world.work}/restored")
    world.check_all(f"{world.work}/restored")
    if digest_of(f"{world.work}/backup") != kept:
        fail("`fedserver restore` has changed the backup of 0.1.0")
    world.run(world.old, "check", f"{world.work}/backup")
    print("copy: this release restored the backup of 0.1.0 elsewhere, and left it as it was")


def main(root, build):
    old = build_old(root, os.path.join(build, "tests/first_release"))
    new = os.path.join(build, "bin")
    with tempfile.TemporaryDirectory(prefix="fed-first-release-") as work:
        world = World(work, old, new)
        try:
            for step in (beside, front, upgrade, back, stale, killed, copy):
                step(world)
        finally:
            world.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
