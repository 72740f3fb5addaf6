#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace ddp {

struct ProcessResult {
  int exit_code = 0;  ///< as a shell has it: 128 + signal for a program that a signal ended
  std::string out;
  std::string err;
};

/// Runs a program with `arguments` and, besides the present environment, `variables`
/// ("NAME=value"). A program that is not done after `limit` is killed (exit code 137).
ProcessResult run_process(const std::filesystem::path& program,
                          const std::vector<std::string>& arguments,
                          const std::vector<std::string>& variables = {},
                          std::chrono::seconds limit = std::chrono::seconds(30));

/// A program of this build, from the folder that holds the running test.
std::filesystem::path program_of_this_build(const std::string& name);

}  // namespace ddp
