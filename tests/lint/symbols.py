"""Check who calls whom, by the symbols of compiled objects. A source that declares a function itself can call an upper room's
function without an include, so layers.py alone does not find all such uses.

    symbols.py ROOT BUILD      prints path:line: what is wrong and what to do; exit status 1 if anything is

The rooms and their order are those of layers.py. Needs a build, and nm.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys

import layers
import tree

FOLDERS = ("common/", "codecs/", "fedclient/", "fedserver/", "deploy/sim/")
# Prefixes of the public headers of each folder.
PREFIX = {"common/": "fed", "common/gpu/": "fed", "codecs/": "fedcodec", "fedclient/": "fedclient", "fedclient/train/": "fedtrain",
          "fedclient/datacenter/": "feddc", "fedserver/": "fedserver"}


def objects(build):
    """Yield (source, object) of each object of the product's folders, which a build keeps as FOLDER/CMakeFiles/TARGET.dir/SOURCE.o."""
    for folder in FOLDERS:
        for place, _, names in os.walk(os.path.join(build, folder)):
            for name in names:
                path = os.path.relpath(os.path.join(place, name), build)
                before, _, after = path.partition("/CMakeFiles/")
                target, _, source = after.partition(".dir/")
                if target and source.endswith(".c.o"):
                    yield os.path.normpath(os.path.join(before, source[:-2])), os.path.join(build, path)


def symbols(paths):
    """Return {object: (defined, undefined)} with the names of global symbols."""
    found = {}
    out = subprocess.run(["nm", "-A", "-P", "-g", *paths], capture_output=True, text=True, check=True).stdout
    for line in out.splitlines():
        path, _, rest = line.partition(": ")
        name, kind = rest.split()[:2]
        found.setdefault(path, (set(), set()))[kind in "Uwv"].add(name)
    return found


def upward(source, target):
    """Return why the source may not use the target; None: it may."""
    room, other_room = layers.room_of(source), layers.room_of(target)
    if room != other_room and PREFIX.get(other_room) not in layers.ROOMS[room]:
        return f"{other_room} is not below {room}"
    (folder, low), (other, high) = layers.inner_room_of(source), layers.inner_room_of(target)
    if folder is not None and folder == other and low is not None and high is not None and high > low:
        order = layers.INNER_ROOMS[folder]
        return f"{folder}{order[high]} is above {folder}{order[low]}"
    return None


def check(root, build):
    made = dict((path, source) for source, path in objects(build) if os.path.exists(os.path.join(root, source)))
    if not made:
        print(f"symbols: nothing is built in {build}")
        sys.exit(77)
    found = symbols(sorted(made))
    home = {}
    for path, (defined, _) in found.items():
        for name in defined:
            home.setdefault(name, made[path])
    findings = set()
    for path, (_, undefined) in found.items():
        for name in undefined & home.keys():
            why = upward(made[path], home[name])
            if why:
                findings.add(f"{made[path]}:1: {name} of {home[name]}: {why}. Move what both need down, or hand it down as a function pointer")
    return sorted(findings)


if __name__ == "__main__":
    sys.exit(tree.report(check(sys.argv[1], sys.argv[2]), "symbols"))
