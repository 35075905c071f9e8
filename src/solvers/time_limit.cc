#include "solvers/time_limit.h"

#include <array>
#include <charconv>
#include <cstdint>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

struct Unit {
  char letter;
  int64_t seconds;
};
constexpr std::array<Unit, 4> kUnits = {{{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};
constexpr int64_t kMost = int64_t{3650} * 86400;

[[noreturn]] void Refuse(const std::string& text) {
  Fail(ErrorCode::kInvalidArgument,
       StrCat("'", text,
              "' is not a time: write whole numbers with d, h, m and s in this order, such as "
              "\"90s\", \"45m\", \"2h30m\" or \"1d\"; at least one second, at most 3650d"),
       {.field = "time_limit"});
}

}  // namespace

std::chrono::seconds ParseTimeLimit(const std::string& text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  size_t next_unit = 0;
  int64_t total = 0;
  while (at != end) {
    uint32_t number = 0;
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc() || rest == end) Refuse(text);
    while (next_unit < kUnits.size() && kUnits[next_unit].letter != *rest) ++next_unit;
    if (next_unit == kUnits.size()) Refuse(text);
    total += number * kUnits[next_unit++].seconds;
    at = rest + 1;
  }
  if (total < 1 || total > kMost) Refuse(text);
  return std::chrono::seconds(total);
}

}  // namespace crema
