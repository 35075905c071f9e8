#include "support/process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "core/error.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

int CodeOf(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

std::string Slurp(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace

std::string Bin(const std::string& name) {
  const char* other = std::getenv("CREMA_TEST_BIN");
  const std::string in_other = other == nullptr ? "" : std::string(other) + "/" + name;
  const bool there = !in_other.empty() && access(in_other.c_str(), X_OK) == 0;
  return there ? in_other : std::string(CREMA_BIN_DIR) + "/" + name;
}

Process::Process(const std::vector<std::string>& command, const std::string& folder,
                 const std::string& out_file, const std::string& err_file) {
  const int out = open(out_file.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
  const int err = open(err_file.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
  CREMA_CHECK(out >= 0 && err >= 0);
  Start(command, folder, out, err);
  close(out);
  close(err);
}

Process::Process(const std::vector<std::string>& command, const std::string& folder, int out,
                 int err) {
  Start(command, folder, out, err);
}

void Process::Start(const std::vector<std::string>& command, const std::string& folder, int out,
                    int err) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_ = fork();
  CREMA_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    if (!folder.empty() && chdir(folder.c_str()) != 0) _exit(126);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
}

Process::~Process() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

// The number -1 would mean all processes of this user.
void Process::Signal(int signal) {
  if (pid_ > 0) kill(pid_, signal);
}

bool Process::IsRunning() {
  if (pid_ < 0) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return true;
  pid_ = -1;
  exit_code_ = CodeOf(status);
  return false;
}

bool Process::EndsWithin(std::chrono::milliseconds most) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (IsRunning()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

int Process::Wait() {
  if (pid_ < 0) return exit_code_;
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  exit_code_ = CodeOf(status);
  return exit_code_;
}

ProcessResult RunProcess(const std::vector<std::string>& command, const std::string& folder) {
  const TempDir temp;
  const std::string out = temp.path() + "/out";
  const std::string err = temp.path() + "/err";
  Process process(command, folder, out, err);
  ProcessResult result;
  result.exit_code = process.Wait();
  result.out = Slurp(out);
  result.err = Slurp(err);
  return result;
}

}  // namespace crema::test
