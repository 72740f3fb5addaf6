"""Plants the mistakes that the checks are there for, and expects each to be found."""

import tempfile
import unittest
from pathlib import Path

import check_includes
import check_reading
import sources

SOUND = {
    "simgpu/include/cuda_runtime.h": '#include "simgpu_launch.h"\n#if 1\n#endif\n',
    "simgpu/CMakeLists.txt": "add_library(simgpu launch.cpp)  # common/ and the stages use it\n",
    "common/cuda/buffer.hpp": "#pragma once\n#include <cuda_runtime.h>\n",
    "common/io/log.hpp": "#include <fmt/core.h>\n#include <vector>\n",
    "common/io/log.cpp": '#include "common/io/log.hpp"\n',
    "01_single_gpu/model.hpp": '#include "common/cuda/buffer.hpp"\n',
    "01_single_gpu/train.cu": '#include "01_single_gpu/model.hpp"\n// #include "later.hpp"\n',
    "01_single_gpu/main.cpp": '#include "common/io/log.hpp"\n',
    "01_single_gpu/CMakeLists.txt": "target_link_libraries(01_single_gpu single_gpu common)\n",
    "02_grad_accum/train.cu": '#include "01_single_gpu/model.hpp"\n',
    "tests/01_single_gpu/test.cpp": '#include "01_single_gpu/model.hpp"\n'
    '#include "tests/support/catch.hpp"\n'
    'const char* faulty = R"(\n#include "02_grad_accum/train.cu"\n)";\n',
    "tests/support/catch.hpp": "#include <catch2/catch.hpp>\n",
}


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for path, text in SOUND.items():
            self.write(path, text)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def expect(self, path, line, words):
        """The one finding is in `path` at `line` and its message has `words` in it."""
        findings = check_includes.check(self.root)[1]
        self.assertEqual([(path, line)], [f[:2] for f in findings], findings)
        self.assertIn(words, findings[0][2])


class CheckIncludes(Tree):
    def test_a_sound_tree_is_silent(self):
        count, findings = check_includes.check(self.root)
        self.assertEqual([], findings)
        self.assertEqual(10, count)

    def test_common_includes_a_stage(self):
        self.write("common/io/log.cpp", '\n#include "01_single_gpu/model.hpp"\n')
        self.expect("common/io/log.cpp", 2, "must not include what comes later")

    def test_a_stage_includes_a_later_one(self):
        self.write("01_single_gpu/main.cpp", '/* a\n b */\n#  include "02_grad_accum/train.cu"\n')
        self.expect("01_single_gpu/main.cpp", 3, "must not include what comes later")

    def test_the_simulator_includes_common(self):
        self.write("simgpu/include/cuda_runtime.h", '#include "common/cuda/buffer.hpp"\n')
        self.expect("simgpu/include/cuda_runtime.h", 1, "must not include what comes later")

    def test_a_stage_names_the_simulator(self):
        self.write("01_single_gpu/model.hpp", '#include "simgpu/include/cuda_runtime.h"\n')
        self.expect("01_single_gpu/model.hpp", 1, "only the real API")

    def test_tests_of_a_stage_include_a_later_one(self):
        self.write("tests/01_single_gpu/test.cpp", '#include "02_grad_accum/train.cu"\n')
        self.expect("tests/01_single_gpu/test.cpp", 1, "must not include what comes later")

    def test_tests_of_common_include_a_stage(self):
        self.write("tests/common/test.cpp", '#include "01_single_gpu/model.hpp"\n')
        self.expect("tests/common/test.cpp", 1, "must not include what comes later")

    def test_a_stage_includes_tests(self):
        self.write("01_single_gpu/main.cpp", '#include "tests/support/catch.hpp"\n')
        self.expect("01_single_gpu/main.cpp", 1, "must not include tests")

    def test_a_path_that_is_not_from_the_root(self):
        for include in ("model.hpp", "../common/io/log.hpp", "01_single_gpu/no_such.hpp"):
            with self.subTest(include):
                self.write("01_single_gpu/main.cpp", f'#include "{include}"\n')
                self.expect("01_single_gpu/main.cpp", 1, "is no path from the root")

    def test_our_own_file_in_angle_brackets(self):
        self.write("01_single_gpu/main.cpp", "#include <common/io/log.hpp>\n")
        self.expect("01_single_gpu/main.cpp", 1, "write it in quotes")

    def test_a_conditional_in_a_stage(self):
        for conditional in ("#ifdef __CUDACC__", "#if 1", "# ifndef X", "#else", "  #endif"):
            with self.subTest(conditional):
                self.write("01_single_gpu/model.hpp", f"#pragma once\n{conditional}\n")
                self.expect("01_single_gpu/model.hpp", 2, "no preprocessor conditionals")

    def test_nvcc_reaches_fmt(self):
        for library in ("fmt/core.h", "spdlog/spdlog.h", "CLI/CLI.hpp", "nlohmann/json.hpp"):
            with self.subTest(library):
                self.write("01_single_gpu/train.cu", f"#include <{library}>\n")
                self.expect("01_single_gpu/train.cu", 1, f"{library} <- 01_single_gpu/train.cu")

    def test_nvcc_reaches_fmt_through_headers(self):
        self.write("01_single_gpu/train.cu", '#include "01_single_gpu/model.hpp"\n')
        self.write("02_grad_accum/train.cu", "")
        self.write("common/cuda/buffer.hpp", '#include "common/io/log.hpp"\n')
        chain = "fmt/core.h <- common/io/log.hpp <- common/cuda/buffer.hpp <- 01_single_gpu/model"
        self.expect("01_single_gpu/train.cu", 1, chain)

    def test_headers_that_include_each_other_end(self):
        self.write("common/cuda/buffer.hpp", '#include "01_single_gpu/model.hpp"\n')
        self.expect("common/cuda/buffer.hpp", 1, "must not include what comes later")

    def test_cmake_links_a_later_folder(self):
        for folder, line, words in (
            ("common", "target_link_libraries(common single_gpu)", "01_single_gpu: common must"),
            ("simgpu", "target_link_libraries(simgpu common_cuda)", "common: simgpu must not"),
            ("01_single_gpu", "target_sources(x 02_grad_accum/train.cu)", "02_grad_accum: 01"),
        ):
            with self.subTest(folder):
                self.write(f"{folder}/CMakeLists.txt", line)
                self.expect(f"{folder}/CMakeLists.txt", 1, words)
                self.write(f"{folder}/CMakeLists.txt", "")


class CheckReading(Tree):
    # The function has 5 lines of its own, and as many lines of comment as it takes.
    LOOP = (
        "namespace {\n}\n\nint train(int a,\n          int b) {\n"
        "%s  for (auto s : run.steps()) {\n  }\n}\n"
    )

    def wrong(self, stage):
        return check_reading.check_stage(self.root, stage)[2]

    def loop_of(self, lines):
        return self.LOOP % ("  // in run.steps() ...\n" * (lines - 5))

    def test_the_loop_fits(self):
        for lines in (30, 45):
            self.write("01_single_gpu/train.cu", self.loop_of(lines))
            self.assertEqual([], self.wrong("01_single_gpu"))

    def test_the_loop_is_too_short_or_too_long(self):
        for lines in (29, 46):
            self.write("01_single_gpu/train.cu", self.loop_of(lines))
            self.assertIn(f"has {lines} lines", self.wrong("01_single_gpu")[0])

    def test_no_loop_or_two(self):
        for text in ("", self.loop_of(30) * 2):
            self.write("01_single_gpu/train.cu", text)
            self.assertIn("has 0 lines", self.wrong("01_single_gpu")[0])

    def test_the_stage_is_too_long(self):
        self.write("02_grad_accum/train.cu", self.loop_of(30))
        self.write("02_grad_accum/a.hpp", "// why\n\nint a;\n" * (500 - 7))
        self.assertEqual([], self.wrong("02_grad_accum"))
        self.write("02_grad_accum/b.hpp", "int b;")
        self.assertIn("501 lines of code", self.wrong("02_grad_accum")[0])


class WithoutComments(unittest.TestCase):
    def test_strings_stay_and_lines_keep_their_numbers(self):
        text = 'a("//x") /* b\nc */ d // e\nf(R"(/* g */)") \'"\' // h"'
        expected = 'a("//x")  \n d  \nf(R"(/* g */)") \'"\'  '
        self.assertEqual(expected, sources.without_comments(text))


if __name__ == "__main__":
    unittest.main()
