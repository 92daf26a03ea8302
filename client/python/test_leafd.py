"""The client against real daemons: LEAFD is the daemon's program. `make test-clients`."""

import asyncio
import ctypes
import hashlib
import http.server
import logging
import os
import pickle
import queue
import random
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import types
import unittest
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import leafd

WORKER = 1023 << 12
logging.getLogger("leafd").addHandler(logging.NullHandler())


def free_port():
    while True:  # below the ports of outgoing connections, so that a daemon that is started again gets it again
        with socket.socket() as s:
            try:
                s.bind(("", random.randrange(11000, 32000)))
                return s.getsockname()[1]
            except OSError:
                pass


def resolve(test, *addresses):
    """Has leafd-pods resolve to the addresses, or not, and returns the function that does."""
    real = socket.getaddrinfo

    def getaddrinfo(host, *args, **options):
        if host != "leafd-pods":
            return real(host, *args, **options)
        if not addresses:
            raise socket.gaierror
        return [found for a in addresses for found in real(a, *args, **options)]

    patched = mock.patch.object(socket, "getaddrinfo", getaddrinfo)
    test.addCleanup(patched.stop)
    return patched.start()


class Daemon:
    def __init__(self, test, worker=0, *flags, address=None):
        self.dir = tempfile.TemporaryDirectory(prefix="leafd-")
        self.address = address or f"127.0.0.1:{free_port()}"
        self.command = [os.environ["LEAFD"], "serve", "--listen", self.address, "--data-dir", self.dir.name + "/data", "--worker-id", str(worker), *flags]
        self.url = f"http{'s' if '--tls-cert' in flags else ''}://{self.address}"
        test.addCleanup(self.dir.cleanup)
        self.test = test

    def start(self):
        with open(self.dir.name + "/log", "w+b") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
            while b"issuing snowflake IDs" not in log.read():
                if self.process.poll() is not None:
                    raise AssertionError(f"{self.command} ended: {self.process.returncode}")
                time.sleep(0.01)
                log.seek(0)
        self.test.addCleanup(self.kill)
        return self

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        if number != signal.SIGSTOP:
            self.process.wait()


def in_child(fork, calls, write):
    """Forks a process that makes the calls and writes their IDs, and returns its process ID."""
    pid = fork()
    if pid == 0:
        try:
            os.write(write, b"".join(b"%d\n" % i for i in calls()))
        finally:
            os._exit(0)
    return pid


def read_all(read, pids):
    with open(read) as lines:
        ids = [int(line) for line in lines]
    for pid in pids:
        os.waitpid(pid, 0)
    return ids


class Forks(unittest.TestCase):
    """IDs that a process holds belong to it alone."""

    def test_workers(self):
        orders = leafd.Client(Daemon(self).start().url).snowflake("order")
        bare = ctypes.PyDLL(None).fork  # calls no hook
        for fork, wiped in (os.fork, leafd._wiped), (bare, leafd._wiped), (bare, False):  # the last: a kernel that wipes no page
            if wiped != leafd._wiped:
                patched = mock.patch.multiple(leafd, _own=bytearray(1), _wiped=wiped)
                patched.start()
                self.addCleanup(patched.stop)
            while not orders.ahead():
                orders.next()
            while threading.active_count() > 1:  # of which the latter would leave locks behind
                time.sleep(0.001)
            read, write = os.pipe()
            pids = [in_child(fork, lambda: [orders.next() for _ in range(250)], write) for _ in range(4)]
            os.close(write)
            ids = read_all(read, pids)
            self.assertEqual(len(ids), 1000)
            self.assertEqual(len({*ids, *orders.next_n(64)}), 1064)

    def test_while_another_thread_has_the_lock(self):
        orders = leafd.Client(Daemon(self).start().url).snowflake("order")
        orders.next()
        with orders._held.lock:
            read, write = os.pipe()
            pid = in_child(os.fork, lambda: [orders.next()], write)
            os.close(write)
            self.assertEqual(len(read_all(read, [pid])), 1)

    def test_in_a_call(self):
        """A signal handler forks, and both processes go on with the call."""
        orders = leafd.Client(Daemon(self).start().url).snowflake("order")
        orders.next()
        read, write = os.pipe()
        pid = None

        def monotonic():
            nonlocal pid
            if pid is None:
                pid = os.fork()
            return time.monotonic()

        with mock.patch.object(leafd, "time", types.SimpleNamespace(monotonic=monotonic, sleep=time.sleep)):
            mine = orders.next()
        if pid == 0:
            os.write(write, b"%d\n" % mine)
            os._exit(0)
        os.close(write)
        self.assertNotEqual(read_all(read, [pid]), [mine])


class Failures(unittest.TestCase):
    def test_kill_and_freeze(self):
        """Four threads and four tasks take IDs while the daemon that gives them is killed, and the next one frozen."""
        daemons = [Daemon(self, i).start() for i in range(3)]
        orders = leafd.Client(*(d.url for d in daemons), request_timeout=0.5).snowflake("order")
        ids, gone = [], set()

        def has_moved():
            return len(gone) == 2 and (ids[-1] & WORKER) >> 12 not in gone

        def take():
            while not has_moved():
                ids.append(orders.next())

        async def take_some():
            while not has_moved():
                ids.extend(await orders.anext_n(3))

        async def take_in_tasks():
            await asyncio.gather(*(take_some() for _ in range(4)))

        with ThreadPoolExecutor() as pool:
            calls = [pool.submit(take) for _ in range(4)] + [pool.submit(asyncio.run, take_in_tasks())]
            for number in signal.SIGKILL, signal.SIGSTOP:
                while not ids or (worker := (ids[-1] & WORKER) >> 12) in gone:
                    time.sleep(0.01)
                daemons[worker].kill(number)
                gone.add(worker)
            for call in calls:
                call.result()
        self.assertEqual(len(set(ids)), len(ids))

    def test_left_out(self):
        """A daemon that hangs is asked once, and left out for a second."""
        hangs = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(hangs.close)
        url = "http://%s:%d" % hangs.getsockname()
        client = leafd.Client(url, Daemon(self).start().url, request_timeout=2, max_ahead=2)
        with mock.patch.object(leafd, "_LEFT_OUT", 3600), self.assertLogs("leafd") as logs:
            for _ in range(100):  # about half of which have it as their home
                client.snowflake("order").next()
            self.assertEqual(len(logs.output), 1, logs.output)
            self.assertIn("timeout", logs.output[0])

    def test_home(self):
        """Sources have homes at random, and are there again once those are back."""
        daemons = [Daemon(self, i).start() for i in range(2)]
        client = leafd.Client(*(d.url for d in daemons), max_ahead=2, request_timeout=5, timeout=10)
        sources = [client.snowflake("order") for _ in range(30)]
        homes = [(s.next() & WORKER) >> 12 for s in sources]
        self.assertEqual(set(homes), {0, 1})
        for s, home in zip(sources, homes):
            self.assertEqual({(i & WORKER) >> 12 for i in (s.next() for _ in range(10))}, {home})
        with mock.patch.object(leafd, "_LEFT_OUT", 3600):
            daemons[0].kill(signal.SIGTERM)
            for s in sources:
                s.next_n(2)  # those that it held
            self.assertEqual({(s.next_n(2)[1] & WORKER) >> 12 for s in sources}, {1})
            daemons[0].start()
            for d in client.daemons():
                d.left_out = 0
            for s in sources:
                s.next_n(2)
            self.assertEqual([(s.next_n(2)[1] & WORKER) >> 12 for s in sources], homes)

    def test_only_daemon_comes_back(self):
        daemon = Daemon(self)
        with mock.patch.object(leafd, "_LEFT_OUT", 3600):
            orders = leafd.Client(daemon.url).snowflake("order")
            with self.assertRaises(leafd.Error) as raised:
                orders.next(0.2)
            self.assertEqual((raised.exception.code, raised.exception.__cause__.code), ("timeout", "unreachable"))
            with self.assertRaises(leafd.Error) as raised:
                asyncio.run(orders.anext(0.2))
            self.assertEqual(raised.exception.code, "timeout")
            daemon.start()
            orders.next()

    def test_codes(self):
        segments = leafd.Client(Daemon(self).start().url)
        tag = segments.segment("none")
        for call in tag.next, lambda: asyncio.run(tag.anext()):
            with self.assertRaises(leafd.Error) as raised:
                call()
            e = pickle.loads(pickle.dumps(raised.exception))
            self.assertEqual((e.code, e.status, e.final), ("unknown_key", 404, True))
        self.assertEqual(segments.segment("leaf-segment-test").next_n(3)[2], 3)
        limited = leafd.Client(Daemon(self, 0, "--rate-limit", "100").start().url).snowflake("order")
        begun = time.monotonic()
        with mock.patch.object(leafd, "time", types.SimpleNamespace(monotonic=lambda: begun, sleep=time.sleep)):
            with self.assertRaises(leafd.Error) as raised, self.assertLogs("leafd") as logs:
                for _ in range(400):
                    limited.next(0.5)
            self.assertEqual(len(logs.output), 1)  # asked once in its Retry-After
        self.assertEqual((raised.exception.code, raised.exception.__cause__.code, raised.exception.__cause__.retry_after), ("timeout", "rate_limited", 1))
        for wrong in [], ["127.0.0.1:8080"], ["http://a?b"], ["http://a:x"]:
            self.assertRaises(ValueError, leafd.Client, *wrong)
        self.assertRaises(ValueError, tag.next_n, 0)

    def test_responses(self):
        """What isn't a whole response of leafd's is not used."""
        responses, hosts = queue.Queue(), set()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                hosts.add(self.headers["Host"])
                body, *headers = responses.get()
                self.send_response(503 if b"code" in body else 200)
                for header in headers:
                    self.send_header(*header)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        resolve(self, "127.0.0.1")
        orders = leafd.Client(f"http://leafd-pods:{server.server_port}", max_ahead=2).segment("order")
        pair = b'{"ranges":[{"first":"%d","last":"%d"},{"first":"%d","last":"%d"}]}'
        for i, (wrong, *headers) in enumerate([
            (b"",), (b"1-2\n",), (b"[" * 100_000,), (b"null",), (b'{"ranges":[]}',), (b'{"ranges":[{"first":"1","last":"1"}]}',),
            (b'{"ranges":[{"first":"1","last":"3"}]}',), (b'{"ranges":[{"first":"2","last":"1"}]}',), (pair % (3, 3, 1, 1),), (pair % (3, 3, 3, 3),), (pair % (-1, 0, 2, 1),),
            (b'{"ranges":[{"first":"0","last":"%d"}]}' % (1 << 70),), (pair[:-9],), (pair % (1, 1, 3, 3), ("Age", "3")), (pair % (130, 130, 132, 132),),
        ]):  # fmt: skip
            with self.subTest(wrong[:80]), self.assertLogs("leafd") as logs:
                responses.put((wrong, *headers))
                responses.put((pair % (10 * i, 10 * i, 10 * i + 2, 10 * i + 2),))
                self.assertEqual(orders.next_n(2), [10 * i, 10 * i + 2])  # 130 and 132 are repeated then
                self.assertEqual(len(logs.output), 1)
                self.assertIn("bad_response", logs.output[0])
        responses.put((b'{"code":"not_ready","message":""}', ("Retry-After", "30")))  # not for the others behind the only address
        responses.put((pair % (200, 200, 202, 202),))
        self.assertEqual(orders.next_n(2), [200, 202])
        responses.put((b"",))  # for the request that fetches ahead
        self.assertEqual(hosts, {f"leafd-pods:{server.server_port}"})


class Names(unittest.TestCase):
    def test_frozen(self):
        """Each address of a name is a daemon: a call meets one that is frozen once, and then asks another."""
        port, addresses = free_port(), [f"127.0.0.{i}" for i in range(1, 4)]
        daemons = [Daemon(self, i, address=f"{a}:{port}").start() for i, a in enumerate(addresses)]
        resolve(self, *addresses)
        client = leafd.Client(f"http://leafd-pods:{port}", max_ahead=2)
        sources = [client.snowflake("order") for _ in range(40)]
        self.assertEqual({(s.next_n(2)[1] & WORKER) >> 12 for s in sources}, {0, 1, 2})
        daemons[0].kill(signal.SIGSTOP)
        with self.assertLogs("leafd") as logs:
            while len(logs.output) < 3:
                for s in sources:
                    s.next_n(2, 1.9 * client.request_timeout)
        self.assertIn(f"http://leafd-pods:{port} (127.0.0.1) timeout", logs.output[0])

    def test_come_and_go(self):
        url = "http://leafd-pods:8080"
        client = leafd.Client(url, "http://10.0.0.9")
        with mock.patch.multiple(leafd, _LOOKUP_EVERY=0, _LOOKUP_PATIENCE=60):
            for addresses, found in [("10.0.0.1", "10.0.0.2"), None], [("10.0.0.2", "10.0.0.3"), None], [(), ("10.0.0.2", "10.0.0.3")]:
                before = {d.host: d for d in client.daemons()}
                resolve(self, *addresses)
                daemons = client.daemons()
                self.assertEqual({d.host for d in daemons}, {"10.0.0.9", *(found or addresses)})
                self.assertTrue(all(before.get(d.host, d) is d for d in daemons))  # what is known of it stays
        resolve(self, "10.0.0.4")
        self.assertEqual(client.daemons(), daemons)  # looked up again after a while


class Ahead(unittest.TestCase):
    """The IDs held last for a time at the rate of use."""

    def setUp(self):
        self.now = time.monotonic()
        patched = mock.patch.object(leafd, "time", types.SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep))
        patched.start()
        self.addCleanup(patched.stop)

    def sleep(self, seconds):
        self.now += seconds
        time.sleep(0.001)

    def use(self, source, rate, seconds):
        for _ in range(rate * seconds):
            self.now += 1 / rate
            source.next()
            while source._held.running:
                time.sleep(0.0001)

    def test_ahead(self):
        daemon = Daemon(self).start()
        for kind, settings, low, high in [
            ("segment", {}, 900, 2100), ("snowflake", {}, 90, 210), ("segment", {"max_ahead": 1000}, 450, 1000), ("segment", {"ahead": 3600, "max_ahead": 1 << 20}, 300_000, 800_000),
        ]:  # fmt: skip
            with self.subTest((kind, settings)):
                source = getattr(leafd.Client(daemon.url, **settings), kind)("leaf-segment-test")
                self.use(source, 100, 40)
                self.assertTrue(low <= source.ahead() <= high, source.ahead())
        held = source.ahead()
        daemon.kill()
        with ThreadPoolExecutor() as pool:
            more = pool.submit(source.next_n, held + 1, 1)
            while not source._held.waiting:
                time.sleep(0.001)
            source.next_n(100)  # what is held is for the calls that it is enough for
            held -= 100
            self.assertRaises(leafd.Error, more.result)
        self.use(source, 100, 10)
        self.assertEqual(source.ahead(), held - 1000)

    def test_slow_use(self):
        source = leafd.Client(Daemon(self).start().url).segment("leaf-segment-test")
        self.use(source, 1, 300)
        self.assertLessEqual(source.ahead(), 25)

    def test_max_age(self):
        orders = leafd.Client(Daemon(self).start().url).snowflake("order")
        first = orders.next()
        self.now += 10.1
        held = orders.ahead()
        self.assertNotIn(orders.next(), range(first, first + held + 1))
        orders.drop()
        self.assertEqual(orders.ahead(), 0)


class Security(unittest.TestCase):
    def test_tls_and_tokens(self):
        dir = tempfile.TemporaryDirectory()
        self.addCleanup(dir.cleanup)
        cert, key, tokens = (os.path.join(dir.name, name) for name in ("cert.pem", "key.pem", "tokens.yaml"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", "/CN=leafd",
                        "-addext", "subjectAltName=DNS:leafd-pods", "-keyout", key, "-out", cert], check=True, capture_output=True)  # fmt: skip
        with open(tokens, "w") as f:
            f.write(f"- name: shop\n  sha256: {hashlib.sha256(b'a-token-of-the-shop').hexdigest()}\n  ids: order\n")
        url = Daemon(self, 0, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", cert, "--tokens-file", tokens).start().url.replace("127.0.0.1", "leafd-pods")
        resolve(self, "127.0.0.1")
        context = ssl.create_default_context(cafile=cert)
        for tls, token, code in [(None, "", "unreachable"), (context, "", "unreachable")]:
            with self.subTest(code), self.assertRaises(leafd.Error) as raised:
                leafd.Client(url, tls=tls, token=token).snowflake("order").next(0.3)
            self.assertEqual(raised.exception.__cause__.code, code)
        context.load_cert_chain(cert, key)
        for token, source, code in [("", "order", "unauthorized"), ("a-token-of-the-shop", "other", None), ("a-token-of-the-shop", "order", "")]:
            try:
                leafd.Client(url, tls=context, token=token).snowflake(source).next()
                self.assertEqual(code, "")
            except leafd.Error as e:
                self.assertTrue(e.final and e.code == (code or e.code), e)


if __name__ == "__main__":
    unittest.main()
