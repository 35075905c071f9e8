// The values that a sweep gives to one field.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace crema::tools {

// One field with a list of values, or with a range of numbers.
struct Axis {
  std::string path;                 // as for --set
  std::vector<std::string> values;  // empty: a range
  double low = 0;
  double high = 0;
  bool logarithmic = false;  // drawn with equal probability in each decade
  bool whole = false;        // drawn as a whole number
};

// One value for each axis, in their order.
using Point = std::vector<std::string>;

// Parses "FIELD=V1,V2,..." or "FIELD=LOW..HIGH", with ":log" after a range over several orders of
// magnitude. A range of two numbers without a decimal point or exponent gives whole numbers. Throws
// kInvalidArgument.
Axis ParseAxis(std::string_view text);

// Returns all combinations; the last axis changes fastest. Throws kInvalidArgument if an axis is a
// range, or if there are more than `most`.
std::vector<Point> GridOf(const std::vector<Axis>& axes, int64_t most);

// Draws `count` different points; fewer if lists have fewer combinations. The same seed gives the
// same points on every machine.
std::vector<Point> DrawPoints(const std::vector<Axis>& axes, int64_t count, uint64_t seed);

}  // namespace crema::tools
