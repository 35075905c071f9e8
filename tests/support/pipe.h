// A pipe that a command writes into, and that the test reads or does not.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

namespace crema::test {

// Neither end is inherited by commands but as their stdout or stderr.
class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
  }
  ~Pipe() {
    CloseReader();
    CloseWriter();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int writer() const { return ends_[1]; }
  void CloseReader() { Close(&ends_[0]); }
  void CloseWriter() { Close(&ends_[1]); }

  // Returns the output until `ends_with` has appeared, all writers have closed, or after `most`.
  std::string Read(std::chrono::milliseconds most, const std::string& ends_with = "") const {
    const auto end = std::chrono::steady_clock::now() + most;
    std::string text;
    while (ends_with.empty() || !text.ends_with(ends_with)) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      pollfd reader{.fd = ends_[0], .events = POLLIN, .revents = 0};
      if (left.count() < 0 || ::poll(&reader, 1, static_cast<int>(left.count())) <= 0) break;
      char bytes[4096];
      const ssize_t count = ::read(ends_[0], bytes, sizeof(bytes));
      if (count <= 0) break;
      text.append(bytes, static_cast<size_t>(count));
    }
    return text;
  }
  // Until it takes nothing more.
  void Fill() const {
    const int flags = ::fcntl(ends_[1], F_GETFL);
    ::fcntl(ends_[1], F_SETFL, flags | O_NONBLOCK);
    while (::write(ends_[1], "x", 1) == 1) {
    }
    ::fcntl(ends_[1], F_SETFL, flags);
  }
  // Returns true once it has no room for another page, false after `most`.
  bool IsFullWithin(std::chrono::milliseconds most) const {
    const auto end = std::chrono::steady_clock::now() + most;
    for (;;) {
      pollfd writer{.fd = ends_[1], .events = POLLOUT, .revents = 0};
      if (::poll(&writer, 1, 0) == 0) return true;
      if (std::chrono::steady_clock::now() >= end) return false;
      ::poll(nullptr, 0, 2);
    }
  }

 private:
  static void Close(int* end) {
    if (*end >= 0) ::close(std::exchange(*end, -1));
  }
  int ends_[2] = {-1, -1};
};

}  // namespace crema::test
