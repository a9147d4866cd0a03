"""Tests of talc launch: what members are given, whose line is whose, and how the first failure ends all.

usage: test_launch.py TALC [MEMBERS LIBNCCL]        With members of tests/parallel, a group of them too.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

TALC, *MEMBERS = map(os.path.abspath, sys.argv[1:])
del sys.argv[1:]
LIMIT = 10


def launch(*arguments, **environment):
    return subprocess.run([TALC, "launch", *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          env=os.environ | environment)


def members(count, script, *arguments, **environment):
    return launch("-n", count, "--device", "cuda", "sh", "-c", script, *arguments, **environment)


def alive(process):
    """False for one that nobody has waited for, too."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().split()[2] != "Z"
    except OSError:
        return False


class Launch(unittest.TestCase):
    def ends(self, code, begun=None):
        self.assertLess(time.monotonic() - (self.begun if begun is None else begun), LIMIT)
        self.assertEqual(self.done.returncode, code, self.done.stderr)

    def setUp(self):
        self.begun = time.monotonic()

    def run_members(self, *arguments, **environment):
        self.done = members(*arguments, **environment)
        return self.done

    def test_what_members_are_given(self):
        done = self.run_members(3, 'echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT" "$@"', "sh",
                                "--batch", "a b", WORLD_SIZE="9", RANK="8")
        self.ends(0)
        lines = sorted(done.stdout.splitlines())
        port = lines[0].split()[6]
        self.assertTrue(1024 <= int(port) <= 65535)
        self.assertEqual(lines, [f"[{rank}] {rank} 3 {rank} 3 127.0.0.1 {port} --batch a b" for rank in range(3)])
        done = launch("-n", 1, "--port", "4321", "-d", "cuda", "sh", "-c", "echo $MASTER_PORT")
        self.assertEqual(done.stdout, "[0] 4321\n")

    def test_lines(self):
        done = self.run_members(2, "echo out; echo err >&2; printf 'no end'; [ $RANK = 0 ] || head -c 9000 /dev/zero | tr '\\0' x; echo; echo")
        self.ends(0)
        self.assertEqual(sorted(done.stderr.splitlines()), ["[0] err", "[1] err"])
        own = [line for line in done.stdout.splitlines() if line.startswith("[0]")]
        self.assertEqual(own, ["[0] out", "[0] no end", "[0] "])
        others = "".join(line[4:] for line in done.stdout.splitlines() if line.startswith("[1]"))
        self.assertEqual(others, "outno end" + 9000 * "x")

    def test_first_failure(self):
        done = self.run_members(3, "if [ $RANK = 1 ]; then sleep 0.2; echo bad >&2; exit 7; fi; exec sleep 60")
        self.ends(7)
        self.assertIn("[1] bad\n", done.stderr)
        self.assertIn("talc launch: rank 1 ended with exit code 7\n", done.stderr)
        self.assertEqual(len(re.findall("^talc launch:", done.stderr, re.MULTILINE)), 1)
        # Those that take no notice are killed; and what they still say is shown.
        self.begun = time.monotonic()
        done = self.run_members(2, "trap 'echo asked' TERM; if [ $RANK = 0 ]; then kill -KILL $$; fi; while :; do sleep 0.1; done")
        self.ends(128 + signal.SIGKILL)
        self.assertIn("talc launch: rank 0 was killed by signal 9 (Killed)", done.stderr)
        self.assertIn("[1] asked", done.stdout)
        # What kills a member is the reason, also where another has ended for it before.
        self.begun = time.monotonic()
        done = self.run_members(2, "if [ $RANK = 0 ]; then exit 1; fi; sleep 0.3; kill -KILL $$")
        self.ends(128 + signal.SIGKILL)
        self.assertIn("talc launch: rank 1 was killed by signal 9 (Killed)", done.stderr)
        self.begun = time.monotonic()
        done = self.run_members(2, "exit 0")
        self.ends(0)
        self.done = done = launch("-n", 2, "--device", "cuda", "/no/such/program")
        self.ends(127)
        self.assertIn("/no/such/program: No such file or directory", done.stderr)

    def test_stopped(self):
        started = subprocess.Popen([TALC, "launch", "-n", "2", "-d", "cuda", "sh", "-c", "echo $$; exec sleep 60"], stdout=subprocess.PIPE,
                                   text=True)
        processes = [int(started.stdout.readline().split()[1]) for _ in range(2)]
        begun = time.monotonic()
        started.send_signal(signal.SIGTERM)
        self.assertEqual(started.wait(timeout=LIMIT), 128 + signal.SIGTERM)
        started.stdout.close()
        self.assertFalse(any(map(alive, processes)))
        self.assertLess(time.monotonic() - begun, LIMIT)
        # Nor do members outlive a launcher that is killed.
        started = subprocess.Popen([TALC, "launch", "-n", "2", "-d", "cuda", "sh", "-c", "echo $$; exec sleep 60"], stdout=subprocess.PIPE,
                                   text=True)
        processes = [int(started.stdout.readline().split()[1]) for _ in range(2)]
        started.kill()
        started.communicate()
        end = time.monotonic() + LIMIT
        while any(map(alive, processes)):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def test_usage(self):
        for arguments, part in [(["-n", 2], "give a program"), (["sh"], "give the number of processes"),
                                (["-n", 0, "sh"], "--processes: '0'"), (["-n", 65, "sh"], "1 to 64"),
                                (["-n", 2, "-d", "tpu", "sh"], "--device tpu: cpu or cuda"),
                                (["-n", 2, "-p", "70000", "sh"], "--port 70000: ports are 1 to 65535")]:
            done = launch(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(part, done.stderr)
        self.assertIn("[ARGUMENT...]", launch("--help").stdout)

    @unittest.skipIf(shutil.which("mpirun") is None, "there is no mpirun")
    def test_on_the_cpu(self):
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        for more in {"TALC_DEVICE": "cpu"}, {}:
            device = [] if more else ["--device", "cpu"]
            done = launch("-n", 2, *device, "sh", "-c", 'echo "$OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE $1"', "sh", "-n", **root, **more)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(re.findall(r"(\d) of 2 -n", done.stdout)), ["0", "1"])
        # Each has its share of the processors, and may use all.
        share = "import os; os.write(1, b'%s %d\\n' % (os.environb[b'TALC_THREADS'], len(os.sched_getaffinity(0))))"
        done = subprocess.run(["env", "-u", "TALC_THREADS", TALC, "launch", "-n", "2", "-d", "cpu", sys.executable, "-c", share],
                              capture_output=True, text=True, env=os.environ | root)
        processors = len(os.sched_getaffinity(0))
        self.assertEqual(done.stdout.count(f":{max(1, processors // 2)} {processors}\n"), 2, done.stdout + done.stderr)
        done = launch("-n", 2, "-d", "cpu", "sh", "-c", "exit $((3 * OMPI_COMM_WORLD_RANK))", **root)
        self.assertEqual(done.returncode, 3, done.stderr)
        bench = "exec $0 bench lenet --train --batch $((OMPI_COMM_WORLD_RANK + 1))"
        done = launch("-n", 2, "-d", "cpu", "sh", "-c", bench, TALC, TALC_DEVICE="cpu", **root)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the number of images is 1 on rank 0, 2 on rank 1", done.stderr)
        for program in "./missing", "no-such-program", "/":
            done = launch("-n", 2, "-d", "cpu", program, **root)
            self.assertEqual((done.returncode, done.stdout), (127, ""), done.stderr)
            self.assertIn(f"talc launch: {program}: ", done.stderr)
        done = launch("-n", 2, "-d", "cpu", "echo", "a", ":", "echo", "b", **root)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        done = launch("-n", 2, "-d", "cpu", "/bin/sh", PATH="/nowhere", **root)
        self.assertEqual(done.returncode, 1)
        self.assertIn("mpirun, which starts processes on the CPU (openmpi-bin): No such file or directory", done.stderr)

    @unittest.skipIf(not MEMBERS, "no members are given")
    def test_group(self):
        environment = {"LD_LIBRARY_PATH": os.path.dirname(MEMBERS[1]), "TALC_TEST_DEVICE": "fake"}
        done = launch("-n", 2, "-d", "cuda", MEMBERS[0], "collectives", **environment)
        self.assertEqual((done.returncode, done.stdout), (0, "[0] collectives: ok\n"))
        started = subprocess.Popen([TALC, "launch", "-n", "3", "-d", "cuda", MEMBERS[0], "replayed"], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, env=os.environ | environment)
        processes = dict(line.split()[1:] for line in (started.stdout.readline() for _ in range(3)))
        begun = time.monotonic()
        os.kill(int(processes["1"]), signal.SIGKILL)
        text, _ = started.communicate(timeout=60)
        self.assertLess(time.monotonic() - begun, LIMIT)
        self.assertEqual(started.returncode, 128 + signal.SIGKILL, text)
        self.assertIn("talc launch: rank 1 was killed by signal 9 (Killed)", text)
        for rank in 0, 2:
            self.assertRegex(text, rf"\[{rank}\] .*rank 1 of 3 is gone")


if __name__ == "__main__":
    unittest.main()
