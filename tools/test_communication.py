"""What a trace says of communication under computing, on times made by hand."""

import unittest

import communication
import intervals
import trace_file
from test_trace import STEPS, ToolTest, names, operation, whole


def steps_of_rank(rank, later=0, bytes_=2000):
    """Four of 100 us each: compute from 0 to 30 and from 40 to 50, all-reduces from 20 to 45 and on to
    60, so that 10 + 5 + 5 us of 40 are hidden, and 10 + 10 are not."""
    return [*names(rank), {**names(rank)[0], "tid": 2, "args": {"name": "communication"}},
            *(event for number in (1, 2, 3, 4) for begin in [900 + 100 * number + later] for event in (
                operation("k", "kernel", begin, 30, number, "backward/layers.1", pid=rank),
                operation("k", "kernel", begin + 40, 10, number, "backward/layers.0", pid=rank),
                operation("ncclAllReduce", "collective", begin + 20, 25, number,
                          "backward/layers.1/bucket 0", 2, rank, bytes=bytes_),
                operation("ncclAllReduce", "collective", begin + 45, 15, number,
                          "backward/layers.0/bucket 1", 2, rank, bytes=bytes_)))]


class Communication(ToolTest):
    def test_the_communication_stands_above_the_compute_stream_of_its_rank(self):
        # from 1000 to 1150 us: rank 1 begins and ends later
        events = [*steps_of_rank(0), *steps_of_rank(1, 50)]
        _, text = self.run_on(whole(events), "--step", "1", "--columns", "174")
        rows = [line.split("  ")[1:] for line in text.splitlines() if line.startswith("  ")][:8]
        names_ = [row[0].strip() for row in rows]
        self.assertEqual(names_, ["rank 0 communication", "rank 0 compute", "phase",
                                  "rank 0 loader", "rank 1 communication", "rank 1 compute",
                                  "phase", "rank 1 loader"])
        drawn = {name: row[-1].strip() for name, row in zip(names_, rows)}
        self.assertEqual(drawn["rank 0 communication"], "." * 20 + "A" * 40 + "." * 60 + "A" * 30)
        self.assertEqual(drawn["rank 1 communication"], "." * 70 + "A" * 40 + "." * 40)

    def test_hidden_and_exposed_communication(self):
        # Rank 0: 20 us of 40 are hidden. Rank 1, of which steps 1 and 2 differ and do not count,
        # computes 5 us more in the third of its steps: 22.5 of 40 on average.
        more = operation("k", "kernel", 1230, 5, 3, "backward/layers.0", pid=1)
        warm = operation("ncclAllReduce", "collective", 1070, 25, 1, "bucket 0", 2, 1, bytes=9)
        _, text = self.run_on(whole([*steps_of_rank(0), *steps_of_rank(1), more, warm]))
        self.assertIn("all-reduces of a step, mean of steps 3 to 4", text)
        rows = {line[:6].strip(): line[6:].split() for line in
                text.split("all-reduces of")[1].splitlines()[2:5]}
        # 4000 bytes in 40 us are 0.1 GB/s; with two ranks, 2 (N - 1) / N is 1
        self.assertEqual(rows["rank 0"], ["2", "0.04", "0.02", "0.02", "50.0", "%", "0.00",
                                          "0.10", "0.10"])
        self.assertEqual(rows["rank 1"], ["2", "0.04", "0.02", "0.02", "56.2", "%", "0.00",
                                          "0.10", "0.10"])
        self.assertEqual(rows["mean"][:5], ["2", "0.04", "0.02", "0.02", "53.1"])  # 42.5 of 80
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_what_a_rank_sends_depends_on_their_number(self):
        # a failed run has rank 0 alone, and knows of how many: 2 * 3 / 4 of 4 MB in 40 us
        _, text = self.run_on(whole(steps_of_rank(0, bytes_=2_000_000), world_size=4))
        self.assertEqual(text.split("\nrank 0")[1].split()[6:9], ["4.00", "100.00", "150.00"])
        self.assertNotIn("\nmean", text)

    def test_without_collectives_there_is_no_table_of_them(self):
        self.assertNotIn("all-reduce", self.run_on(whole(STEPS))[1])

    def test_the_layers_time_is_that_of_computing(self):
        _, text = self.run_on(whole(steps_of_rank(0)))
        self.assertEqual(self.row(text, "backward/layers.1", 1)[:2], ["3", "0.09"])
        self.assertNotIn("bucket", text)
        self.assertEqual(self.row(text, "communication: ncclAllReduce")[:2], ["6", "0.12"])

    def test_a_rank_whose_trace_was_full_ends_earlier(self):
        full = trace_file.Trace(
            [trace_file.Operation("k", "kernel", (rank, 0), 0, 1, number, "", 0, 0)
             for rank in (0, 1) for number in (1, 2)],
            {(0, 0): "compute", (1, 0): "compute"}, {"omitted": 5, "omitted_by_rank": [0, 5]})
        self.assertEqual(trace_file.steps_of(full, (0, 0)), [1, 2])
        self.assertEqual(trace_file.steps_of(full, (1, 0)), [1])

    def test_intervals(self):
        union = intervals.union_of([(5, 7), (0, 3), (2, 4), (7, 8), (9, 9)])
        self.assertEqual(union, [(0, 4), (5, 8)])
        other = [(-1, 1), (3, 6), (7, 10)]
        self.assertEqual(intervals.common_of(union, other), [(0, 1), (3, 4), (5, 6), (7, 8)])
        self.assertEqual(intervals.rest_of(union, other), [(1, 3), (6, 7)])
        self.assertEqual(intervals.rest_of(other, union), [(-1, 0), (4, 5), (8, 10)])
        self.assertEqual(intervals.rest_of(union, []), union)
        self.assertEqual(intervals.length_of(union), 7)
        none = communication.Communication(0, 0, 0, 0)
        self.assertEqual(none.share_hidden, 0)


if __name__ == "__main__":
    unittest.main()
