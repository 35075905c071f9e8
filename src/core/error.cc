#include "core/error.h"

#include <utility>

#include "core/printable.h"
#include "core/strings.h"

namespace crema {

std::string ToString(const Problem& problem) {
  constexpr size_t kMostLayerName = 512;
  const Where& where = problem.where;
  std::string text;
  if (!where.file.empty()) {
    text += where.file;
    if (where.line > 0) text += StrCat(":", where.line, ":", where.column);
    text += ": ";
  }
  if (!where.layer.empty())
    text += StrCat("layer \"", Printable(where.layer, kMostLayerName), "\": ");
  return text + problem.message;
}

namespace {

std::string JoinProblems(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    if (!text.empty()) text += '\n';
    text += ToString(problem);
  }
  return text;
}

}  // namespace

Error::Error(Problem problem) : Error(std::vector<Problem>{std::move(problem)}) {}

Error::Error(std::vector<Problem> problems)
    : problems_(std::move(problems)), text_(JoinProblems(problems_)) {}

void Fail(ErrorCode code, std::string message, Where where) {
  throw Error(Problem{code, std::move(where), std::move(message)});
}

int ExitCode(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kUnsupported:
      return 2;
    case ErrorCode::kDataLoss:
    case ErrorCode::kIoFailure:
      return 3;
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kDeviceFailure:
      return 4;
    case ErrorCode::kDiverged:
      return 5;
    case ErrorCode::kCancelled:
      return 130;
    case ErrorCode::kInternal:
      return 1;
  }
  return 1;
}

namespace internal {

void CheckFailed(const char* condition, const char* file, int line) {
  Fail(ErrorCode::kInternal, StrCat("internal error: ", condition, " does not hold at ", file, ":",
                                    line, "; please report this"));
}

}  // namespace internal
}  // namespace crema
