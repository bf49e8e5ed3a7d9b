#!/usr/bin/env python3
"""An independent client of serial.SerialService: it knows proto/serial.proto and the specification, nothing of lineside.

usage: contract_client.py STUBS_DIR ADDRESS PORTS_DIR DAEMON_PID

Plays the device at the far end of each line with pseudo-terminals of its own, linked into PORTS_DIR (where the service
looks for ports). Prints the names of all checks, then one line for each, "ok NAME" or "FAIL NAME: why".
The receive buffer of the service is 8 KiB (the test that starts this says so in the configuration).
"""
import fcntl
import os
import pty
import select
import signal
import sys
import termios
import threading
import time
import traceback
import tty

import grpc

STUBS, ADDRESS, PORTS, PID = sys.argv[1:5]
sys.path.insert(0, STUBS)
import serial_pb2 as pb  # noqa: E402
import serial_pb2_grpc as rpc  # noqa: E402
from google.protobuf.empty_pb2 import Empty  # noqa: E402

LIMIT_S = 15
UINT64_MAX = 18446744073709551615
CLOSE_LIMIT_S = 2
# The limit is the service's; this is for a machine that is busy with other tests.
NOISE_S = 3

channel = grpc.insecure_channel(ADDRESS, options=[("grpc.max_send_message_length", 16 << 20)])
stub = rpc.SerialServiceStub(channel)
checks = []


def check(name):
    def add(function):
        checks.append((name, function))
        return function

    return add


def equal(got, want, what=""):
    if got != want:
        raise AssertionError(f"{what} got {got!r}, want {want!r}")


def until(what, look):
    end = time.monotonic() + LIMIT_S
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {LIMIT_S} s: {what}")
        time.sleep(0.005)


class Device:
    """A pseudo-terminal behind a name that stays the same."""

    def __init__(self, name):
        self.port = os.path.join(PORTS, name)
        self.plug()

    def plug(self):
        self.master, self.slave = pty.openpty()
        tty.setraw(self.slave)
        os.set_blocking(self.master, False)
        fresh = self.port + ".new"
        os.symlink(os.ttyname(self.slave), fresh)
        os.rename(fresh, self.port)

    def unplug(self):
        os.unlink(self.port)
        os.close(self.slave)
        os.close(self.master)

    def read(self, count):
        """Exactly so many bytes of what the service wrote."""
        data = b""
        end = time.monotonic() + LIMIT_S
        while len(data) < count:
            if not select.select([self.master], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"only {len(data)} of {count} bytes came out of the line")
            data += os.read(self.master, count - len(data))
        return data

    def drain(self):
        while select.select([self.master], [], [], 0.05)[0]:
            os.read(self.master, 65536)

    def write(self, data):
        while data:
            select.select([], [self.master], [], LIMIT_S)
            data = data[os.write(self.master, data):]


def config(device, **changed):
    values = dict(port_name=device.port, baud_rate=115200, data_bits=8)
    values.update(changed)
    return pb.SerialConfig(**values)


def opened(device, **changed):
    answer = stub.Open(config(device, **changed), timeout=LIMIT_S)
    equal((answer.status, answer.error), (pb.OK, ""), "Open")


def refused(request, status, word=""):
    answer = stub.Open(request, timeout=LIMIT_S)
    equal(answer.status, status, f"Open ({answer.error})")
    assert answer.error != "", "error is empty"
    assert word in answer.error, f"{word!r} is not in {answer.error!r}"


def closed():
    answer = stub.Close(Empty(), timeout=LIMIT_S)
    equal((answer.status, answer.error), (pb.OK, ""), "Close")


def send(payload, seq_id=7, timeout=LIMIT_S, **more):
    return stub.SendPacket(pb.Packet(seq_id=seq_id, payload=payload, **more), timeout=timeout)


def fails(code, call, begins=""):
    try:
        call()
    except grpc.RpcError as error:
        equal(error.code(), code, error.details())
        assert error.details().startswith(begins), error.details()
        return
    raise AssertionError("did not fail")


def receive():
    return stub.ReceivePacket(Empty(), timeout=LIMIT_S)


def received():
    """The next packet, when there is one."""

    def look():
        try:
            return receive()
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.NOT_FOUND:
                return None
            raise

    return until("a packet", look)


class Tail:
    """A StreamLog subscription, read by a thread of its own."""

    def __init__(self, from_start=False):
        self.call = stub.StreamLog(pb.LogStreamRequest(from_start=from_start))
        self.headers = self.call.initial_metadata()
        self.entries = []
        self.code = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            for entry in self.call:
                self.entries.append(entry)
            self.code = grpc.StatusCode.OK
        except grpc.RpcError as error:
            self.code = error.code()

    def wait(self, what, holds):
        return until(what, lambda: [e for e in list(self.entries) if holds(e)])

    def cancel(self):
        equal(self.code, None, "the stream has ended")
        self.call.cancel()
        self.thread.join(LIMIT_S)
        equal(self.code, grpc.StatusCode.CANCELLED)


first = Device("port-a")
second = Device("port-b")


# -- ListDevices ------------------------------------------------------------------------------------------------------
@check("list-names-extra-ports")
def _():
    names = [device.port_name for device in stub.ListDevices(Empty(), timeout=LIMIT_S).devices]
    assert first.port in names and second.port in names, names


@check("list-has-no-placeholders")
def _():
    for device in stub.ListDevices(Empty(), timeout=LIMIT_S).devices:
        kind = f"/sys/class/tty/{os.path.basename(device.port_name)}/type"
        if os.path.exists(kind):
            assert open(kind).read().strip() != "0", f"{device.port_name} has no UART"


@check("list-describes-the-simulated-line")
def _():
    found = [d for d in stub.ListDevices(Empty(), timeout=LIMIT_S).devices if d.description == "Simulated line"]
    equal(len(found), 1)


# -- closed -----------------------------------------------------------------------------------------------------------
@check("closed-config-is-the-empty-message")
def _():
    equal(stub.GetCurrentConfig(Empty(), timeout=LIMIT_S).SerializeToString(), b"")


@check("closed-send-is-not-connected")
def _():
    answer = send(b"x", seq_id=UINT64_MAX)
    equal((answer.status, answer.echo_seq_id), (pb.NOT_CONNECTED, UINT64_MAX))
    assert answer.error != ""


@check("closed-receive-is-failed-precondition")
def _():
    fails(grpc.StatusCode.FAILED_PRECONDITION, receive, "NOT_CONNECTED")


@check("closed-close-is-ok")
def _():
    closed()
    closed()


# -- Open: every refusal, first with nothing open ---------------------------------------------------------------------
BAD = {
    "empty-name": (dict(port_name=""), pb.INVALID_ARGUMENT, "port_name"),
    "baud-0": (dict(baud_rate=0), pb.INVALID_ARGUMENT, "baud_rate"),
    "baud-above-12000000": (dict(baud_rate=12000001), pb.INVALID_ARGUMENT, "baud_rate"),
    "baud-4294967295": (dict(baud_rate=4294967295), pb.INVALID_ARGUMENT, "baud_rate"),
    "data-bits-0": (dict(data_bits=0), pb.INVALID_ARGUMENT, "data_bits"),
    "data-bits-4": (dict(data_bits=4), pb.INVALID_ARGUMENT, "data_bits"),
    "data-bits-9": (dict(data_bits=9), pb.INVALID_ARGUMENT, "data_bits"),
    "parity-unknown": (dict(parity=5), pb.INVALID_ARGUMENT, "parity"),
    "parity-negative": (dict(parity=-1), pb.INVALID_ARGUMENT, "parity"),
    "stop-bits-unknown": (dict(stop_bits=3), pb.INVALID_ARGUMENT, "stop_bits"),
    "packet-size-above-65536": (dict(packet_size=65537), pb.INVALID_ARGUMENT, "packet_size"),
    "one-point-five-with-8-data-bits": (dict(stop_bits=pb.STOPBITS_ONE_POINT_FIVE), pb.INVALID_ARGUMENT, "stop_bits"),
    "no-such-port": (dict(port_name="/dev/ttyNOSUCH0"), pb.NOT_FOUND, ""),
}


def bad(name):
    changed, status, word = BAD[name]
    return lambda: refused(config(first, **changed), status, word)


for each in BAD:
    check(f"open-refuses-{each}")(bad(each))


@check("open-names-every-fault-at-once")
def _():
    answer = stub.Open(pb.SerialConfig(packet_size=70000), timeout=LIMIT_S)
    equal(answer.status, pb.INVALID_ARGUMENT)
    for field in ("port_name", "baud_rate", "data_bits", "packet_size"):
        assert field in answer.error, answer.error


@check("open-refused-stays-closed")
def _():
    equal(stub.GetCurrentConfig(Empty(), timeout=LIMIT_S).SerializeToString(), b"")


@check("open-held-by-another-is-internal-error")
def _():
    fcntl.flock(second.slave, fcntl.LOCK_EX)
    try:
        refused(config(second), pb.INTERNAL_ERROR)
    finally:
        fcntl.flock(second.slave, fcntl.LOCK_UN)


# -- open -------------------------------------------------------------------------------------------------------------
@check("open-is-ok")
def _():
    opened(first)


@check("open-config-is-what-was-asked")
def _():
    equal(stub.GetCurrentConfig(Empty(), timeout=LIMIT_S), config(first))


@check("open-takes-the-limits-themselves")
def _():
    for baud in (12000000, 50, 74880):
        opened(first, baud_rate=baud, packet_size=65536)
        equal(stub.GetCurrentConfig(Empty(), timeout=LIMIT_S), config(first, baud_rate=baud, packet_size=65536))


@check("open-takes-every-parity-and-stop-bits")
def _():
    for bits in (5, 6, 7, 8):
        for parity in range(5):
            for stop in range(3):
                if stop == pb.STOPBITS_ONE_POINT_FIVE and bits != 5:
                    continue
                opened(first, data_bits=bits, parity=parity, stop_bits=stop)
                equal(stub.GetCurrentConfig(Empty(), timeout=LIMIT_S).parity, parity)


@check("reopen-replaces-the-configuration")
def _():
    opened(first, baud_rate=9600, data_bits=7, parity=pb.PARITY_EVEN, stop_bits=pb.STOPBITS_TWO, packet_size=3)
    now = stub.GetCurrentConfig(Empty(), timeout=LIMIT_S)
    equal(now, config(first, baud_rate=9600, data_bits=7, parity=2 - 1, stop_bits=2, packet_size=3))
    speed = termios.tcgetattr(first.slave)[4]
    equal(speed, termios.B9600, "speed in the kernel")


@check("refused-open-keeps-the-old-configuration-and-line")
def _():
    opened(first, baud_rate=19200)
    before = termios.tcgetattr(first.slave)
    for name in BAD:
        bad(name)()
    fcntl.flock(second.slave, fcntl.LOCK_EX)
    try:
        refused(config(second), pb.INTERNAL_ERROR)
    finally:
        fcntl.flock(second.slave, fcntl.LOCK_UN)
    equal(stub.GetCurrentConfig(Empty(), timeout=LIMIT_S), config(first, baud_rate=19200))
    equal(termios.tcgetattr(first.slave), before, "line settings")
    equal(send(b"still here").status, pb.OK)
    equal(first.read(10), b"still here")


@check("open-moves-to-another-port")
def _():
    opened(second)
    equal(send(b"to the second").status, pb.OK)
    equal(second.read(13), b"to the second")
    opened(first)


# -- SendPacket -------------------------------------------------------------------------------------------------------
@check("send-puts-exactly-the-payload-on-the-line")
def _():
    payload = bytes(range(256))
    answer = send(payload, tags={"secret": "never on the wire"})
    equal((answer.status, answer.error), (pb.OK, ""))
    equal(first.read(256), payload)


@check("send-echoes-seq-id-exactly")
def _():
    for seq_id in (0, 1, 9007199254740993, 9223372036854775808, UINT64_MAX):
        answer = send(b"s", seq_id=seq_id)
        equal((answer.status, answer.echo_seq_id), (pb.OK, seq_id))
    first.read(5)


@check("send-refuses-an-empty-payload")
def _():
    answer = send(b"", seq_id=UINT64_MAX)
    equal((answer.status, answer.echo_seq_id), (pb.INVALID_ARGUMENT, UINT64_MAX))


@check("send-refuses-other-lengths-than-packet-size")
def _():
    opened(first, packet_size=4)
    for payload in (b"", b"abc", b"abcde", b"x" * 65536):
        answer = send(payload, seq_id=UINT64_MAX)
        equal((answer.status, answer.echo_seq_id), (pb.INVALID_ARGUMENT, UINT64_MAX), len(payload))
    equal(send(b"abcd").status, pb.OK)
    equal(first.read(4), b"abcd")


@check("send-refuses-above-64-KiB")
def _():
    opened(first)
    answer = send(b"x" * 65537, seq_id=9)
    equal((answer.status, answer.echo_seq_id), (pb.INVALID_ARGUMENT, 9))


@check("send-takes-64-KiB-whole")
def _():
    payload = os.urandom(65536)
    future = stub.SendPacket.future(pb.Packet(payload=payload), timeout=LIMIT_S)
    equal(first.read(65536), payload)
    equal(future.result().status, pb.OK)


@check("send-never-interleaves")
def _():
    packets = [bytes([65 + i]) * 3000 for i in range(4)]
    futures = [stub.SendPacket.future(pb.Packet(seq_id=i, payload=p), timeout=LIMIT_S) for i, p in enumerate(packets)]
    data = first.read(12000)
    equal(sorted(data[i:i + 3000] for i in range(0, 12000, 3000)), packets)
    equal([f.result().echo_seq_id for f in futures], [0, 1, 2, 3])


def stall():
    """Sends until the line takes no more: the call that then waits for the line."""
    while True:
        future = stub.SendPacket.future(pb.Packet(seq_id=1, payload=b"#" * 65536), timeout=60)
        try:
            equal(future.result(timeout=1).status, pb.OK)
        except grpc.FutureTimeoutError:
            return future


@check("send-past-its-deadline-on-a-stuck-line-is-internal-error")
def _():
    while True:
        answer = send(b"#" * 65536, seq_id=UINT64_MAX, timeout=2)
        if answer.status != pb.OK:
            break
    equal((answer.status, answer.echo_seq_id), (pb.INTERNAL_ERROR, UINT64_MAX))
    assert "of 65536 bytes" in answer.error, answer.error


@check("close-ends-within-2-s-on-a-stuck-line")
def _():
    future = stall()
    began = time.monotonic()
    closed()
    took = time.monotonic() - began
    assert took < CLOSE_LIMIT_S + NOISE_S, f"took {took:.1f} s"
    answer = future.result(timeout=LIMIT_S)
    equal((answer.status in (pb.INTERNAL_ERROR, pb.NOT_CONNECTED), answer.echo_seq_id), (True, 1))
    first.drain()


# -- a lost port ------------------------------------------------------------------------------------------------------
@check("lost-port-is-forgotten-by-close")
def _():
    opened(first)
    first.unplug()
    until("the loss", lambda: stub.GetCurrentConfig(Empty(), timeout=LIMIT_S).SerializeToString() == b"")
    closed()
    first.plug()
    opened(second)
    closed()
    equal(stub.GetCurrentConfig(Empty(), timeout=LIMIT_S).SerializeToString(), b"")


# -- ReceivePacket ----------------------------------------------------------------------------------------------------
@check("receive-from-an-empty-buffer-is-not-found")
def _():
    opened(first)
    fails(grpc.StatusCode.NOT_FOUND, receive)


@check("receive-gives-one-chunk-with-seq-id-and-time")
def _():
    for number in (1, 2):
        before = time.time() * 1000
        first.write(b"chunk %d" % number)
        packet = received()
        equal((packet.seq_id, packet.payload), (number, b"chunk %d" % number))
        at = int(packet.tags["received_at_ms"])
        assert before - 1000 < at < time.time() * 1000 + 1000, packet.tags
        assert "dropped_packets" not in packet.tags
    fails(grpc.StatusCode.NOT_FOUND, receive)


@check("receive-frames-by-packet-size-and-counts-from-1")
def _():
    opened(first, packet_size=4)
    first.write(b"abcdefghij")
    packets = [received(), received()]
    equal([(p.seq_id, p.payload) for p in packets], [(1, b"abcd"), (2, b"efgh")])
    fails(grpc.StatusCode.NOT_FOUND, receive)
    first.write(b"kl")
    packet = received()
    equal((packet.seq_id, packet.payload), (3, b"ijkl"))


@check("receive-drops-the-oldest-and-says-how-many")
def _():
    opened(first, packet_size=1024)
    tail = Tail()
    for block in range(12):
        first.write(bytes([block]) * 1024)
    until("12 KiB", lambda: sum(len(e.raw_data) for e in list(tail.entries)) >= 12 * 1024)
    packet = received()
    equal((packet.seq_id, packet.payload[0], packet.tags["dropped_packets"]), (5, 4, "4"))
    equal([received().payload[0] for _ in range(7)], [5, 6, 7, 8, 9, 10, 11])
    tail.cancel()


@check("receive-gives-each-packet-to-one-caller")
def _():
    opened(first, packet_size=2)
    tail = Tail()
    first.write(b"".join(b"%02d" % n for n in range(50)))
    until("100 bytes", lambda: sum(len(e.raw_data) for e in list(tail.entries)) >= 100)
    futures = [stub.ReceivePacket.future(Empty(), timeout=LIMIT_S) for _ in range(60)]
    got = [f.result().payload for f in futures if f.exception() is None]
    equal(sorted(got), [b"%02d" % n for n in range(50)])
    equal({f.exception().code() for f in futures if f.exception() is not None}, {grpc.StatusCode.NOT_FOUND})
    tail.cancel()


@check("close-drops-the-incoming-buffer")
def _():
    tail = Tail()
    first.write(b"left over!")
    tail.wait("the bytes", lambda e: e.raw_data == b"left over!")
    closed()
    opened(first, packet_size=2)
    fails(grpc.StatusCode.NOT_FOUND, receive)
    tail.cancel()
    opened(first)


# -- LogRaw and StreamLog ---------------------------------------------------------------------------------------------
@check("log-records-every-packet-and-chunk-with-its-direction")
def _():
    tail = Tail()
    before = int(time.time() * 1000)
    equal(send(b"out").status, pb.OK)
    equal(first.read(3), b"out")
    first.write(b"in")
    until("two entries", lambda: len(tail.entries) >= 2)
    equal([(e.dir, e.raw_data) for e in tail.entries], [(pb.SerialLogEntry.TX, b"out"), (pb.SerialLogEntry.RX, b"in")])
    assert all(before - 1000 <= e.timestamp <= time.time() * 1000 + 1000 for e in tail.entries)
    tail.cancel()


@check("log-raw-stores-the-entry-as-given-for-every-subscriber")
def _():
    received()
    tails = [Tail(), Tail()]
    entry = pb.SerialLogEntry(dir=pb.SerialLogEntry.RX, timestamp=UINT64_MAX, raw_data=bytes(range(256)), note="Grüße")
    stub.LogRaw(entry, timeout=LIMIT_S)
    for tail in tails:
        until("the entry", lambda: tail.entries)
        equal(list(tail.entries), [entry])
        tail.cancel()


@check("log-raw-never-reaches-the-incoming-buffer")
def _():
    fails(grpc.StatusCode.NOT_FOUND, receive)


@check("log-raw-with-timestamp-0-means-now")
def _():
    tail = Tail()
    stub.LogRaw(pb.SerialLogEntry(note="now"), timeout=LIMIT_S)
    (entry,) = tail.wait("the entry", lambda e: e.note == "now")
    assert abs(entry.timestamp - time.time() * 1000) < 60000, entry
    tail.cancel()


@check("log-raw-refuses-an-unknown-dir")
def _():
    fails(grpc.StatusCode.INVALID_ARGUMENT, lambda: stub.LogRaw(pb.SerialLogEntry(dir=2), timeout=LIMIT_S), "dir")


@check("log-raw-refuses-raw-data-above-1-MiB")
def _():
    entry = pb.SerialLogEntry(raw_data=b"x" * (1024 * 1024 + 1))
    fails(grpc.StatusCode.INVALID_ARGUMENT, lambda: stub.LogRaw(entry, timeout=LIMIT_S), "raw_data")
    stub.LogRaw(pb.SerialLogEntry(raw_data=b"x" * 1024 * 1024, note="1 MiB"), timeout=LIMIT_S)


@check("log-raw-refuses-a-note-above-4-KiB")
def _():
    fails(
        grpc.StatusCode.INVALID_ARGUMENT,
        lambda: stub.LogRaw(pb.SerialLogEntry(note="ü" * 2049), timeout=LIMIT_S),
        "note",
    )
    stub.LogRaw(pb.SerialLogEntry(note="ü" * 2048), timeout=LIMIT_S)


@check("stream-sends-its-headers-at-once")
def _():
    # Blocks until the headers are there: no entry comes meanwhile.
    call = stub.StreamLog(pb.LogStreamRequest(), timeout=LIMIT_S)
    call.initial_metadata()
    call.cancel()


@check("stream-from-now-on-has-nothing-older")
def _():
    stub.LogRaw(pb.SerialLogEntry(note="older"), timeout=LIMIT_S)
    tail = Tail()
    stub.LogRaw(pb.SerialLogEntry(note="newer"), timeout=LIMIT_S)
    until("an entry", lambda: tail.entries)
    equal([e.note for e in tail.entries], ["newer"])
    tail.cancel()


@check("stream-from-start-has-all-once-in-order-and-goes-on")
def _():
    writers = [
        threading.Thread(
            target=lambda w=w: [
                stub.LogRaw(pb.SerialLogEntry(note=f"seam {w} {n}", timestamp=1), timeout=LIMIT_S) for n in range(100)
            ]
        )
        for w in range(2)
    ]
    for writer in writers:
        writer.start()
    tails = [Tail(from_start=True) for _ in range(3)]
    for writer in writers:
        writer.join()
    stub.LogRaw(pb.SerialLogEntry(note="last"), timeout=LIMIT_S)
    for tail in tails:
        tail.wait("the last", lambda e: e.note == "last")
    equal([e for e in tails[0].entries], [e for e in tails[1].entries])
    equal([e for e in tails[0].entries], [e for e in tails[2].entries])
    notes = [e.note for e in tails[0].entries]
    for w in range(2):
        equal([n for n in notes if n.startswith(f"seam {w} ")], [f"seam {w} {n}" for n in range(100)])
    equal(notes.count("older"), 1)
    assert any(e.raw_data == b"still here" for e in tails[0].entries), "the first packets are missing"
    for tail in tails:
        tail.cancel()


# -- the end -----------------------------------------------------------------------------------
@check("shutdown-ends-streams-with-unavailable")
def _():
    tails = [Tail(), Tail(from_start=True)]
    os.kill(int(PID), signal.SIGTERM)
    for tail in tails:
        tail.thread.join(LIMIT_S)
        equal(tail.code, grpc.StatusCode.UNAVAILABLE)


print(*(name for name, _ in checks), flush=True)
for name, function in checks:
    try:
        function()
        print(f"ok {name}", flush=True)
    except Exception as error:  # each check is reported, whatever it throws
        why = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, grpc.RpcError):
            why = f"{error.code()} {error.details()}"
        where = traceback.extract_tb(error.__traceback__)[-1].lineno
        print(f"FAIL {name}: line {where}: {why}", flush=True)
# Threads of gRPC may still wait for something that a failed check left behind.
sys.stdout.flush()
os._exit(0)
