// Assertions about exceptions.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/error.h"

namespace crema::testing {

// Expects that `body` throws an Error with this code, whose message contains `text`.
template <typename Body>
void ExpectError(ErrorCode code, const std::string& text, Body&& body) {
  try {
    body();
    ADD_FAILURE() << "nothing was thrown; expected: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

}  // namespace crema::testing
