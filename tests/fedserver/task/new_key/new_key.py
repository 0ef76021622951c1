"""How much work a new key of a task is. Adds two keys to a copy of the tree, counts the product files changed,
builds the coordinator of the copy and runs new_key.c, which shows that the keys work.

    new_key.py ROOT BUILD FOLDER CMAKE COMPILER LIBRARIES     works in FOLDER

BUILD: the tree's build folder, whose generated files are used. LIBRARIES: archives of that build, joined by '|', with code that
does not depend on the keys of a task.
"""
# SPDX-License-Identifier: Apache-2.0
import filecmp
import os
import shutil
import subprocess
import sys

MOST_FILES = 4
COPIED = ["common", "codecs", "fedclient", "fedserver", "deploy/sim", "tests/support"]

# The kind of key that needs most changes: devices are told its value, and phases may change it.
TOLD = [
    ("common/include/fed/capabilities.def", "FED_CAPABILITY(12, FED_STARTED)\n",
     "FED_CAPABILITY(12, FED_STARTED)\nFED_CAPABILITY(30, FED_CAN_BE_PATIENT)\n"),
    ("common/include/fed/wire.h", "} fed_task;\n", "    uint32_t patience;\n} fed_task;\n"),
    ("common/messages/wire.c", "    FIELD(U64,  seed,          0,    0),\n",
     "    FIELD(U64,  seed,          0,    0),\n    FIELD(U32,  patience,      1,    FED_CAN_BE_PATIENT),\n"),
    ("fedserver/include/fedserver/task_keys.def", "#undef FEDSERVER_TASK_KEY\n",
     'FEDSERVER_TASK_KEY(PATIENCE, patience, BOTH, INTEGER, task.wire.patience, 0, 1, 50, "5", NULL, "how long")\n'
     "#undef FEDSERVER_TASK_KEY\n"),
]
OWN = [
    ("fedserver/task/task.h", "    fedserver_round_rules rules;\n", "    fedserver_round_rules rules;\n    double mercy;\n"),
    ("fedserver/include/fedserver/task_keys.def", "#undef FEDSERVER_TASK_KEY\n",
     'FEDSERVER_TASK_KEY(MERCY, mercy, TASK, NUMBER, task.mercy, 0, 0, 1, "0.25", NULL, "how much")\n'
     "#undef FEDSERVER_TASK_KEY\n"),
]


def copy(root, folder):
    shutil.rmtree(folder, ignore_errors=True)
    for name in COPIED:
        shutil.copytree(os.path.join(root, name), os.path.join(folder, name))


def files_of(folder):
    return {os.path.relpath(os.path.join(at, name), folder)
            for at, _, names in os.walk(folder) for name in names}


def different(root, folder):
    """Return the files of the copy that differ from those of the tree."""
    return sorted(name for name in files_of(folder)
                  if not os.path.exists(os.path.join(root, name))
                  or not filecmp.cmp(os.path.join(root, name), os.path.join(folder, name), shallow=False))


def change(folder, changes):
    for name, old, new in changes:
        path = os.path.join(folder, name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if text.count(old) != 1:
            sys.exit(f"{name} must have this text once, to add a key beside it, but has it {text.count(old)} times: {old.strip()}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))


def add(root, folder, what, changes, before):
    change(folder, changes)
    touched = {name for name, _, _ in changes}
    if set(different(root, folder)) != before | touched:
        sys.exit(f"{what}: other files were changed than the expected ones")
    print(f"{what}: {len(touched)} product files: {', '.join(sorted(touched))}")
    if len(touched) > MOST_FILES:
        sys.exit(f"a new key must cost at most {MOST_FILES} files")
    return before | touched


def run(command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if result.returncode != 0:
        said = result.stdout.decode(errors="replace").splitlines()
        telling = [line for line in said if not line.startswith("[") or "FAILED" in line or "ERROR" in line]
        sys.exit("\n".join([" ".join(command)] + telling[:60]))
    return result.stdout.decode()


def main():
    root, made, folder, cmake, compiler, libraries = sys.argv[1:]
    tree, build = os.path.join(folder, "tree"), os.path.join(folder, "build")
    copy(root, tree)
    touched = add(root, tree, "a key that devices are told and phases may change", TOLD, set())
    add(root, tree, "a key of the coordinator's own", OWN, touched)
    here = os.path.dirname(os.path.abspath(__file__))
    run([cmake, "-S", here, "-B", build, "-G", "Ninja", f"-DCMAKE_C_COMPILER={compiler}", f"-DTREE={tree}",
         f"-DLIBRARIES={libraries}", f"-DMADE={made}"])
    run([cmake, "--build", build])
    print(run([os.path.join(build, "new_key")]), end="")
    shutil.rmtree(folder)


main()
