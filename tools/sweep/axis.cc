#include "sweep/axis.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/strings.h"
#include "format/field_setting.h"

namespace crema::tools {
namespace {

constexpr std::string_view kLog = ":log";

// Splits at commas outside of brackets and quotes.
std::vector<std::string> SplitValues(std::string_view text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else {
      depth += (c == '[' || c == '{' ? 1 : 0) - (c == ']' || c == '}' ? 1 : 0);
    }
    if (c == ',' && depth == 0 && quote == 0) {
      values.emplace_back();
    } else {
      values.back() += c;
    }
  }
  return values;
}

std::optional<double> ParseNumber(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool IsWhole(std::string_view text) { return text.find_first_of(".eE") == std::string_view::npos; }

[[noreturn]] void FailAxis(const std::string& flag, const std::string& what) {
  Fail(ErrorCode::kInvalidArgument, StrCat(flag, ": ", what));
}

// Sets the range of `text`; returns false if it is none.
bool ParseRange(std::string_view text, const std::string& flag, Axis* axis) {
  const bool logarithmic = text.ends_with(kLog);
  const std::string_view range = text.substr(0, text.size() - (logarithmic ? kLog.size() : 0));
  const size_t dots = range.find("..");
  if (dots == std::string_view::npos) {
    if (logarithmic) FailAxis(flag, "':log' follows a range, such as 1e-4..1e-1:log");
    return false;
  }
  const std::string low(range.substr(0, dots));
  const std::string high(range.substr(dots + 2));
  const std::optional<double> from = ParseNumber(low);
  const std::optional<double> to = ParseNumber(high);
  if (!from || !to) return false;  // "../data/a_lmdb" is a value
  if (*from >= *to) FailAxis(flag, StrCat("the range ", low, "..", high, " is empty"));
  if (logarithmic && *from <= 0) {
    FailAxis(flag, StrCat("a logarithmic range begins above 0, not at ", low));
  }
  axis->low = *from;
  axis->high = *to;
  axis->logarithmic = logarithmic;
  axis->whole = IsWhole(low) && IsWhole(high);
  return true;
}

// Returns a number of [0, 1). The distributions of the standard library differ between
// implementations.
double Uniform(std::mt19937_64* random) { return static_cast<double>((*random)() >> 11) * 0x1p-53; }

std::string DrawValue(const Axis& axis, std::mt19937_64* random) {
  const double u = Uniform(random);
  if (!axis.values.empty()) {
    return axis.values[static_cast<size_t>(u * static_cast<double>(axis.values.size()))];
  }
  const double high = axis.whole ? axis.high + 1 : axis.high;
  const double value = axis.logarithmic ? axis.low * std::exp(u * std::log(high / axis.low))
                                        : axis.low + u * (high - axis.low);
  char text[32];
  if (axis.whole) {
    std::snprintf(text, sizeof(text), "%.0f", std::min(std::floor(value), axis.high));
  } else {
    std::snprintf(text, sizeof(text), "%.4g", value);
    const double rounded = std::strtod(text, nullptr);
    if (rounded < axis.low || rounded > axis.high)
      std::snprintf(text, sizeof(text), "%.17g", value);
  }
  return text;
}

}  // namespace

Axis ParseAxis(std::string_view text) {
  const FieldSetting field = ParseFieldSetting(text, "--over");
  const std::string flag = StrCat("--over ", field.path);
  Axis axis{.path = field.path, .values = {}};
  if (ParseRange(field.value, flag, &axis)) return axis;
  axis.values = SplitValues(field.value);
  std::set<std::string> seen;
  for (const std::string& value : axis.values) {
    if (value.empty()) FailAxis(flag, "a value is empty; write FIELD=V1,V2 or FIELD=LOW..HIGH");
    if (!seen.insert(value).second) FailAxis(flag, StrCat("the value ", value, " occurs twice"));
  }
  return axis;
}

std::vector<Point> GridOf(const std::vector<Axis>& axes, int64_t most) {
  std::vector<Point> points(1);
  for (const Axis& axis : axes) {
    if (axis.values.empty()) {
      FailAxis(StrCat("--over ", axis.path),
               "a grid takes lists of values; ranges need --search=random or --search=halving");
    }
    std::vector<Point> longer;
    for (const Point& point : points) {
      for (const std::string& value : axis.values) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
      if (static_cast<int64_t>(longer.size()) > most) {
        Fail(ErrorCode::kInvalidArgument,
             StrCat("the grid has more than ", most,
                    " trials; give fewer values, or --search=random with --trials"));
      }
    }
    points = std::move(longer);
  }
  return points;
}

std::vector<Point> DrawPoints(const std::vector<Axis>& axes, int64_t count, uint64_t seed) {
  constexpr int kMostRepeats = 1000;
  std::mt19937_64 random(seed);
  std::set<Point> seen;
  std::vector<Point> points;
  int repeats = 0;
  while (static_cast<int64_t>(points.size()) < count && repeats < kMostRepeats) {
    Point point;
    for (const Axis& axis : axes) point.push_back(DrawValue(axis, &random));
    if (seen.insert(point).second) {
      points.push_back(point);
      repeats = 0;
    } else {
      ++repeats;
    }
  }
  return points;
}

}  // namespace crema::tools
