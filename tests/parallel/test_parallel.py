#!/usr/bin/env python3
"""Groups of CPU processes that mpirun starts: what members compute, what becomes of one that is stopped or killed, and training by
two that is killed and goes on.

    test_parallel.py MEMBERS TRAIN_LENET [--kills N]

Exits with 77 where there is no mpirun or talc was built without MPI."""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from checks import failures, require

ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TALC_DEVICE="cpu", TALC_THREADS="1")
# Open MPI keeps some memory until the process ends; a group of one, without it, is looked through for leaks.
NO_LEAKS = "env", f"ASAN_OPTIONS={os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0"
TIMEOUT = 100


def command(processes, *arguments):
    return [*NO_LEAKS, "mpirun", "--oversubscribe", "--quiet", "-n", str(processes), *map(str, arguments)]


def run(arguments, **environment):
    ended = subprocess.run(list(map(str, arguments)), env=ENVIRONMENT | environment, capture_output=True, text=True, timeout=TIMEOUT)
    return ended.returncode, ended.stdout + ended.stderr


def start(processes, program, case, **environment):
    """A run of an endless case, and the process of each rank."""
    started = subprocess.Popen(command(processes, program, case), env=ENVIRONMENT | environment, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    ranks = {}
    while len(ranks) < processes:
        rank, process = started.stdout.readline().split()
        ranks[int(rank)] = int(process)
    return started, ranks


def check_cases(members):
    for processes in 2, 3:
        for cases in ["differences"], ["collectives", "gradients", "unused", "normed", "loader"]:
            code, text = run(command(processes, members, *cases))
            require(code == 0 and all(f"{case}: ok" in text for case in cases), f"{processes} processes, {cases}: {code} {text}")
        # Where a member is elsewhere all say so, and mpirun is told nothing of the end: its own code says that.
        _, text = run(command(processes, members, "order"), TIMEOUT="1")
        require("order: ok" in text, f"{processes} processes, order: {text}")
        if processes == 2:
            code, text = run(command(processes, members, "recorded", "growth", "freed"))
            require(code == 0 and "growth: ok" in text, f"{processes} processes, growth: {code} {text}")
        code, text = run(command(processes, members, "unfreed"))
        require(code == 0 and text == "unfreed: ok\n", f"{processes} processes, unfreed: {code} {text}")
        bits = [run(command(processes, members, "steps")) for _ in range(2)]
        require(bits[0] == bits[1] and bits[0][0] == 0 and "steps: ok" in bits[0][1], f"{processes} processes, steps: {bits}")


def check_alone(members):
    """What the environment says without a launcher, or against it."""
    for environment, part in [
            ({"RANK": "0", "WORLD_SIZE": "2"}, "rank 0 of 2 by WORLD_SIZE, but no launcher of MPI started this process: CPU processes are "
                                               "started by mpirun -n 2"),
            ({"WORLD_SIZE": "2"}, "WORLD_SIZE is set, RANK is not"), ({"RANK": "1"}, "RANK is set, WORLD_SIZE is not"),
            ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK=one is no number"), ({"RANK": "2", "WORLD_SIZE": "2"}, "rank 2 of 2"),
            ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, "rank 0 of 4 by SLURM_NTASKS")]:
        code, text = run([members], **environment)
        require(code == 2 and part in text, f"{environment}: {code} {text}")
    code, text = run([members, "gradients", "steps"])
    require(code == 0 and "steps: ok" in text, f"one process: {code} {text}")
    code, text = run([members, "steps"], RANK="0", WORLD_SIZE="1")
    require(code == 0, f"one process by RANK: {code} {text}")
    code, text = run(command(2, members, "steps"), RANK="0", WORLD_SIZE="3")
    require(code != 0 and "by MPI" in text, f"WORLD_SIZE against MPI: {code} {text}")
    begun = time.monotonic()
    code, text = run(command(2, members, "steps"), RANK="0", WORLD_SIZE="2")
    require(code == 2 and "rank 0 of 2 by WORLD_SIZE, but rank 1 of 2 by MPI" in text and time.monotonic() < begun + 10,
            f"one RANK against MPI: {code} {text}")
    code, text = run(command(2, members, "steps"), RANK="0", WORLD_SIZE="1")
    require(code == 2 and "1 process by WORLD_SIZE, but 2 by OMPI_COMM_WORLD_SIZE" in text, f"WORLD_SIZE=1 under MPI: {code} {text}")
    code, text = run([members, "steps"], SLURM_NTASKS="2")
    require(code == 0, f"an allocation without a step: {code} {text}")


def check_stopped(members):
    """A member that is stopped is named by the others."""
    for victim in 1, 0:
        started, ranks = start(3, members, "forever", TIMEOUT="1")
        time.sleep(0.2)
        os.kill(ranks[victim], signal.SIGSTOP)
        lines = []
        while not any("does not answer" in line for line in lines):
            line = started.stdout.readline()
            if not line:
                break
            lines.append(line)
        os.kill(ranks[victim], signal.SIGKILL)
        started.kill()
        started.wait()
        for process in ranks.values():
            subprocess.run(["kill", "-KILL", str(process)], stderr=subprocess.DEVNULL)
        require(any(f"rank {victim} of 3 does not answer for 1 s" in line for line in lines), f"rank {victim} stopped: {lines}")


def check_killed(members, kills):
    """After a member is killed the others end soon."""
    for i in range(kills):
        started, ranks = start(3, members, "forever")
        time.sleep(0.003 * (i % 20))
        os.kill(ranks[i % 3], signal.SIGKILL)
        begun = time.monotonic()
        try:
            text, _ = started.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            started.kill()
            text = "nothing for 20 s"
        took = time.monotonic() - begun
        require(started.returncode != 0 and took < 10, f"kill {i}: {started.returncode} after {took:.1f} s: {text}")


def accuracy(text):
    return float(re.findall(r"test +([\d.]+) %", text)[-1])


def check_training(train, folder):
    """Two processes reach what one does; a run that is killed goes on to the same bits."""
    options = ["--epochs", 4, "--train-count", 2000, "--test-count", 501]
    code, text = run([train, *options, "--batch", 32, "--report", folder / "one"])
    require(code == 0, f"one process: {text}")
    wanted = accuracy(text)
    whole = command(2, train, *options, "--batch", 16, "--report", folder / "whole")
    code, text = run(whole)
    require(code == 0 and text.count("epoch") == 4 and abs(accuracy(text) - wanted) <= 3, f"two processes, {wanted} wanted: {text}")

    broken = command(2, train, *options, "--batch", 16, "--report", folder / "broken")
    started = subprocess.Popen(broken, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    started.stdout.readline()
    started.stdout.readline()
    children = subprocess.run(["pgrep", "-P", str(started.pid)], capture_output=True, text=True).stdout.split()
    os.kill(int(children[-1]), signal.SIGKILL)
    started.communicate(timeout=TIMEOUT)
    require(started.returncode != 0, "a killed run ends well")
    for lock in (folder / "broken").glob("*.lock"):
        lock.unlink()
    code, text = run([*broken, "--resume"])
    require(code == 0, f"resumed: {text}")
    same = [(folder / name / "checkpoint.safetensors").read_bytes() for name in ("whole", "broken")]
    require(same[0] == same[1], "the resumed run's checkpoint differs")
    # As many images of a step by another number of processes; another number of images is refused.
    code, text = run([train, *options, "--batch", 32, "--report", folder / "broken", "--resume"])
    require(code == 0, f"resumed by one process: {text}")
    code, text = run([train, *options, "--batch", 16, "--report", folder / "broken", "--resume"])
    require(code == 1 and "--batch is 16, the checkpoint's run has 32" in text, f"resumed with another batch: {text}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("members", type=pathlib.Path)
    parser.add_argument("train", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=3)
    arguments = parser.parse_args()
    if shutil.which("mpirun") is None:
        print("skipped: there is no mpirun")
        return 77
    code, text = run(command(2, arguments.members))
    if "no MPI" in text or "not installed" in text:
        print(f"skipped: {text}")
        return 77
    check_cases(arguments.members)
    check_alone(arguments.members)
    check_stopped(arguments.members)
    check_killed(arguments.members, arguments.kills)
    with tempfile.TemporaryDirectory() as folder:
        check_training(arguments.train, pathlib.Path(folder))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
