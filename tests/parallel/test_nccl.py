#!/usr/bin/env python3
"""Groups by NCCL, of which tests/parallel/standin_nccl.c stands in, on the tests' fake device: how members meet, what they compute, and
what becomes of one that is stopped or killed, also while the others' work waits on the device.

    test_nccl.py MEMBERS LIBNCCL [--kills N]
"""
import argparse
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

from checks import failures, require

TIMEOUT = 100


class Group:
    """Members as torchrun starts them."""

    def __init__(self, members, library):
        self.members, self.library = members, library

    def environment(self, rank, size, port, **more):
        # A program linked with a sanitizer finds its own libraries before what it opens.
        return dict(os.environ, TALC_TEST_DEVICE="fake", TALC_DEVICE="cpu", TALC_THREADS="1", RANK=str(rank), WORLD_SIZE=str(size),
                    MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), LD_LIBRARY_PATH=str(self.library.parent), **more)

    def start(self, size, *cases, last={}, **more):
        """`last`: what the last rank's environment has beside."""
        port = free_port()
        return [subprocess.Popen([self.members, *cases], env=self.environment(rank, size, port) | more | (last if rank == size - 1 else {}),
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(size)]

    def run(self, size, *cases, **more):
        return [(process.communicate(timeout=TIMEOUT)[0], process.returncode) for process in self.start(size, *cases, **more)]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def check_cases(group):
    for size in 2, 3:
        for more in [{}] if size == 3 else [{}, {"STANDIN_EARLY": "1"}]:
            for cases in ["differences"], ["collectives", "gradients", "unused", "normed", "loader"], ["recorded"], ["freed"]:
                ended = group.run(size, *cases, **more)
                require(all(code == 0 for _, code in ended) and all(f"{case}: ok" in ended[0][0] for case in cases),
                        f"{size} members, {cases}, {more}: {ended}")
            # Also where the time of one is not over.
            for last in {}, {"TIMEOUT": "60"}:
                ended = group.run(size, "order", TIMEOUT="1", last=last, **more)
                require("order: ok" in ended[0][0] and all(code == 0 for _, code in ended), f"{size} members, order, {more}, {last}: {ended}")
        bits = [group.run(size, "steps", STANDIN_EARLY=early)[0] for early in ("1", "")]
        require(bits[0] == bits[1] and "steps: ok" in bits[0][0], f"{size} members, steps: {bits}")
    ended = group.run(2, "left")
    require(all(code == 0 for _, code in ended) and "left: ok" in ended[0][0], f"left: {ended}")
    ended = group.run(1, "collectives", "gradients", "unused", "recorded", "steps", ALONE="1")
    require(ended[0][1] == 0, f"one member: {ended}")


def victims(started):
    """Reads the line in which each member says that it is under way."""
    lines = [process.stdout.readline() for process in started]
    require(all(line.split()[:1] == [str(rank)] for rank, line in enumerate(lines)), f"under way: {lines}")


def end(started, victim, expected, what, limit=10):
    """The others end soon, and say why; where steps were replayed, again at the next."""
    times = 2 if what.startswith("replayed") else 1
    begun = time.monotonic()
    texts = []
    for rank, process in enumerate(started):
        if rank == victim:
            continue
        try:
            text, _ = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            text = "nothing for 20 s"
        took = time.monotonic() - begun
        texts.append(text)
        require(process.returncode == 1 and took < limit and text.count(expected) == times, f"{what}: rank {rank}, {process.returncode} after "
                                                                               f"{took:.1f} s: {text}")
    for process in started:
        process.kill()
        process.communicate()
    return "".join(texts)


def check_killed(group, kills):
    for case in "forever", "replayed":
        texts = ""
        for i in range(kills):
            started = group.start(3, case)
            victims(started)
            time.sleep(0.003 * (i % 20))
            victim = i % 3
            started[victim].kill()
            texts += end(started, victim, f"rank {victim} of 3 is gone", f"{case}, kill {i}")
        # Most of them while they wait for the device, which tells what has become of its work.
        require(case != "forever" or "forever, waiting" in texts, f"nobody waited: {texts}")


def check_stopped(group):
    for case in "forever", "replayed":
        for victim in 1, 0:
            started = group.start(3, case, TIMEOUT="1")
            victims(started)
            time.sleep(0.2)
            started[victim].send_signal(signal.SIGSTOP)
            end(started, victim, f"rank {victim} of 3 does not answer for 1 s", f"{case}, rank {victim} stopped")


def check_beginning(group):
    """A member that goes or stops when all have met, and their communicator is made."""
    for number, part in (signal.SIGKILL, "group: rank 1 of 2 is gone"), (signal.SIGSTOP, "group: rank 1 of 2 does not answer for 1 s"):
        begun = time.monotonic()
        started = group.start(2, "collectives", TIMEOUT="1", last={"STANDIN_SIGNAL": str(int(number))})
        text, _ = started[0].communicate(timeout=TIMEOUT)
        require(started[0].returncode == 2 and part in text and time.monotonic() < begun + 10, f"{number.name} at the beginning: {text}")
        started[1].kill()
        started[1].communicate()
        pathlib.Path(f"/dev/shm/standin-nccl-{started[0].pid}").unlink(missing_ok=True)


def check_abort(group):
    """The process's end waits for an abort, though not for ever."""
    for milliseconds, times in (300, 1), (60000, 0):
        begun = time.monotonic()
        ended = group.run(2, "order", TIMEOUT="1", STANDIN_ABORT=str(milliseconds))
        require("order: ok" in ended[0][0] and all(code == 0 and text.count("aborted") == times for text, code in ended) and
                time.monotonic() < begun + 20, f"an abort of {milliseconds} ms: {ended}")


def one(group, rank, size, port, **more):
    environment = {name: value for name, value in (group.environment(rank, size, port) | more).items() if value is not None}
    return subprocess.Popen([group.members], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def said(process):
    text, _ = process.communicate(timeout=TIMEOUT)
    return process.returncode, text


def check_meeting(group):
    port = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = taken.getsockname()[1]
        code, text = said(one(group, 0, 2, busy))
        require(code == 2 and f"rank 0 cannot listen at port {busy}: Address already in use" in text, f"port in use: {code} {text}")
        # One that listens there and is no member says nothing.
        code, text = said(one(group, 1, 2, busy, TIMEOUT="1"))
        require(code == 2 and "the 2 processes are not there after 1 s" in text, f"a foreign port: {code} {text}")
    for more, part in [({}, f"rank 1 of 2 does not reach rank 0 at 127.0.0.1:{port} within 1 s: Connection refused"),
                       ({"MASTER_ADDR": "no.such.host.invalid"}, f"the address of rank 0, no.such.host.invalid:{port}: "),
                       ({"MASTER_ADDR": None}, "MASTER_PORT is set, MASTER_ADDR is not"),
                       ({"MASTER_PORT": None}, "MASTER_ADDR is set, MASTER_PORT is not"),
                       ({"MASTER_PORT": None, "MASTER_ADDR": None}, "MASTER_ADDR and MASTER_PORT do not say where rank 0 listens"),
                       ({"MASTER_PORT": "70000"}, "127.0.0.1:70000, is no host:port"),
                       ({"MASTER_PORT": "x"}, "127.0.0.1:0, is no host:port"),
                       ({"TORCHELASTIC_USE_AGENT_STORE": "True"}, f"127.0.0.1:{port + 1} within 1 s"), ({"RANK": None}, "WORLD_SIZE is set, RANK is not")]:
        code, text = said(one(group, 1, 2, port, TIMEOUT="1", **more))
        require(code == 2 and part in text, f"{more}: {code} {text}")
    for others, part in [([(1, 3)], "rank 2 of 3 is not there after 1 s"), ([], "ranks 1, 2 of 3 are not there after 1 s"),
                         ([(1, 3), (2, 4)], "rank 2 has a group of 4 processes, rank 0 one of 3"),
                         ([(1, 3), (1, 3)], "two processes say that they are rank 1")]:
        port = free_port()
        started = [one(group, rank, size, port, TIMEOUT="1") for rank, size in [(0, 3), *others]]
        for i, (code, text) in enumerate(map(said, started)):
            require(code == 2 and (part in text or i > 0), f"{others}: {code} {text}")
    # A member that goes before the rest are there; and one that is foreign does not disturb.
    port = free_port()
    first = one(group, 0, 2, port)
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port)) as foreign:
                foreign.sendall(b"GET / HTTP/1.0\r\n\r\n" + bytes(512))
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    second = one(group, 1, 2, port)
    require(said(first)[0] == 0 and said(second)[0] == 0, "a foreign connection disturbs")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("members", type=pathlib.Path)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=3)
    arguments = parser.parse_args()
    group = Group(arguments.members.resolve(), arguments.library.resolve())
    for check in check_meeting, check_beginning, check_abort, check_cases, check_stopped:
        begun = time.monotonic()
        check(group)
        print(f"{check.__name__}: {time.monotonic() - begun:.1f} s")
    check_killed(group, arguments.kills)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
