// Short forms for tests that call built-in layers on given numbers.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "core/error.h"
#include "support/layer_fixture.h"
#include "support/net.h"

namespace crema::test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

inline RunResult CallBuiltin(const std::string& type, const LayerCall& call) {
  return CallLayer(*TestRegistry().Find(type), call);
}

inline void ExpectNear(const Values& got, const Values& expected, double tolerance = 1e-6) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << i;
}

// The same for results of several roundings to f32.
inline void ExpectClose(const Values& got, const Values& expected) {
  ExpectNear(got, expected, 1e-5);
}

// The text of the error of the given code that the call must end with.
inline std::string ErrorOf(const std::string& type, const LayerCall& call,
                           ErrorCode code = ErrorCode::kDataLoss) {
  try {
    CallBuiltin(type, call);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "nothing was thrown";
}

inline void ExpectContains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace crema::test
