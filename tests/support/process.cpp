#include "tests/support/process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>
#include <thread>

#include "tests/support/temporary_folder.hpp"

namespace ddp {
namespace {

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

int wait_for_exit(pid_t process, std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  int status = 0;
  while (waitpid(process, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) kill(process, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

ProcessResult run_process(const std::filesystem::path& program,
                          const std::vector<std::string>& arguments,
                          const std::vector<std::string>& variables, std::chrono::seconds limit) {
  const TemporaryFolder folder;
  const std::string out = (folder / "out").string();
  const std::string err = (folder / "err").string();
  std::vector<std::string> argument_strings = {program.string()};
  argument_strings.insert(argument_strings.end(), arguments.begin(), arguments.end());
  // The first of two entries of one name counts, so the new ones come first.
  std::vector<std::string> variable_strings = variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variable_strings.emplace_back(*entry);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), flags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), flags, 0600);
  pid_t process = 0;
  const int error =
      posix_spawn(&process, program.c_str(), &actions, nullptr, pointers(argument_strings).data(),
                  pointers(variable_strings).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + program.string());
  const int exit_code = wait_for_exit(process, limit);
  return {exit_code, read_file(out), read_file(err)};
}

std::filesystem::path program_of_this_build(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

}  // namespace ddp
