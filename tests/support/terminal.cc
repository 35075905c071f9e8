#include "support/terminal.h"

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utmp.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "core/error.h"

namespace crema::test {
namespace {

winsize SizeOf(int columns) {
  winsize size{};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  return size;
}

}  // namespace

void Screen::Put(char c) {
  if (column_ >= columns_) {
    wrapped_.push_back(lines_.back());
    goes_on_.back() = true;
    lines_.emplace_back();
    goes_on_.push_back(false);
    column_ = 0;
  }
  std::string& line = lines_.back();
  if (line.size() <= column_) line.resize(column_ + 1, ' ');
  line[column_++] = c;
}

void Screen::Feed(const std::string& bytes) {
  for (const char c : bytes) {
    if (!escape_.empty()) {
      escape_ += c;
      if (escape_ == "\033[K") {
        lines_.back().resize(std::min(lines_.back().size(), column_));
      } else if (escape_.starts_with("\033[") && c == 'm') {
        // a colour
      } else if (c == '[' || c == '?' || (c >= '0' && c <= ';')) {
        continue;  // goes on
      } else {
        unknown_ += escape_;
      }
      escape_.clear();
    } else if (c == '\033') {
      escape_ = c;
    } else if (c == '\r') {
      column_ = 0;
    } else if (c == '\n') {
      lines_.emplace_back();
      goes_on_.push_back(false);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      if (c != '\a') unknown_ += c;  // a bell is not to be seen
    } else {
      Put(c);
    }
  }
}

std::string Screen::text() const {
  std::string all;
  for (size_t i = 0; i < lines_.size(); ++i) all += lines_[i] + (goes_on_[i] ? "" : "\n");
  return all;
}

Terminal::Terminal(int columns) : screen_(static_cast<size_t>(columns)) {
  winsize size = SizeOf(columns);
  CREMA_CHECK(openpty(&master_, &slave_, nullptr, nullptr, &size) == 0);
}

Terminal::~Terminal() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (slave_ >= 0) close(slave_);
  close(master_);
}

void Terminal::Resize(int columns) {
  const winsize size = SizeOf(columns);
  CREMA_CHECK(ioctl(master_, TIOCSWINSZ, &size) == 0);
  screen_.Resize(static_cast<size_t>(columns));
}

void Terminal::Type(const std::string& keys) {
  CREMA_CHECK(write(master_, keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
}

void Terminal::Start(const std::vector<std::string>& command, const std::string& folder) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_ = fork();
  CREMA_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    if (login_tty(slave_) != 0 || chdir(folder.c_str()) != 0) _exit(126);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(std::exchange(slave_, -1));  // so that the end of the program is the end of the bytes
}

void Terminal::Signal(int signal) { kill(pid_, signal); }

bool Terminal::ReadSome() {
  constexpr int kPatience = 60'000;  // ms
  pollfd wait{.fd = master_, .events = POLLIN, .revents = 0};
  if (poll(&wait, 1, kPatience) <= 0) return false;
  char buffer[4096];
  const ssize_t count = read(master_, buffer, sizeof(buffer));
  if (count <= 0) return false;
  bytes_.append(buffer, static_cast<size_t>(count));
  screen_.Feed(std::string(buffer, static_cast<size_t>(count)));
  return true;
}

void Terminal::ReadUntil(const std::function<bool(const std::string&)>& done) {
  while (!done(bytes_) && ReadSome()) continue;
}

void Terminal::Drain() {
  const std::string mark(1, '\a');
  const size_t before = bytes_.size();
  CREMA_CHECK(write(slave_, mark.data(), 1) == 1);
  ReadUntil([&](const std::string& all) { return all.find(mark, before) != std::string::npos; });
}

int Terminal::Wait() {
  while (ReadSome()) continue;
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace crema::test
