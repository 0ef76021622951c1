#!/usr/bin/env python3
"""Write an OCI image of our programs and of the Debian libraries that they load, without any other tool: image.py SPEC BUILD STAGE OUT

SPEC is a file of this folder, BUILD a build folder, STAGE a folder with the programs as they shall be in the image. OUT is an
archive that podman, docker, skopeo, umoci and containerd read. It has two layers: Debian's files, which rarely change, and ours.
The same files give the same bytes: entries are sorted, their time is SOURCE_DATE_EPOCH, and the owners are numbers.
"""
# SPDX-License-Identifier: Apache-2.0
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import sbom  # noqa: E402: sbom.py finds the files that a program needs, and their packages

USER = 65532  # a number, so that Kubernetes sees that it is not root; its group is 0, as for any user of OpenShift
ACCOUNTS = {"etc/passwd": f"root:x:0:0:root:/:/sbin/nologin\nfed:x:{USER}:0:fed:{{volume}}:/sbin/nologin\n",
            "etc/group": f"root:x:0:\nfed:x:{USER}:\n",
            "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n"}
SECOND_NS = 10**9


class Files:
    """Files for a tar archive, whose bytes depend on these files alone."""

    def __init__(self):
        self.entries = {}  # path: (its tarfile.TarInfo, content)

    def add(self, path, kind, mode, content=b"", owner=(0, 0), target=""):
        path = path.lstrip("/")
        parent = os.path.dirname(path)
        if parent and parent not in self.entries:
            self.add(parent, tarfile.DIRTYPE, 0o755)
        entry = tarfile.TarInfo(path)
        entry.type, entry.mode, entry.size, entry.linkname = kind, mode, len(content), target
        entry.uid, entry.gid = owner
        entry.mtime = sbom.source_date()
        self.entries[path] = (entry, content)

    def text(self, path, content):
        self.add(path, tarfile.REGTYPE, 0o644, content.encode())

    def file(self, path, source, mode=0o644):
        """Add a file; of a link, add the file that it points to. /lib becomes a link to /usr/lib if it is one on this machine."""
        top = "/" + path.split("/")[1]
        if os.path.islink(top):
            self.add(top, tarfile.SYMTYPE, 0o777, target=os.readlink(top))
            path = path.replace(top, "/" + os.readlink(top), 1)
        with open(source, "rb") as file:
            self.add(path, tarfile.REGTYPE, mode, file.read())

    def tar(self):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for path in sorted(self.entries):
                entry, content = self.entries[path]
                archive.addfile(entry, io.BytesIO(content))
        return out.getvalue()


def debian_layer(bill, volume):
    """Make the layer of Debian's libraries, with the copyright file of each package, and what scanners look for (status.d, os-release)."""
    layer = Files()
    for component in bill["components"]:
        places = [o["location"] for o in component.get("evidence", {}).get("occurrences", [])]
        for place in places:
            layer.file(place, os.path.realpath(place), 0o755 if "/ld-" in place else 0o644)
        if places:
            name = component["name"]
            layer.file(sbom.copyright_file(name), sbom.copyright_file(name))
            layer.text(f"var/lib/dpkg/status.d/{name}", sbom.package(name)["text"])
    layer.file("/usr/lib/os-release", "/usr/lib/os-release")
    layer.add("etc/os-release", tarfile.SYMTYPE, 0o777, target="../usr/lib/os-release")
    for path, text in ACCOUNTS.items():
        layer.text(path, text.format(volume=volume))
    return layer


def own_layer(spec, stage, bill):
    layer = Files()
    for program in spec["programs"]:
        layer.file(f"/usr/bin/{program}", os.path.join(stage, program), 0o755)
    layer.file("/usr/share/doc/fed/LICENSE", os.path.join(HERE, "../../LICENSE"))
    layer.text("usr/share/doc/fed/sbom.cdx.json", sbom.text_of(bill))
    layer.add(spec["volume"], tarfile.DIRTYPE, 0o770, owner=(USER, 0))
    layer.add("tmp", tarfile.DIRTYPE, 0o1777)
    for place in ("proc", "sys", "dev", "run"):  # runtimes mount here, and can't make these folders in a read-only root
        layer.add(place, tarfile.DIRTYPE, 0o755)
    return layer


class Archive:
    """An OCI image layout in a tar archive."""

    def __init__(self):
        self.files = {"oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode()}

    def blob(self, kind, content):
        """Add a blob, and return the descriptor that points to it."""
        digest = hashlib.sha256(content).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    def json_blob(self, kind, value):
        return self.blob(kind, json.dumps(value, sort_keys=True, separators=(",", ":")).encode())

    def write(self, path):
        files = Files()
        for name, content in self.files.items():
            files.add(name, tarfile.REGTYPE, 0o644, content)
        with open(path + ".new", "wb") as file:
            file.write(files.tar())
        os.replace(path + ".new", path)


def labels_of(spec, version, commit, created):
    words = {"title": spec["title"], "description": spec["description"], "version": version, "revision": commit,
             "created": created, "licenses": "Apache-2.0"}
    return {f"org.opencontainers.image.{name}": text for name, text in words.items()}


def config_of(spec, labels, layers):
    """Return the image's configuration. Healthcheck is Docker's: OCI has none, and other runtimes ignore it."""
    program = f"/usr/bin/{spec['programs'][0]}"
    run = {"User": str(USER), "Entrypoint": [program], "Cmd": spec["command"], "WorkingDir": spec["volume"], "Labels": labels,
           # Temporary files lie on the volume, so the root may be read-only.
           "Env": ["PATH=/usr/bin", f"TMPDIR={spec['volume']}"], "Volumes": {spec["volume"]: {}}, "StopSignal": "SIGTERM"}
    if spec["ports"]:
        run["ExposedPorts"] = {f"{port}/tcp": {} for port in spec["ports"]}
    if "health" in spec:
        run["Healthcheck"] = {"Test": ["CMD", program, *spec["health"]], "Interval": 30 * SECOND_NS,
                              "Timeout": 15 * SECOND_NS, "StartPeriod": 60 * SECOND_NS, "Retries": 3}
    created = labels["org.opencontainers.image.created"]
    return {"created": created, **platform(), "config": run,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar).hexdigest()}" for tar in layers]},
            "history": [{"created": created, "created_by": f"deploy/image.sh: {what}"} for what in ("Debian's files", "ours")]}


def platform():
    """Return this machine's platform by OCI's names; Debian has other names for some architectures."""
    others = {"i386": {"architecture": "386"}, "ppc64el": {"architecture": "ppc64le"},
              "armhf": {"architecture": "arm", "variant": "v7"}, "armel": {"architecture": "arm", "variant": "v5"}}
    return {"os": "linux", "architecture": sbom.architecture()} | others.get(sbom.architecture(), {})


def index_of(manifest, name, version):
    names = {"org.opencontainers.image.ref.name": version, "io.containerd.image.name": name}
    return {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [{**manifest, "platform": platform(), "annotations": names}]}


def docker_index_of(config, layers, name):
    """Describe the same image for docker load, of releases of Docker that do not know OCI layouts."""
    config, *layers = ["blobs/" + blob["digest"].replace(":", "/") for blob in [config, *layers]]
    return [{"Config": config, "RepoTags": [name], "Layers": layers}]


def main(spec_path, build, stage, out):
    with open(spec_path, encoding="utf-8") as file:
        spec = json.load(file)
    bill = sbom.document(build, [os.path.join(stage, name) for name in spec["programs"]], spec["name"], "container")
    ours = next(c for c in bill["components"] if c["name"] == spec["programs"][0])
    version, commit = ours["version"], ours["properties"][0]["value"]
    labels = labels_of(spec, version, commit, sbom.moment())
    layers = [debian_layer(bill, spec["volume"]).tar(), own_layer(spec, stage, bill).tar()]

    archive = Archive()
    config = archive.json_blob("config.v1+json", config_of(spec, labels, layers))
    packed = [archive.blob("layer.v1.tar+gzip", gzip.compress(tar, 9, mtime=0)) for tar in layers]
    manifest = archive.json_blob("manifest.v1+json", {
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": packed,
        "annotations": labels})
    name = f"localhost/{spec['name']}:{version}"
    archive.files["index.json"] = json.dumps(index_of(manifest, name, version), indent=1).encode()
    archive.files["manifest.json"] = json.dumps(docker_index_of(config, packed, name)).encode()
    archive.write(out)
    print(f"{out}\n{name}\n{manifest['digest']}\nunpacked {sum(map(len, layers)) / 1e6:.1f} MB, packed {os.path.getsize(out) / 1e6:.1f} MB")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
