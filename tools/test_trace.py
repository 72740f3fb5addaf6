"""The reader of traces on files made by hand, whose shares can be checked by hand."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import trace
import trace_file

MACHINE = {"device": "X", "copy_device_bytes": 20e9, "copy_host_bytes": 10e9, "kernel_bytes": 40e9,
           "fp32_flops": 100e9, "fp64_flops": 50e9}


def operation(name, kind, ts, dur, step, range_, tid=1, pid=0, **args):
    return {"name": name, "cat": kind, "ph": "X", "pid": pid, "tid": tid, "ts": ts, "dur": dur,
            "args": {"step": step, "range": range_, **args}}


def names(pid=0):
    return [{"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
            for tid, name in enumerate(("loader", "compute"))]


def step(begin, number, **where):
    """100 us: a product of 40, nothing for 10, a kernel of 30, a clear of 5, nothing for 15."""
    return [operation("cublasSgemm", "product", begin, 40, number, "forward/layers.0",
                      flops=2e6, bytes=1000, **where),
            operation("sgd_kernel<float>", "kernel", begin + 50, 30, number, "update",
                      bytes=600_000, **where),
            operation("clear", "clear", begin + 80, 5, number, "", **where)]


def copies():
    return [operation("copy host to device", "copy", 1095, 10, 12, "load", tid=0, bytes=50_000)]


def whole(events, **about):
    return {"otherData": {"stage": "01", "device": "X", "simulated": True, "omitted": 0, **about},
            "traceEvents": names() + events}


STEPS = [*step(900, 9), *step(1000, 10), *step(1100, 11), *copies(), *step(1200, 12)]


class ToolTest(unittest.TestCase):
    """Runs the tool on a file of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "trace.json"
        self.machine = self.folder / "machine.json"

    def run_on(self, content, *options):
        """(exit code, what it printed)."""
        text = content if isinstance(content, (str, bytes)) else json.dumps(content)
        self.path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return self.run_tool(*options)

    def run_tool(self, *options):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                code = trace.main([str(self.path), "--machine", str(self.machine),
                                   "--columns", "80", *options])
            except SystemExit as exit_:
                code = exit_.code
        return code, out.getvalue()

    def row(self, text, name, table=0):
        """The numbers of a row, in the first or in the second table."""
        part = text.split("by kernel")[1].split("by phase")[table]
        (line,) = [line for line in part.splitlines() if line.startswith(name)]
        return line[len(name):].split()


class Tool(ToolTest):
    def test_shares_counts_and_rates(self):
        self.machine.write_text(json.dumps(MACHINE))
        code, text = self.run_on(whole(STEPS))
        self.assertEqual(code, 0)
        # Steps 10 to 12, from 1000 to 1285 us: 3 times 40, 30 and 5 are busy, 60 are idle.
        self.assertIn("by kernel, steps 10 to 12", text)
        # 2 MFLOP in 40 us are 50 GFLOP/s, half of 100; 1000 bytes in 40 us are 0.025 GB/s
        self.assertEqual(self.row(text, "cublasSgemm"),
                         ["3", "0.12", "42.1", "%", "0.03", "50.0", "50", "%"])
        # 600 kB in 30 us are 20 GB/s, half of 40
        self.assertEqual(self.row(text, "sgd_kernel"),
                         ["3", "0.09", "31.6", "%", "20.00", "-", "50", "%"])
        self.assertEqual(self.row(text, "clear"), ["3", "0.01", "5.3", "%", "-", "-", "-"])
        # 50 kB in 10 us are 5 GB/s, half of 10
        self.assertEqual(self.row(text, "loader: copy host to device"),
                         ["1", "0.01", "3.5", "%", "5.00", "-", "50", "%"])
        self.assertEqual(self.row(text, "idle"), ["0.06", "21.1", "%"])
        self.assertIn("the compute stream was idle 21.1 % of the time", text)
        self.assertEqual(self.row(text, "forward/layers.0", 1)[:4], ["3", "0.12", "42.1", "%"])
        self.assertEqual(self.row(text, "update", 1)[:4], ["3", "0.09", "31.6", "%"])
        self.assertEqual(self.row(text, "other", 1)[:4], ["3", "0.01", "5.3", "%"])
        self.assertEqual(self.row(text, "idle", 1), ["0.06", "21.1", "%"])
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_the_limit_of_a_mixed_phase_counts_what_is_known(self):
        self.machine.write_text(json.dumps(MACHINE))
        # At best 20 us for the product and 15 for the kernel, of 100; the third tells nothing.
        events = [operation("cublasSgemm", "product", 0, 60, 1, "f", flops=2e6),
                  operation("k", "kernel", 60, 40, 1, "f", bytes=600_000),
                  operation("l", "kernel", 100, 77, 1, "f")]
        self.assertEqual(self.row(self.run_on(whole(events))[1], "f", 1)[-2:], ["35", "%"])

    def test_faster_than_the_machine_at_its_best_is_explained(self):
        self.machine.write_text(json.dumps(MACHINE))
        self.assertNotIn("above 100", self.run_on(whole(STEPS))[1])
        event = operation("k", "kernel", 0, 10, 1, "f", bytes=600_000)  # 60 GB/s of 40
        _, text = self.run_on(whole([event]))
        self.assertEqual(self.row(text, "k")[-2:], ["150", "%"])
        self.assertIn("above 100 %", text)

    def test_copies_on_the_device_move_twice_their_bytes_and_fp64_has_its_own_peak(self):
        self.machine.write_text(json.dumps(MACHINE))
        events = [operation("copy device to device", "copy", 0, 10, 1, "a", bytes=50_000),
                  operation("cublasDgemm", "product", 10, 40, 1, "b", flops=1e6)]
        _, text = self.run_on(whole(events))
        self.assertEqual(self.row(text, "copy device")[-4:], ["10.00", "-", "50", "%"])
        self.assertEqual(self.row(text, "cublasDgemm")[-3:], ["25.0", "50", "%"])

    def test_a_timeline_has_a_letter_a_kind_and_small_ones_for_less_than_half(self):
        # 71 letters fit beside the names; --columns 110 leaves 100 of 1 us each.
        _, text = self.run_on(whole(STEPS), "--step", "11", "--columns", "111")
        lines = {line.split()[0]: line.split()[1] for line in text.splitlines()[3:7]
                 if line.startswith("  ")}
        self.assertEqual(lines["compute"], "M" * 40 + "." * 10 + "K" * 30 + "Z" * 5 + "." * 15)
        self.assertEqual(lines["phase"], "f" * 40 + "." * 10 + "u" * 30 + "o" * 5 + "." * 15)
        self.assertEqual(lines["loader"], "C" * 5 + "." * 95)
        self.assertIn("step 11: 0.100 ms", text)
        text = trace.bar([trace_file.Operation("n", "copy", (0, 0), 3, 4, 1, "", 0, 0)], 0, 10, 2,
                         lambda _: "C")
        self.assertEqual(text, "c.")

    def test_the_step_to_draw(self):
        self.assertIn("step 11: ", self.run_on(whole(STEPS))[1])  # the third of four
        self.assertIn("step 9: ", self.run_on(whole(STEPS), "--step", "9")[1])
        code, text = self.run_on(whole(STEPS), "--step", "13")
        self.assertEqual(code, 2)
        self.assertIn("no step 13; the trace has steps 9 to 12", text)

    def test_one_step_alone_is_not_left_out(self):
        code, text = self.run_on(whole(step(0, 1)))
        self.assertEqual(code, 0)
        self.assertIn("steps 1 to 1", text)

    def test_ranks(self):
        events = [*STEPS, *names(1), *step(950, 10, pid=1)]
        code, text = self.run_on(whole(events))
        self.assertEqual(code, 0)
        self.assertIn("rank 0 compute", text)
        self.assertIn("rank 1 compute", text)
        self.assertIn("by kernel, rank 0, steps 10 to 12", text)
        self.assertEqual(self.row(text, "cublasSgemm")[0], "3")
        code, text = self.run_on(whole(events), "--rank", "1")
        self.assertNotIn("rank 0 compute", text)
        self.assertEqual(self.row(text, "cublasSgemm")[0], "1")
        self.assertEqual(self.run_on(whole(events), "--rank", "2")[0], 2)

    def test_of_many_ranks_one_is_drawn(self):
        for ranks, drawn in ((4, 4), (5, 1)):
            events = [e for pid in range(ranks) for e in [*names(pid), *step(0, 1, pid=pid)]]
            text = self.run_on(whole(events))[1]
            self.assertEqual(text.count(" compute  "), drawn)
            self.assertIn(f"ranks 0 to {ranks - 1}; --rank N", text)

    def test_a_full_trace_says_so_and_its_last_step_is_not_counted(self):
        _, text = self.run_on(whole(STEPS[:-2], omitted=2))
        self.assertIn("2 operations came after it", text)
        self.assertIn("steps 9 to 11", text)

    def test_without_numbers_of_the_machine_it_says_how_to_get_them(self):
        for content, words in ((None, "not known"), ("{", "not usable"),
                               (json.dumps({**MACHINE, "kernel_bytes": 0}), "not usable"),
                               (json.dumps({**MACHINE, "device": "Y"}), "another device, Y")):
            if content is not None:
                self.machine.write_text(content)
            code, text = self.run_on(whole(STEPS))
            self.assertEqual(code, 0)
            self.assertIn(words, text)
            self.assertIn("./course bench machine", text)
            self.assertNotIn("limit", text)

    def test_a_file_that_is_no_trace_is_one_line_and_3(self):
        good = json.dumps(whole(STEPS))
        event = step(0, 1)[0]
        for content, words in (
                ("", "empty"),
                (good[:-20], "cut off"),
                (good[: len(good) // 2], "cut off"),
                (b"\xff\xfe\x00", "no text"),
                ("[]", "no trace"), ("3", "no trace"), ("{}", "no trace"),
                ({"otherData": {}, "traceEvents": 3}, "no trace"),
                ({"otherData": {}, "traceEvents": [3]}, "no trace"),
                ({"otherData": [1], "traceEvents": []}, "no trace"),
                (whole([{**event, "ts": "soon"}]), "not a number"),
                (whole([{**event, "dur": None}]), "not a number"),
                (whole([{**event, "pid": []}]), "not a number"),
                (whole([{**event, "args": {}}]), "no trace"),
                (whole([]), "no operations"),
                (whole([], note="nothing was written"), "no operations: nothing was written"),
                (good.replace(": 1200,", ": NaN,"), "not a number"),
                ("[" * 100_000, "")):
            with self.subTest(words):
                code, text = self.run_on(content)
                self.assertEqual(code, 3, text)
                self.assertEqual(text.count("\n"), 1, text)
                self.assertIn(f"trace: {self.path}: ", text)
                self.assertIn(words, text)
        self.path.unlink()
        code, text = self.run_tool()
        self.assertEqual(code, 3)
        self.assertIn("No such file", text)

    def test_names_fit_their_column(self):
        self.assertEqual(trace.short("bias_activation_kernel<float, Relu<float>>", 34),
                         "bias_activation_kernel<Relu>")
        self.assertEqual(trace.short("sgd_kernel<double>", 34), "sgd_kernel")
        self.assertEqual(trace.short("a" * 20 + "b" * 20, 20), "a" * 8 + ".." + "b" * 10)

    def test_busy_time_counts_overlaps_once(self):
        at = [trace_file.Operation("n", "k", (0, 0), *times, 1, "", 0, 0)
              for times in ((0, 10), (5, 12), (6, 8), (20, 21))]
        self.assertEqual(trace_file.busy_time(at), 13)


if __name__ == "__main__":
    unittest.main()
