"""docs/player.html, opened and played in a browser: what it says and shows at each step."""

import json
import re
import unittest
from pathlib import Path

import docs
import make_recordings
from browser import Page, find_browser
from sources import ROOT

PAGE = ROOT / "docs/player.html"
RANKS = 4
CELLS = "[...document.querySelectorAll('.chunk')].map(c => [c.dataset.rank, c.dataset.chunk,"\
        " c.dataset.terms, c.querySelector('text').textContent, c.querySelectorAll('.frame').length])"
ITEMS = "[...document.querySelectorAll('#words li')].map(item => item.textContent)"


def ring_by_the_table():
    """Yields, for each step, the sentences and {(rank, chunk): ranks whose terms are there}.

    From the table in 04_ring_allreduce/ring_allreduce.hpp: in step s rank r sends chunk r - s, and in
    the second phase chunk r + 1 - s.
    """
    held = {(rank, chunk): {rank} for rank in range(RANKS) for chunk in range(RANKS)}
    yield [], held
    for index in range(2 * (RANKS - 1)):
        gathers, step = divmod(index, RANKS - 1)
        sentences, after = [], dict(held)
        for rank in range(RANKS):
            chunk, right = (rank + gathers - step) % RANKS, (rank + 1) % RANKS
            terms = held[rank, chunk]
            after[right, chunk] = terms if gathers else terms | {right}
            words = " ".join(map(str, sorted(terms)))
            sentences.append(f"sends chunk {chunk} ({len(terms)} term{'s' * (len(terms) > 1)}:"
                             f" rank{'s' * (len(terms) > 1)} {words}) to rank {right}")
        held = after
        yield sentences, held


class Recordings(unittest.TestCase):
    def recording(self, name):
        return json.loads((make_recordings.FOLDER / f"{name}.json").read_text(encoding="utf-8"))

    def test_the_page_has_them(self):
        self.assertEqual(make_recordings.PAGE_DATA.read_text(encoding="utf-8"),
                         make_recordings.page_data(make_recordings.FOLDER))
        for path in make_recordings.FOLDER.glob("*.json"):
            self.assertLess(path.stat().st_size, 200_000, path)

    def test_a_slow_rank_delays_all(self):
        quick, slow = (self.recording(name)["steps"][1:] for name in ("ring", "ring-slow"))
        for index, step in enumerate(slow):
            for rank, message in enumerate(step["messages"]):
                # Rank 2 sleeps 20 ms before each of its steps; what it then sends is at its right
                # neighbour in the same step, and with each step at one more rank.
                steps_behind = max((rank - 2) % RANKS - 1, 0)
                self.assertGreater(message["end_ms"], 20 * (index + 1 - steps_behind))
        for usual, late in zip(quick[-1]["messages"], slow[-1]["messages"]):
            self.assertLess(usual["end_ms"], late["end_ms"])

    def test_no_all_reduce_ends_before_the_last_rank_has_come(self):
        for name in ("streams-off", "streams-on", "streams-slow"):
            calls = {}
            for o in self.recording(name)["operations"]:
                if o["phase"] == "all-reduce":
                    calls.setdefault(o["what"], []).append(o)
            for bucket, own in calls.items():
                with self.subTest(name, bucket=bucket):
                    self.assertEqual(len(own), RANKS)
                    self.assertLess(max(o["begin_ms"] for o in own), min(o["end_ms"] for o in own))


@unittest.skipIf(find_browser() is None, "no chromium here (Debian: chromium)")
class Player(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = cls.enterClassContext(Page())

    def tearDown(self):
        self.assertEqual(self.page.errors, [])

    def click(self, name):
        self.page.value(f"document.getElementById('{name}').click()")

    def title(self):
        return self.page.value("document.querySelector('#words p').textContent")

    def place(self):
        return self.page.value("document.getElementById('place').textContent")

    def test_the_ring_is_that_of_the_table(self):
        for name in ("ring", "ring-slow"):
            self.page.show(PAGE, f"#{name}")
            before = None
            for index, (sentences, held) in enumerate(ring_by_the_table()):
                if index:
                    self.click("next")
                with self.subTest(name, step=index):
                    self.assertEqual(self.place(), f"{index} of 6")
                    said = self.page.value(ITEMS)
                    self.assertEqual(len(said), len(sentences))
                    for rank, (text, sentence) in enumerate(zip(said, sentences)):
                        self.assertRegex(text, rf"^rank {rank}\b.* {re.escape(sentence)}$")
                        late = name == "ring-slow" and rank == 2
                        self.assertEqual("late by" in text, late, text)
                    for rank, chunk, terms, number, frames in self.page.value(CELLS):
                        place = int(rank), int(chunk)
                        self.assertEqual(terms, "".join(map(str, sorted(held[place]))))
                        self.assertEqual(int(number), len(held[place]))
                        changed = before is not None and before[place] != held[place]
                        self.assertEqual(frames, int(changed), place)
                before = held

    def test_the_streams_of_all_ranks(self):
        for name in ("streams-off", "streams-on", "streams-slow"):
            self.page.show(PAGE, f"#{name}")
            labels = self.page.value("[...document.querySelectorAll('.row > text:first-child')]"
                                     ".map(label => label.textContent)")
            self.assertEqual(labels, [f"{rank} {stream}" for rank in range(RANKS)
                                      for stream in ("comp.", "comm.")])
            for look in ("forward", "backward", "update", "all-reduce"):
                self.assertGreater(self.page.value(
                    f"document.querySelectorAll('.row .{look}').length"), RANKS)
            self.page.press("End")
            self.assertIn("The step is over on all ranks.", self.title())

    def test_keys_and_buttons(self):
        self.page.show(PAGE)
        for key, place in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", 6),
                           ("ArrowRight", 6), ("Home", 0), ("ArrowLeft", 0)):
            self.page.press(key)
            self.assertEqual(self.place(), f"{place} of 6", key)
        self.click("next")
        self.click("next")
        self.click("back")
        self.assertEqual(self.place(), "1 of 6")
        self.page.value("slider.value = 4; slider.dispatchEvent(new Event('input'))")
        self.assertEqual(self.place(), "4 of 6")
        self.click("first")
        self.assertEqual(self.place(), "0 of 6")
        self.page.press(" ", " ")
        self.assertEqual(self.page.value("play.textContent"), "Pause")
        self.page.press(" ", " ")
        self.assertEqual(self.page.value("play.textContent"), "Play")

    def test_a_slow_recording_plays_longer(self):
        waits = {}
        for name in ("ring", "ring-slow"):
            self.page.show(PAGE, f"#{name}")
            # Time is told, not waited for: what the page would wait until the next step.
            self.page.value("setTimeout = (then, wait) => { waited = wait; return 1; }; 0")
            self.click("play")
            waits[name] = self.page.value("waited")
        self.assertGreater(waits["ring-slow"], 1.5 * waits["ring"])

    def test_another_recording_is_chosen(self):
        self.page.show(PAGE)
        self.page.value("recording.value = 'streams-on'; recording.dispatchEvent(new Event('change'))")
        self.assertEqual(self.page.value("location.hash"), "#streams-on")
        self.assertIn("The step begins.", self.title())
        self.page.show(PAGE, "#nonsense")
        self.assertIn("At first", self.title())

    def test_narrow_and_dark(self):
        for name in make_recordings.NAMES:
            for dark in (False, True):
                self.page.show(PAGE, f"#{name}", width=360, height=700, dark=dark)
                self.page.press("ArrowRight")
                self.assertLessEqual(self.page.value("document.documentElement.scrollWidth"), 360)
                back = self.page.value("getComputedStyle(document.body).backgroundColor")
                self.assertEqual(back, "rgb(27, 29, 33)" if dark else "rgb(255, 255, 255)")


class Site(unittest.TestCase):
    def test_the_links_lead_to_pages_of_the_site(self):
        text = docs.player(ROOT, "player.html", PAGE.read_text(encoding="utf-8"))
        self.assertIn('href="page_04_ring_allreduce_README.html"', text)
        self.assertNotIn(".md", text)

    def test_links_to_the_player_stay(self):
        self.assertEqual(docs.filtered(ROOT, "docs/labs.md", "[a](player.html#ring-slow)"),
                         "[a](player.html#ring-slow)\n")

    def test_it_needs_no_other_file(self):
        needed = re.findall(r'(?:src|href)="(player[^"#]*|recordings[^"]*)"',
                            PAGE.read_text(encoding="utf-8"))
        self.assertEqual(sorted([*needed, "player.html"]), sorted(docs.PLAYER))
        for name in docs.PLAYER:
            self.assertTrue((ROOT / "docs" / name).is_file(), name)
            self.assertNotRegex((ROOT / "docs" / name).read_text(encoding="utf-8"),
                                r"https?://(?!www\.w3\.org)|fetch\(|import ")


if __name__ == "__main__":
    unittest.main()
