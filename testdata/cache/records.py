#!/usr/bin/env python3
"""Writes the record files in this directory that leafd would write, and damaged ones of them."""
import hashlib
import json
import pathlib

HERE = pathlib.Path(__file__).parent
SLOT = 16384
T = 1700000000000


def record(timestamp, **other):
    """The record of a daemon with ZooKeeper."""
    return {
        "cluster": "7f9c5a51-3c43-4a53-9b0e-0f2c6f3c2d11", "root": "/leaf", "forever": "/leaf/leaf_forever", "servers": ["10.0.0.1:2181", "10.0.0.2:2181"],
        "node": "10.0.0.5:8080", "worker_id": 7, "layout": "41+10+12",
        "epoch": 1288834974657, "timestamp": timestamp, "boot_id": "01234567-89ab-cdef-0123-456789abcdef", "booted": timestamp - 1000000,
        "ceiling": timestamp + 6000,
        "owner": "0b1d3a2e-7c86-4d6a-8f0e-5a8f6f0f9f21", "peers": ["10.0.0.6:8080", "10.0.0.7:8080"],
        "registered": timestamp - 3000, "home": "9f86d081884c7d65",
        "losses": 2, "lost_at": timestamp - 8000, "longest_lease": 30 * 7 * 24 * 3600 * 10**9, "longest_session": 40 * 10**9, "longest_lend": 600 * 10**9,
        "instance": "6f1f2f4a-54c1-4d0c-8a52-6b0b5f4f7e11", "born": timestamp - 9000,
        "state": "active", "floor": timestamp - 9000, "limit": timestamp + 604800000, "acked_limit": timestamp + 604797000,
        "acked": {"owner": "6e0c1d57-2b7f-4f0e-9d4b-8d1f6f3a5c02", "number": 11},
        "current": {"owner": "0b1d3a2e-7c86-4d6a-8f0e-5a8f6f0f9f21", "number": 12},
    } | other


def slot(sequence, rec, leafd=4):
    body = json.dumps(rec, indent=2).replace("\n", "\n  ")
    checked = f'"sequence": {sequence},\n  "record": {body}\n}}'.encode()
    digest = hashlib.sha256(checked).hexdigest()
    return (f'{{\n  "leafd": {leafd},\n  "sha256": "{digest}",\n  '.encode() + checked).ljust(SLOT - 1) + b"\n"


def write(name, *parts):
    (HERE / name).write_bytes(b"".join(parts))


older, newer, next_ = slot(4, record(T)), slot(5, record(T + 3000)), slot(6, record(T + 6000))
torn = next_[:300] + older[300:]  # the save of sequence 6 was cut short by a power cut
other = slot(5, record(T + 3000, node="10.0.0.9:8080"))
swapped = newer.index(b'"record"')
standalone = {
    "node": "10.0.0.5:8080", "worker_id": 0, "layout": "41+10+12", "epoch": 1288834974657,
    "timestamp": T, "ceiling": T + 6000, "owner": "0b1d3a2e-7c86-4d6a-8f0e-5a8f6f0f9f21",
}

write("good-cluster.json", older, newer)
write("good-first-save.json", slot(0, record(T)), slot(1, record(T)))
write("good-standalone.json", slot(0, standalone), slot(1, standalone))
write("torn-newer.json", older, newer[:512], slot(3, record(T - 3000))[512:])
write("torn-older.json", torn, newer)
write("torn-zeros.json", older, bytes(SLOT))
write("torn-ceiling-edited.json", older, newer.replace(b'"ceiling": 1700000009000', b'"ceiling": 1700000001000'))
write("torn-checksum.json", older, newer.replace(b'"sha256": "', b'"sha256": "0', 1)[: SLOT - 1], b"\n")
write("torn-swapped-record.json", older, newer[:swapped], other[swapped:])
write("damaged-both-torn.json", torn, bytes(SLOT))
write("damaged-slots-swapped.json", newer, older)
write("damaged-truncated.json", (older + newer)[: SLOT + 600])
write("damaged-appended.json", older, newer, b"\n")
write("damaged-reformatted.json", json.dumps(json.loads(older), indent=2).encode(), b"\n")
write("damaged-zeros.json", bytes(2 * SLOT))
write("damaged-empty.json")
write("damaged-crlf.json", (older + newer).replace(b"\n", b"\r\n"))
write("damaged-bom.json", b"\xef\xbb\xbf", older, newer)
write("damaged-merge-conflict.json", b"<<<<<<< HEAD\n", older, b"=======\n", newer, b">>>>>>> backup\n")
write("damaged-ceiling-nanosecond.json", older, slot(5, record(T + 3000, ceiling=(T + 9000) * 10**6)))
write("damaged-negative-worker.json", older, slot(5, record(T + 3000, worker_id=-2)))
write("damaged-no-limit.json", older, slot(5, {k: v for k, v in record(T + 3000).items() if k not in ("floor", "limit", "acked_limit")}))
write("unknown-version-5.json", slot(4, record(T), leafd=5), slot(5, record(T + 3000), leafd=5))
write("unknown-version-3-beside.json", slot(4, record(T), leafd=3), newer)
write("unknown-version-5-beside.json", older, slot(5, record(T + 3000), leafd=5))
write("unknown-field.json", older, slot(5, record(T + 3000, shard=3)))
write("unknown-prior-owners.json", older, slot(5, record(T + 3000, lineage=["6e0c1d57-2b7f-4f0e-9d4b-8d1f6f3a5c02"])))
write("unknown-order.json", older, slot(5, dict(reversed(record(T + 3000).items()))))
