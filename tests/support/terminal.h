// A real terminal (a pseudo-terminal) and what a user would see on it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace crema::test {

// Interprets bytes as a screen. Supports the codes that the commands use: \r, \n, ESC [ K (clear to
// the end of the line), and ignores colours (ESC [ ... m); anything else that is not text is stored
// in `unknown`.
class Screen {
 public:
  explicit Screen(size_t columns) : columns_(columns) {}

  void Feed(const std::string& bytes);
  void Resize(size_t columns) { columns_ = columns; }

  const std::vector<std::string>& lines() const {
    return lines_;
  }                                          // rows; the last is the cursor's
  size_t column() const { return column_; }  // of the cursor
  // Lines that continue in the next row because they were too long.
  const std::vector<std::string>& wrapped() const { return wrapped_; }
  const std::string& unknown() const { return unknown_; }
  // Returns the whole text; a line that continues in the next row is one line.
  std::string text() const;

 private:
  void Put(char c);

  size_t columns_;
  std::vector<std::string> lines_ = {""};
  std::vector<bool> goes_on_ = {false};  // by line
  size_t column_ = 0;
  std::string escape_;  // the part of a sequence that was read so far
  std::vector<std::string> wrapped_;
  std::string unknown_;
};

class Terminal {
 public:
  explicit Terminal(int columns);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  int program_side() const { return slave_; }
  void Resize(int columns);
  void Type(const std::string& keys);

  // Runs a program on it, as its controlling terminal.
  void Start(const std::vector<std::string>& command, const std::string& folder);
  void Signal(int signal);
  // Reads until `done` says so of all that was read, or the program ended, or 60 s went by without
  // a byte.
  void ReadUntil(const std::function<bool(const std::string&)>& done);
  // Reads what was written to program_side() so far.
  void Drain();
  int Wait();  // reads to the end; exit code; 128 + n when signal n ended it

  const std::string& bytes() const { return bytes_; }
  const Screen& screen() const { return screen_; }

 private:
  bool ReadSome();  // false at the end

  int master_ = -1;
  int slave_ = -1;
  int pid_ = -1;
  std::string bytes_;
  Screen screen_;
};

}  // namespace crema::test
