"""fed.Client under signals, threads and forks, against a real coordinator."""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import unittest
import warnings

import fed
from coordinator import CoordinatorTest

LIMIT = 15  # seconds; a check-in is held for 25, and an address that is silent for 30


def nothing(params, told):
    return None, 1, {}


class Interrupts(CoordinatorTest):
    """Each script runs in a process of its own, says "now" once, and gets SIGINT a moment later."""

    def interrupt(self, script, how=signal.SIGINT, **options):
        names = {"url": self.coordinator.url, "ca": str(self.coordinator.ca), "state": self.folder + "/d", "token": self.coordinator.token(), **options}
        text = "import fed, os, signal, subprocess, sys, time\n" + "".join(f"{name} = {value!r}\n" for name, value in names.items()) + script
        with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler)) as process:
            self.addCleanup(process.kill)
            self.assertEqual(process.stdout.readline(), "now\n")
            threading.Timer(1, process.send_signal, [how]).start()  # by now it most likely waits; the test passes in either case
            try:
                said, errors = process.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                self.fail("the process goes on")
        return said + errors

    def test_a_held_check_in_ends(self):
        self.assertIn("KeyboardInterrupt", self.interrupt("""
with fed.Client(url, ca, state, token) as client:
    print("now", flush=True)
    client.run(lambda params, told: (None, 1, {}))
"""))

    def test_an_enrolment_before_a_silent_server_ends(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            self.assertIn("KeyboardInterrupt", self.interrupt("""
print("now", flush=True)
fed.Client(silent, ca, state, token)
""", silent=f"https://127.0.0.1:{silent.getsockname()[1]}"))

    def test_an_upload_to_a_coordinator_that_hangs_ends(self):
        self.task(rounds=1, cohort=1)
        self.assertIn("KeyboardInterrupt", self.interrupt("""
def train(params, told):
    os.kill(server, signal.SIGSTOP)
    print("now", flush=True)
    return None, 1, {}
with fed.Client(url, ca, state, token) as client:
    client.run(train)
""", server=self.coordinator._process.pid))

    def test_a_training_ends_at_once_and_is_dropped(self):
        self.task(rounds=1, cohort=1)
        for step in ("told.wanted()", "time.sleep(0.01)"):
            with self.subTest(step):
                self.assertIn("KeyboardInterrupt", self.interrupt(f"""
def train(params, told):
    print("now", flush=True)
    while True:
        {step}
with fed.Client(url, ca, state, token) as client:
    client.run(train)
"""))
        self.assertEqual(self.coordinator.status()["task"]["version"], 0)

    def test_a_client_in_the_background_ends(self):
        self.assertIn("KeyboardInterrupt", self.interrupt("""
with fed.Client(url, ca, state, token) as client:
    client.start(lambda params, told: (None, 1, {}))
    print("now", flush=True)
    client.join()
"""))

    def test_what_another_handler_raises_comes_out(self):
        self.assertIn("the handler of SIGTERM", self.interrupt("""
def end(number, frame):
    sys.exit("the handler of SIGTERM")
signal.signal(signal.SIGTERM, end)
with fed.Client(url, ca, state, token) as client:
    print("now", flush=True)
    client.run(lambda params, told: (None, 1, {}))
""", signal.SIGTERM))

    def test_a_handler_that_raises_nothing_may_stop_the_client(self):
        said = self.interrupt("""
with fed.Client(url, ca, state, token) as client:
    signal.signal(signal.SIGTERM, lambda *_: client.stop())
    print("now", flush=True)
    client.run(lambda params, told: (None, 1, {}))
    print("run has returned")
""", signal.SIGTERM)
        self.assertEqual(said, "run has returned\n")

    def test_a_simulation_ends_with_its_fedsim(self):
        said = self.interrupt("""
from unittest import mock
started = subprocess.Popen
def note(*words, **options):
    process = started(*words, **options)
    with open(state + "/pid", "w") as file:
        file.write(str(process.pid))
    print("now", flush=True)
    return process
with mock.patch.object(subprocess, "Popen", note):
    os.makedirs(state)
    for part in ("train", "test"):
        with open(f"{state}/{part}.csv", "w") as table:
            table.write("x,label\\n" + "0.5,1\\n1.5,0\\n" * 200)
    fed.sim.run(data=state, dataset="csv:label=label", model="input 1 | dense 2", clients=5, rounds=1000000, out=state + "/out", quiet=True)
""")
        self.assertIn("KeyboardInterrupt", said)
        with self.assertRaises(ProcessLookupError):
            os.kill(int(pathlib.Path(self.folder, "d", "pid").read_text(encoding="utf-8")), 0)


class OneInterrupt(CoordinatorTest):
    def setUp(self):
        super().setUp()
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

    def test_the_client_goes_on_after_an_interrupt(self):
        with self.client() as client:
            threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
            with self.assertRaises(KeyboardInterrupt):
                client.run(nothing)
            self.assertEqual(signal.getsignal(signal.SIGINT), signal.default_int_handler)
            self.task(rounds=1, cohort=1)
            done = []
            client.run(nothing, done.append)
        self.assertIn("counted", [event["outcome"] for event in done])

    def test_a_handler_that_raises_nothing_interrupts_nothing(self):
        heard = []
        before = signal.signal(signal.SIGTERM, lambda *_: (heard.append(1), self.task(rounds=1, cohort=1)))
        self.addCleanup(signal.signal, signal.SIGTERM, before)
        with self.client() as client:
            threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGTERM]).start()
            client.run(nothing)
        self.assertEqual(heard, [1])


class Threads(CoordinatorTest):
    def test_a_second_thread_gets_a_sentence(self):
        waits = threading.Event()
        with self.client(eligible=lambda: waits.set() or True) as client:
            client.start(nothing)
            waits.wait()
            for call in (lambda: client.step(nothing), lambda: client.run(nothing), lambda: client.start(nothing)):
                with self.assertRaisesRegex(RuntimeError, "works in the thread fed.Client; call stop|in the background already; join"):
                    call()
            client.stop()
            self.assertTrue(client.join())

    def test_close_refuses_while_another_thread_works(self):
        waits = threading.Event()
        client = self.client(eligible=lambda: waits.set() or True)
        thread = threading.Thread(target=client.run, args=[nothing])
        thread.start()
        waits.wait()
        with self.assertRaisesRegex(RuntimeError, "close.. was called while the client works"):
            client.close()
        client.stop()
        thread.join()
        client.close()
        client.stop()  # does nothing

    def test_a_callback_gets_a_sentence(self):
        self.task(rounds=1, cohort=1)
        said = []

        def train(params, told):
            for call in (lambda: client.step(nothing), lambda: client.run(nothing), client.close):
                with self.assertRaisesRegex(RuntimeError, "within a callback of the same client") as refusal:
                    call()
                said.append(str(refusal.exception))
            return None, 1, {}

        with self.client() as client:
            client.run(train)
        self.assertEqual([text.split("(")[0] for text in said], ["step", "run", "close"])

    def test_a_client_runs_in_the_background(self):
        self.task(rounds=2, cohort=1)
        done, threads = [], set()

        def train(params, told):
            threads.add(threading.current_thread())
            return None, 1, {}

        with self.client() as client:
            with self.assertRaisesRegex(RuntimeError, "call start.. first"):
                client.join()
            self.assertIs(client.start(train, done.append), client)
            self.assertTrue(client.join())
        self.assertEqual([event["outcome"] for event in done].count("counted"), 2)
        self.assertNotIn(threading.current_thread(), threads)

    def test_what_ends_the_background_comes_out_of_join(self):
        self.task(rounds=1, cohort=1)
        with self.client() as client, self.assertLogs("fed", "ERROR") as log:
            client.start(lambda params, told: 1 / 0)
            with self.assertRaisesRegex(ZeroDivisionError, "by zero"):
                client.join()
        self.assertIn("has ended: division by zero", "".join(log.output))

    def test_close_ends_the_background(self):
        with self.client() as client:  # there is no task to train
            client.start(nothing)
            self.assertFalse(client.join(0.1))

    def test_python_ends_a_client_in_the_background_before_itself(self):
        self.task(rounds=1000000, cohort=1)
        script = """
import atexit, fed, sys, threading
atexit.register(lambda: print(threading.active_count()))
trained = threading.Event()
def train(params, told):
    trained.set()
    return None, 1, {}
client = fed.Client(*sys.argv[1:]).start(train)
trained.wait()
"""
        words = [self.coordinator.url, str(self.coordinator.ca), self.folder + "/d", self.coordinator.token()]
        said = subprocess.run([sys.executable, "-c", script, *words], stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
        self.assertEqual(said, "1\n")


class Forks(CoordinatorTest):
    def fork(self, child):
        """Call child() in a forked process, which then waits to be killed. Returns its number and what it gave."""
        ours, its = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn where there are threads, such as NumPy's
            pid = os.fork()
        if pid == 0:
            try:
                os.write(its, str(child()).encode())
                signal.pause()
            finally:
                os._exit(1)
        os.close(its)
        with os.fdopen(ours, "rb") as pipe:
            said = os.read(pipe.fileno(), 1000).decode()
        self.addCleanup(os.waitpid, pid, 0)
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        return said

    def test_a_folder_is_free_while_a_worker_lives(self):
        client = self.client()

        def child():
            client.close()  # does nothing: the client is the parent's
            try:
                client.step(nothing)
            except RuntimeError as refusal:
                return refusal

        self.assertIn(f"belongs to process {os.getpid()}", self.fork(child))
        with self.assertRaisesRegex(fed.Error, "in use by another client"):
            self.client()
        client.close()
        self.client().close()


if __name__ == "__main__":
    unittest.main()
