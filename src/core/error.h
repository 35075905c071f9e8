// Errors that users can cause are thrown as Error; see docs/development/files_and_errors.md.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace crema {

enum class ErrorCode {
  kInvalidArgument,  // a text file, a flag or a parameter is wrong
  kNotFound,         // a file or a name does not exist
  kUnsupported,      // not supported by this build or version
  kDataLoss,         // a file or record is damaged, truncated or of the wrong format
  kIoFailure,        // the operating system failed to read or write
  kOutOfMemory,
  kDeviceFailure,
  kDiverged,  // training reached NaN or infinity
  kCancelled,
  kInternal,  // a bug in Crema
};

// Location of a problem; empty strings and zeros mean "unknown".
struct Where {
  std::string file = {};
  int line = 0;    // from 1
  int column = 0;  // from 1
  std::string layer = {};
  std::string blob = {};
  std::string field = {};  // path below the layer, e.g. "convolution_param.kernel_size"
  // Index in the batch if a running layer rejects a value; the session looks up its name.
  int64_t sample = -1;
};

struct Problem {
  ErrorCode code = ErrorCode::kInternal;
  Where where;
  std::string message;
};

// Formats as "net.prototxt:61:12: layer "bn1": message".
std::string ToString(const Problem& problem);

// One or more problems found together. what() has one line per problem.
class Error : public std::exception {
 public:
  explicit Error(Problem problem);
  explicit Error(std::vector<Problem> problems);  // requires: not empty

  const char* what() const noexcept override { return text_.c_str(); }
  const std::vector<Problem>& problems() const { return problems_; }
  ErrorCode code() const { return problems_.front().code; }

 private:
  std::vector<Problem> problems_;
  std::string text_;
};

[[noreturn]] void Fail(ErrorCode code, std::string message, Where where = {});

// Returns the documented exit code of a command that ends with this error: 1 internal, 2
// configuration, 3 data, 4 device or memory, 5 diverged, 130 cancelled.
int ExitCode(ErrorCode code);

namespace internal {
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);
}  // namespace internal

}  // namespace crema

// Checks an internal invariant, never user input. Throws Error(kInternal).
#define CREMA_CHECK(condition) \
  ((condition) ? void(0) : ::crema::internal::CheckFailed(#condition, __FILE__, __LINE__))
