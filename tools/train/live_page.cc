#include "train/live_page.h"

#include <fcntl.h>
#include <gflags/gflags.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "core/strings.h"

DEFINE_int32(watch, -1,
             "[Output PORT] live page of this run for browsers of this machine; 0: any free port, "
             "-1: none");

// No POSIX header declares it.
extern char** environ;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

namespace crema::tools {
namespace {

struct Pipe {
  int read = -1;
  int write = -1;
};

// Other processes that are started do not inherit it.
Pipe MakePipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    Fail(ErrorCode::kIoFailure,
         "--watch: no pipe can be made: " + std::generic_category().message(errno));
  }
  return {.read = ends[0], .write = ends[1]};
}

// `report` lies beside this command.
std::string ReportProgram() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "report" : (self.parent_path() / "report").string();
}

// Returns the process; -1 if it cannot be started. It is in a process group of its own, so that
// Ctrl-C, after which a run writes its snapshot, does not end it.
pid_t Start(const std::vector<std::string>& command, int input, int output) {
  std::vector<char*> argv;
  for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t process = -1;
  const int error = posix_spawnp(&process, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? process : -1;
}

// Returns the first line; empty if there is none.
std::string ReadLine(int input) {
  std::string line;
  char c = 0;
  for (;;) {
    const ssize_t count = ::read(input, &c, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return {};
    if (c == '\n') return line;
    line += c;
  }
}

}  // namespace

LivePage::LivePage(const std::string& run_folder) {
  if (FLAGS_watch == -1) return;
  constexpr int kMostPort = 65535;
  if (FLAGS_watch < 0 || FLAGS_watch > kMostPort) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--watch is ", FLAGS_watch, "; it is a port, 0 to ", kMostPort, ", or -1"));
  }
  if (run_folder.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "--watch shows the folder of the run, and this run has none: give --run=DIR");
  }
  const Pipe input = MakePipe();
  const Pipe output = MakePipe();
  process_ = Start(
      {ReportProgram(), "--watch", "--until_eof", StrCat("--port=", FLAGS_watch), "--", run_folder},
      input.read, output.write);
  input_ = input.write;
  ::close(input.read);
  ::close(output.write);
  const std::string url = ReadLine(output.read);
  ::close(output.read);
  if (url.empty()) {
    End();
    Fail(ErrorCode::kIoFailure,
         StrCat("--watch=", FLAGS_watch, ": the live page does not start",
                process_ < 0 ? StrCat(", for there is no program ", ReportProgram())
                             : "; choose another port, or 0 for any free one"));
  }
  std::printf("live page: %s\n", url.c_str());
  std::fflush(stdout);
}

void LivePage::End() {
  if (input_ >= 0) ::close(input_);
  if (process_ < 0) return;
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace crema::tools
