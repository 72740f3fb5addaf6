#!/usr/bin/env python3
"""Ranks on two hosts that talk over TCP: the losses and weights are those of one host.

    two_hosts_test.py PROGRAM [GPUS]

The hosts are two network namespaces of this machine with names of their own, joined by a virtual
cable (veth). The test runs in the first one and makes the second; Open MPI starts its daemon there
through a script that stands in for ssh. Nothing is left to clean up: the namespaces and the cable
go with the last process in them. Status 77, with the reason, where namespaces are not allowed, or
where there are fewer GPUs than the GPUS that are wanted.
"""

import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from jobs import JobTest  # noqa: E402  (after the path)

SKIPPED = 77
INSIDE = "DDP_TWO_HOSTS_TEST"  # set for the process that is on host one
ONE, TWO, BITS = "10.213.7.1", "10.213.7.2", 24
CABLE = "cable"  # what its end is called on both hosts
# Enough for several messages of every kind; a net that is trained in a second.
TRAINING = ("--data", "synthetic", "--layers", "20-64-32-4", "--global-batch", 300, "--steps", 12,
            "--quiet")


def enter_host_one():
    """Starts this test again as a process of a new namespace; skips it where that is refused."""
    for tool in ("ip", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            skip(f"there is no program {tool} here")
    for user in ([], ["--user", "--map-root-user"]):  # root may; others in a world of their own
        unshare = ["unshare", *user, "--net", "--uts"]
        tried = subprocess.run([*unshare, "ip", "link", "add", "name", CABLE, "type", "veth",
                                "peer", "name", "other"], capture_output=True, text=True)
        if tried.returncode == 0:
            os.environ[INSIDE] = "1"
            os.execvp("unshare", [*unshare, sys.executable, *sys.argv])
    skip(f"network namespaces are not allowed here: {tried.stderr.strip()}")


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def on(host, *command):
    subprocess.run([*host, *command], check=True)


def make_host_two():
    """A process that keeps the second host, until its input is closed."""
    on([], "hostname", "ddp-one")
    keeper = subprocess.Popen(
        ["unshare", "--net", "--uts", "sh", "-c", "hostname ddp-two && echo here && exec cat"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if keeper.stdout.readline() != "here\n":
        skip("a second namespace is not allowed here")
    two = ["nsenter", "--target", str(keeper.pid), "--net", "--uts"]
    on([], "ip", "link", "add", "name", CABLE, "type", "veth", "peer", "name", CABLE, "netns",
       str(keeper.pid))
    for host, address in (([], ONE), (two, TWO)):
        on(host, "ip", "address", "add", f"{address}/{BITS}", "dev", CABLE)
        # Without IPv6, which would say things of its own over the cable.
        on(host, "ip", "link", "set", CABLE, "addrgenmode", "none", "up")
        on(host, "ip", "link", "set", "lo", "up")
    return keeper, two


def bytes_sent():
    """Over the cable so far, from host one."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == CABLE:
            return int(numbers.split()[8])
    raise AssertionError("host one has lost its cable")


class TwoHosts(JobTest):
    two = ()

    def launcher(self, ranks):
        """Half of the ranks on each host, and nothing but TCP between them."""
        agent = self.folder / "agent"
        agent.write_text(f'#!/bin/sh\nshift\nexec {" ".join(self.two)} sh -c "$*"\n')
        agent.chmod(0o700)
        hosts = self.folder / "hosts"
        hosts.write_text(f"{ONE} slots={ranks // 2}\n{TWO} slots={ranks // 2}\n")
        settings = {"plm_rsh_agent": agent, "orte_default_hostfile": hosts, "btl": "tcp,self",
                    "btl_tcp_if_include": CABLE, "oob_tcp_if_include": CABLE}
        return [word for name, value in settings.items() for word in ("--mca", name, str(value))]

    def run_on_two(self, ranks, *options, **variables):
        path = self.folder / "two.jsonl"
        before = bytes_sent()
        done = self.job(ranks, *TRAINING, *options, "--metrics", path,
                        launcher=self.launcher(ranks), **variables)
        return done, path, bytes_sent() - before

    def test_the_losses_and_weights_are_those_of_one_host(self):
        for ranks in (2, 4):
            for algorithm in ("naive", "ring", "ring-segmented", "tree"):
                with self.subTest(ranks=ranks, algorithm=algorithm):
                    options = ("--allreduce", algorithm, "--check-replicas", 3)
                    before = bytes_sent()
                    one = self.metrics(ranks, *TRAINING, *options)
                    self.assertEqual(bytes_sent(), before)
                    done, path, sent = self.run_on_two(ranks, *options)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    two = self.events(path)
                    for step in one["step"] + two["step"]:
                        del step["seconds"]
                    self.assertEqual(two["step"], one["step"])
                    end = two["end"][0]
                    self.assertEqual(end["parameter_checksum"], one["end"][0]["parameter_checksum"])
                    self.assertEqual(end["traffic"], one["end"][0]["traffic"])
                    # Whatever the algorithm, some rank of host one sends all its messages across:
                    # rank 1 to its right neighbour, or (naive, tree) rank 0 its half at least.
                    of_rank = end["traffic"][ranks // 2 - 1]["bytes_sent"]
                    self.assertGreater(sent, of_rank // 2)

    def test_a_rank_of_the_other_host_that_fails_ends_the_job(self):
        done, _, _ = self.run_on_two(4, DDP_FAULT="3:2:throw")
        errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
        self.assertEqual((done.returncode, len(errors)), (1, 1), done.stderr)
        self.assertIn("rank 3, step 2", errors[0])
        self.assertLess(done.seconds, 40)


def visible_gpus():
    if shutil.which("nvidia-smi") is None:
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    return sum(line.startswith("GPU ") for line in listed.splitlines())


if __name__ == "__main__":
    if INSIDE not in os.environ:
        if len(sys.argv) > 2 and visible_gpus() < int(sys.argv[2]):
            skip(f"it needs {sys.argv[2]} GPUs; there are {visible_gpus()}")
        enter_host_one()
    TwoHosts.program = sys.argv[1]
    keeper, TwoHosts.two = make_host_two()
    try:
        unittest.main(argv=sys.argv[:1])
    finally:
        keeper.stdin.close()
        keeper.wait()
