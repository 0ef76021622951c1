"""States of a coordinator, one function for each: what /v1/status and /v1/devices would answer."""
# SPDX-License-Identifier: Apache-2.0
import math

NOW = 1_760_000_000_000
MINUTE = 60_000


def rounds(count, took_ms=20_000, last_ms=NOW - 8_000, loss=None, evaluated=True):
    """Return committed rounds, newest first."""
    loss = loss or (lambda k: 2.1 * math.exp(-k / 9) + 0.12 + 0.01 * math.sin(k))
    made = []
    for k in range(1, count + 1):
        committed = last_ms - (count - k) * took_ms
        made.append({"number": k, "attempts": 1, "updates": 12, "samples": 7200, "loss": loss(k),
                     "opened_ms": committed - took_ms, "committed_ms": committed,
                     "update_bytes": 310_000 - 2_000 * k if k < 60 else 190_000, "delta_bytes": 41_000 + 90 * k,
                     "accuracy": 0.97 - 0.85 * math.exp(-k / 8) if evaluated else None,
                     "test_loss": 1.05 * loss(k) if evaluated else None})
    return made[::-1]


def task(version, total, state="running", name="digits of the branch offices", number=3):
    return {"id": number, "name": name, "state": state, "model": "lenet5", "parameters": 61_706, "rounds": total,
            "version": version, "digest": "9f86d081884c7d65", "codec_up": "sbc:p=0.01", "codec_down": "int8",
            "local_steps": 20, "batch": 32, "optimizer": "sgd:momentum=0.9", "learning_rate": 0.05, "phase": 1, "phases": 1,
            "next_phase": None}


COLUMNS = ("number", "attempts", "updates", "opened_ms", "committed_ms", "update_bytes", "delta_bytes", "loss", "test_loss", "accuracy")


def history(the_status, past, task, first=0, last=2**32, points=500):
    """Return what /v1/rounds would answer: every n-th round, and the newest one."""
    runs = {one["task"]["id"]: (one["task"], one.get("rounds") or the_status["rounds"]) for one in the_status.get("running", [])}
    if the_status["task"]:
        runs[the_status["task"]["id"]] = (the_status["task"], the_status["rounds"])
    runs.update(past)
    about, made = runs[task]
    wanted = [r for r in made[::-1] if first <= r["number"] <= last]
    step = max(1, -(-len(wanted) // points))
    kept = wanted[::step] + (wanted[-1:] if wanted and (len(wanted) - 1) % step else [])
    events = [{"at_ms": made[len(made) // 2]["committed_ms"] + 5, "event": event} for event in ("task_paused", "task_resumed")] if made else []
    own = [{"name": name, "by": by, "mean": [next((m["mean"] for m in r.get("metrics", []) if (m["name"], m["by"]) == (name, by)), None)
                                             for r in kept]}
           for name, by in sorted({(m["name"], m["by"]) for r in kept for m in r.get("metrics", [])})]
    return {"task": about, "count": len(made), "own": own, "events": events, "rounds": {name: [r[name] for r in kept] for name in COLUMNS}}


def queued(number, name, state, version, total, **more):
    return {"id": number, "name": name, "state": state, "position": number, "rounds": total, "version": version,
            "queued_ms": NOW - 300 * MINUTE, "started_ms": None, "finished_ms": None,
            "declined": {"count": 0, "reasons": []}, **more}


def device(number, state="waiting", **more):
    return {"id": number, "name": f"branch-{number:05d}", "fingerprint": f"{number * 2654435761 % 2**32:08x}" * 8,
            "state": state, "last_seen_ms": NOW - 1000 * (5 + number % 600), "samples": 400 + number % 300,
            "counted": 20 + number % 30, "late": number % 3, "refused": 0, "software": "fedclientd/0.1.0", "computes_on": "", "role": "device",
            "tag": "", "enrolled_ms": NOW - 9e8, "expires_ms": NOW + 6e10, "cloned_ms": 0, "declined_until_ms": None, **more}


def some_devices():
    return [device(k, "training" if k < 4 else "waiting") for k in range(1, 12)] + [
        device(12, "away", last_seen_ms=NOW - 7 * 3_600_000, late=9, counted=4),
        device(13, "new", name="", last_seen_ms=None, counted=0, late=0, samples=0, software=""),
        device(14, "waiting", role="evaluator", name="referee", counted=0, late=0),
        device(15, "revoked", name="stolen-laptop")]


def status(the_task, the_round, the_rounds, tasks, devices):
    return {"version": "0.1.0", "protocol": 2, "now_ms": NOW, "devices": len(devices), "task": the_task, "tasks": tasks,
            "round": the_round, "rounds": the_rounds, "certificate_ends_ms": NOW + 400 * 86_400_000,
            "traffic": {"received_bytes": 81_234_567, "sent_bytes": 1_234_567_890, "requests": 48_211}}


def open_round(number, received=8, out=3, attempt=1, **more):
    return {"number": number, "attempt": attempt, "cohort": 15, "goal": 12, "minimum": 6, "staleness": 0,
            "leased": received + out, "received": received, "out": out, "free": 15 - received - out,
            "devices": ["1f2e3d4c"], "opened_ms": NOW - 8_000, "deadline_ms": NOW + 14_000,
            "waits_for": "4 more updates (8 of 12) from 3 devices (1f2e3d4c, 2b3c4d5e, 99aabbcc) until 14:20:31 UTC", **more}


def empty():
    return status(None, None, [], [], []), []


def running():
    devices = some_devices()
    return status(task(30, 50), open_round(31), rounds(30), [
        queued(3, "digits of the branch offices", "running", 30, 50, started_ms=NOW - 11 * MINUTE)], devices), devices


def outlier():
    """One round of a long run has a loss far from all others."""
    devices = some_devices()
    made = rounds(60)
    made[20]["loss"] = 9e6
    return status(task(60, 80), open_round(61), made, [], devices), devices


def reporting():
    """Devices and an evaluator report metrics of their own."""
    devices = some_devices()
    made = rounds(30)
    for r in made:
        k = r["number"]
        f1 = 0.9 - 0.7 * math.exp(-k / 7)
        r["metrics"] = [metric("energy_mj", "devices", 71 + 5 * math.sin(k)), metric("f1", "devices", f1),
                        metric("f1", "evaluators", f1 - 0.05, reports=1)]
        r["metrics_dropped"] = 0
    made[0]["metrics"] = made[0]["metrics"][1:]  # the newest round has no energy_mj
    made[0]["metrics_dropped"] = 3
    return status(task(30, 50), open_round(31), made, [], devices), devices


def metric(name, by, mean, reports=12):
    spread = 0.1 * abs(mean) if reports > 1 else 0
    return {"name": name, "by": by, "reports": reports, "samples": 7200, "mean": mean, "least": mean - spread, "most": mean + spread}


def stuck():
    """Too few devices come, the last commit is old, and the certificate ends."""
    devices = [device(1, "training")] + [device(k, "away", last_seen_ms=NOW - k * 3_600_000) for k in range(2, 7)]
    the = status(task(7, 50), open_round(8, received=1, out=1, attempt=4), rounds(7, last_ms=NOW - 190 * MINUTE),
                 [queued(3, "digits of the branch offices", "running", 7, 50, started_ms=NOW - 300 * MINUTE)], devices)
    the["certificate_ends_ms"] = NOW + 3 * 86_400_000
    return the, devices


def poisoned():
    """One device's updates are refused, and the loss rises."""
    devices = some_devices()
    devices[5].update(name="kitchen-tablet", refused=41, counted=3)
    worse = rounds(30, loss=lambda k: 0.3 + 1.2 * math.exp(-k / 5) + (0.09 * (k - 18) if k > 18 else 0))
    for made in worse[:4]:
        made["heaviest"] = {"device": devices[2]["fingerprint"][:16], "share": 0.21}
        made["furthest"] = {"device": devices[5]["fingerprint"][:16], "norm": 40.5}
    return status(task(30, 50), open_round(31), worse, [
        queued(3, "digits of the branch offices", "running", 30, 50, started_ms=NOW - 11 * MINUTE)], devices), devices


def worker(rank, state="well", phase="backward", compute_ms=21.4, waits_for=None, **more):
    return {"rank": rank, "host": f"node-{rank}", "computes_on": "", "pid": 4700 + rank, "state": state, "phase": phase, "step": 1203, "compute_ms": compute_ms,
            "waits_for": waits_for, "sent_bytes": 48_000_000 + rank, "received_bytes": 47_000_000 + rank, **more}


def gang(the_device, workers, verdict=None, **more):
    return {"device": the_device["fingerprint"][:16], "heard_ms": NOW - 900, "task": 3, "round": 31, "size": len(workers), "link": "tcp",
            "collective": "owners", "sync": "ssgd", "codec": "3lc:s=1.75", "pull": "float32", "exposed": 0.07, "verdict": verdict,
            "workers": workers, **more}


def clusters():
    """Two devices are clusters: one is well, in the other a worker has died."""
    devices = some_devices()
    devices[0].update(name="east", computes_on="cuda:0 NVIDIA H100 80GB HBM3")
    devices[1].update(name="west", computes_on="opencl:0 pthread-haswell-AMD EPYC 7R13 Processor")
    the = status(task(30, 50), open_round(31), rounds(30), [
        queued(3, "digits of the branch offices", "running", 30, 50, started_ms=NOW - 11 * MINUTE)], devices)
    the["worker_groups"] = [
        gang(devices[0], [worker(k, compute_ms=21.4 if k != 2 else 40.0, computes_on=f"cuda:{k} NVIDIA H100 80GB HBM3") for k in range(4)]),
        gang(devices[1], [worker(0, phase="exchange", waits_for=1), worker(1, "dead", "backward"), worker(2, "slow", "forward", 88.0)],
             "worker 1 (host node-1, pid 4701) died at step 1203 in backward; 2 others wait for bucket 5", heard_ms=NOW - 14_000)]
    return the, devices


def cloned():
    devices = some_devices()
    devices[3].update(cloned_ms=NOW - 60_000)
    return status(task(30, 50), open_round(31), rounds(30), [], devices), devices


def declined():
    """Every device has declined the task."""
    devices = [device(k, "declined", declined_until_ms=NOW + 20 * 60 * MINUTE) for k in range(1, 5)]
    reason = "samples are 784 values, the model takes 3072"
    return status(task(0, 50, name="resnet for tablets"), open_round(1, received=0, out=0, deadline_ms=None), [], [
        queued(3, "resnet for tablets", "running", 0, 50, started_ms=NOW - 20 * MINUTE,
               declined={"count": 4, "reasons": [{"reason": reason, "devices": 4}]})], devices), devices


PROMISE = {"clip": 0.3, "epsilon": 8.0, "delta": 1e-5, "spent": 7.45, "z": 1.803, "participations": 8, "left": 4, "complete": True,
           "helper": None, "helper_is": None, "since_ms": None, "groups": None, "outliers": None}


def private(**more):
    """A task that promises an epsilon, most of which is spent."""
    devices = some_devices()
    the = status(task(30, 50), open_round(31), rounds(30), [
        queued(3, "digits of the branch offices", "running", 30, 50, started_ms=NOW - 11 * MINUTE)], devices)
    the["task"]["privacy"] = {**PROMISE, **more}
    return the, devices


def helped():
    """The round waits for the helper of another party, and no epsilon is promised."""
    nothing = dict.fromkeys(("epsilon", "delta", "spent", "z", "participations", "left", "complete"))
    the, devices = private(**nothing, helper="046b17d1f2e12c42", helper_is="the works council", since_ms=NOW - 3 * MINUTE)
    the["round"].update(received=12, out=0, free=3, closing_ms=NOW - 3 * MINUTE)
    return the, devices


def own_helper():
    """The operator runs the helper, too, and the ledger is that of a backup."""
    return private(helper="046b17d1f2e12c42", helper_is="ours", complete=False, left=12, spent=1.2)


def grouped():
    """Rounds fall into groups, and one device is in the worst of them each time."""
    the, devices = helped()
    the["task"]["privacy"].update(since_ms=None, groups=5, outliers=[
        {"device": devices[3]["fingerprint"][:16], "name": devices[3]["name"], "worst": 11, "rounds": 12, "expected": 2.4}])
    return the, devices


def nobody():
    return status(task(0, 50), open_round(1, received=0, out=0, deadline_ms=None), [], [], []), []


def few():
    """Fewer devices are enrolled than the minimum, so no round can end."""
    devices = [device(1, "training"), device(2, "waiting"), device(3, "revoked")]
    return status(task(0, 50), open_round(1, received=1, out=1, attempt=3), [], [], devices), devices


def finished():
    devices = [device(k) for k in range(1, 12)]
    return status(task(50, 50, "finished"), None, rounds(50, last_ms=NOW - 40 * MINUTE), [
        queued(3, "digits of the branch offices", "finished", 50, 50, started_ms=NOW - 70 * MINUTE,
               finished_ms=NOW - 40 * MINUTE)], devices), devices


def queue():
    """One task runs, three wait, and older ones are over."""
    devices = some_devices()
    return status(task(4, 50, number=5), open_round(5), rounds(4), [
        queued(1, "first try", "cancelled", 3, 50, started_ms=NOW - 900 * MINUTE, finished_ms=NOW - 800 * MINUTE),
        queued(2, "digits, small", "finished", 20, 20, started_ms=NOW - 700 * MINUTE, finished_ms=NOW - 400 * MINUTE),
        queued(5, "digits of the branch offices", "running", 4, 50, started_ms=NOW - 2 * MINUTE,
               declined={"count": 2, "reasons": [{"reason": "samples are 784 values, the model takes 3072", "devices": 2}]}),
        queued(6, "keyboards", "queued", 0, 100), queued(7, "digits again, with median", "queued", 0, 50),
        queued(8, "a name that is quite long because somebody wrote a whole sentence into it", "queued", 0, 50),
        queued(9, "waits for the new tablets", "paused", 12, 30, started_ms=NOW - 800 * MINUTE,
               waits="it was paused by uid=1000 at 2025-10-09 08:41 UTC; `fedserver resume` goes on with it")], devices), devices


def side_by_side():
    """Three tasks run, one of them fails, and a fourth one does not fit into memory."""
    devices = some_devices()
    parts = [(task(30, 50), open_round(31), rounds(30)),
             (task(4, 80, name="keyboards", number=4), open_round(5, received=2, out=6, attempt=3), rounds(4)),
             (task(0, 20, name="doors", number=5), open_round(1, received=0, out=0, deadline_ms=None), [])]
    needs = ("it needs 1320.0 MB of memory, and of the 2000.0 MB for all tasks the running ones take 1840.5 MB; it starts when a running task "
             "ends, is paused or is cancelled, or after `fedserver run` with a larger --task-memory")
    the = status(*parts[0], [
        queued(number, name, "running", version, total, priority=priority, round=parts[k][1], started_ms=NOW - (k + 9) * MINUTE)
        for k, (number, name, version, total, priority) in enumerate(
            [(3, "digits of the branch offices", 30, 50, 5), (4, "keyboards", 4, 80, 5), (5, "doors", 0, 20, 2)])] + [
        queued(6, "photographs", "queued", 0, 50, priority=9, waits=needs)], devices)
    the["running"] = [{"task": t, "round": r, "rounds": done} for t, r, done in parts]
    return the, devices


def long_run():
    """A run of 5,000 rounds, of which the status has 200; an older run of 300 rounds is finished. Returns the past, too."""
    devices = some_devices()
    made = rounds(5000, loss=lambda k: 2.1 * math.exp(-k / 900) + 0.12 + (3.0 if k == 1234 else 0))
    the = status(task(5000, 9000, number=5), open_round(5001), made[:200], [
        queued(5, "digits of the branch offices", "running", 5000, 9000, started_ms=NOW - 300 * MINUTE),
        queued(2, "<i>digits</i>, small", "finished", 300, 300, started_ms=NOW - 700 * MINUTE, finished_ms=NOW - 400 * MINUTE),
        queued(1, "never begun", "cancelled", 0, 300, finished_ms=NOW - 700 * MINUTE)], devices)
    older = task(300, 300, "finished", "<i>digits</i>, small", 2)
    older["learning_rate"] = 0.01
    older["privacy"] = {**PROMISE, "helper": "046b17d1f2e12c42", "helper_is": "the works council", "spent": 3.1, "left": 9}
    for r in made[1::2]:
        r["metrics"] = [metric("energy_mj", "devices", 71 + r["number"] / 1000)]
    the["coordinators"] = {"leader": "192.0.2.1:8445", "term": 7, "since_ms": NOW - 50 * MINUTE, "followers": 2}
    past = {5: (the["task"], made), 2: (older, rounds(300, last_ms=NOW - 400 * MINUTE)),
            1: (task(0, 300, "cancelled", "never begun", 1), [])}
    return the, devices, past


def fleet():
    """A thousand devices, and fifty tasks that run."""
    devices = [device(k, ("training", "waiting", "away")[k % 3]) for k in range(1, 1001)]
    parts = [(task(40, 90, name=f"population number {k}", number=k), open_round(41), rounds(40, loss=lambda n, k=k: 1 / (n + k) + 0.1)) for k in range(1, 51)]
    the = status(*parts[0], [queued(k, f"population number {k}", "running", 40, 90, priority=5, round=open_round(41, out=7 if k == 17 else 3), started_ms=NOW) for k in range(1, 51)], devices)
    the["running"] = [{"task": t, "round": r, "rounds": done[:10]} for t, r, done in parts[1:]] + [{"task": parts[0][0], "round": parts[0][1]}]
    return the, devices


def crowd():
    devices = [device(k, ("training", "waiting", "waiting", "away", "new")[k % 5]) for k in range(1, 10_001)]
    devices[7_000].update(name="the-broken-one", refused=77, counted=1)
    return status(task(199, 400), open_round(200, received=812, out=120, cohort=1000, goal=900, minimum=500, free=68),
                  rounds(199), [queued(3, "digits of the branch offices", "running", 199, 400, started_ms=NOW - 90 * MINUTE)],
                  devices), devices


ALL = {f.__name__: f for f in (empty, running, outlier, reporting, stuck, poisoned, private, helped, own_helper, grouped, clusters, cloned, declined, nobody, few, finished, queue, side_by_side, fleet, crowd)}
