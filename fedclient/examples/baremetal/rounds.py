#!/usr/bin/env python3
"""Let the board train through power cuts, and compare with a board without cuts: rounds.py PROGRAMS OUT ROUNDS

PROGRAMS has fedserver, fedclientd and fedtrain. OUT has board/board.elf, and the folder data/ that samples.py made. Both
runs have the same task: a board in QEMU and a device on this machine, over TLS. The power of the second board fails three times: at a random moment, in the
middle of programming its flash, and in the middle of an erase. Then both coordinators must have the same model, to the bit: an update that was
lost or counted twice, or a residual that was lost, would change it. The board's memory use is written to OUT/memory.txt.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

MODEL = "input 1x14x14 | conv 6 3x3 | maxpool 2 | dense 24 | relu | dense 10"
TASK = {"name": "board", "model": MODEL, "codec_up": "sbc:p=0.05", "codec_down": "3lc:s=1+entropy", "local_steps": 20, "batch": 8,
        "optimizer": "sgd", "learning_rate": 0.1, "cohort": 2, "goal": 2, "minimum": 2, "deadline_s": 120}
FLASH_BYTES = 64 * 4096
POWER_CUT = 42   # the emulator's exit status after a simulated power cut: nor_simulation.c
LONGEST_S = 240  # the emulator is killed after this many seconds


def fail(text):
    sys.exit(f"rounds: {text}")


class Federation:
    """A coordinator with the task, and a device beside the board."""

    def __init__(self, programs, out, name, rounds):
        self.programs, self.out, self.folder = programs, out, os.path.join(out, name)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.run("fedserver", "init", "--dir", "coordinator", "--host", "127.0.0.1", "--host", "10.0.2.2")
        with open(f"{self.folder}/task.json", "w", encoding="utf-8") as file:
            json.dump({**TASK, "rounds": rounds}, file)
        with open(f"{self.folder}/flash", "wb") as file:
            file.write(b"\xff" * FLASH_BYTES)
        self.run("fedserver", "task", "--dir", "coordinator", "task.json")
        self.server = self.start("fedserver", "run", "--dir", "coordinator", "--front-port", "0", "--devices-port", "0", "--quiet")
        front = re.search(r"front https://127\.0\.0\.1:(\d+)", self.server.stdout.readline())
        if front is None:
            fail("the coordinator did not start")
        self.port = front.group(1)
        self.companion = self.start("fedclientd", "--server", f"https://127.0.0.1:{self.port}", "--ca", "coordinator/ca.pem", "--state",
                                    "companion", "--data", f"{out}/data/companion", "--token", self.token(), "--until-finished")
        threading.Thread(target=self.companion.stdout.read, daemon=True).start()
        self.board_token = self.token()

    def run(self, program, *words):
        done = subprocess.run([os.path.join(self.programs, program), *words], cwd=self.folder, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            fail(f"{program} {' '.join(words)}:\n{done.stdout}")
        return done.stdout.strip()

    def start(self, program, *words):
        return subprocess.Popen([os.path.join(self.programs, program), *words], cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)

    def token(self):
        return self.run("fedserver", "token", "--dir", "coordinator")

    def model(self):
        """The bytes of the final model, and the output of an evaluation on the test pictures."""
        self.run("fedserver", "export", "--dir", "coordinator", "model.safetensors")
        with open(f"{self.folder}/model.safetensors", "rb") as file:
            values = file.read()
        told = self.run("fedtrain", "evaluate", "--model", MODEL, "--weights", "model.safetensors", "--data", f"{self.out}/data/board")
        return values, told

    def end(self):
        for process in (self.companion, self.server):
            if process.poll() is None:
                process.terminate()
            process.wait(30)


class Board:
    """The emulated board, from a start to a power cut or to its end."""

    def __init__(self, federation, cut=None):
        settings = [f"server=https://10.0.2.2:{federation.port}", "ca=coordinator/ca.pem", "flash=flash",
                    f"token={federation.board_token}"] + ([f"cut={cut}"] if cut else [])
        words = ",".join(f"arg={word}" for word in ["board", *settings])
        self.process = subprocess.Popen(
            ["qemu-system-arm", "-M", "mps2-an385", "-kernel", f"{federation.out}/board/board.elf", "-display", "none", "-monitor", "none",
             "-serial", "none", "-nic", "user,model=lan9118", "-semihosting-config", f"enable=on,target=native,{words}"],
            cwd=federation.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.watch = threading.Timer(LONGEST_S, self.process.kill)
        self.watch.start()
        self.said = []

    def listen(self, until=None):
        """Read the board's output, to its end or to a line that begins with the text until."""
        for line in self.process.stdout:
            self.said.append(line.strip())
            if until is not None and line.startswith(until):
                return
        self.process.wait()
        self.watch.cancel()

    def expect(self, status, why):
        self.listen()
        if self.process.returncode != status:
            fail(f"{why}: the emulator ended with {self.process.returncode}, not {status}. The board said:\n" + "\n".join(self.said))

    def counted(self):
        return [line for line in self.said if "counted" in line]


def undisturbed(federation):
    board = Board(federation)
    board.expect(0, "a board without cuts")
    return board


def through_cuts(federation):
    """Run the board through three power cuts, and then to the end of the task."""
    board = Board(federation)
    board.listen("round 1: counted")
    time.sleep(random.uniform(0, 1.5))
    board.process.send_signal(signal.SIGKILL)
    board.listen()
    print(f"cut 1: killed at a random moment, after {len(board.counted())} updates")
    # A round programs the flash about 250 times, and erases about 15 blocks.
    for number, cut in ((2, f"program:{random.randint(20, 250)}"), (3, f"erase:{random.randint(2, 15)}")):
        board = Board(federation, cut)
        board.expect(POWER_CUT, f"a board whose power fails in {cut}")
        print(f"cut {number}: in the middle of {cut.replace(':', ' ')} of the flash, {len(board.counted())} updates after the start")
    return undisturbed(federation)


def run(programs, out, name, rounds, play):
    federation = Federation(programs, out, name, rounds)
    try:
        board = play(federation)
        return board, *federation.model()
    finally:
        federation.end()


def main(programs, out, rounds):
    _, wanted, _ = run(programs, out, "undisturbed", rounds, undisturbed)
    board, values, told = run(programs, out, "cuts", rounds, through_cuts)
    print("\n".join(board.said[-3:]))
    if values != wanted:
        fail("after three power cuts the model differs from that without cuts: an update or a residual was lost, or counted twice")
    with open(f"{out}/memory.txt", "w", encoding="utf-8") as file:
        file.write(board.said[-1] + "\n")
    print(f"after three power cuts and {rounds} rounds the model has the same bits as without cuts\n{told}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(sys.argv[1], os.path.abspath(sys.argv[2]), int(sys.argv[3]))
