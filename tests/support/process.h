// Runs commands of ours as a user would.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace crema::test {

struct ProcessResult {
  int exit_code = -1;  // 128 + n when signal n ended it
  std::string out;
  std::string err;
};

// The path of a command of ours: in the folder that CREMA_TEST_BIN names, if it is there, else in
// this build.
std::string Bin(const std::string& name);

// Runs a program with its arguments in `folder` (empty: here) and waits for it.
ProcessResult RunProcess(const std::vector<std::string>& command, const std::string& folder = "");

// A program that is running; ended with SIGKILL by the destructor if it still is.
class Process {
 public:
  // Its output goes to the two files.
  Process(const std::vector<std::string>& command, const std::string& folder,
          const std::string& out_file, const std::string& err_file);
  // Its output goes to open file descriptors, which stay open here.
  Process(const std::vector<std::string>& command, const std::string& folder, int out, int err);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Signal(int signal);
  int Wait();  // exit code; 128 + n when signal n ended it
  bool IsRunning();
  bool EndsWithin(std::chrono::milliseconds most);
  int pid() const { return pid_; }  // -1: it has ended

 private:
  void Start(const std::vector<std::string>& command, const std::string& folder, int out, int err);

  int pid_ = -1;
  int exit_code_ = -1;
};

}  // namespace crema::test
