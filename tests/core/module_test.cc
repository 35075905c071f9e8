#include "core/module.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace crema::test {
namespace {

std::string ErrorOf(const char* file, const char* symbol) {
  try {
    SymbolOfModule(file, symbol);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return error.what();
  }
  return {};
}

TEST(Module, IsNamedWhenItIsMissing) {
  const std::string error = ErrorOf("libcrema_nosuch.so", "f");
  EXPECT_NE(error.find("libcrema_nosuch.so"), std::string::npos) << error;
  EXPECT_NE(error.find("LD_LIBRARY_PATH"), std::string::npos) << error;
}

TEST(Module, MustHaveTheSymbol) {
  EXPECT_NE(ErrorOf("libm.so.6", "no_such_symbol").find("no_such_symbol"), std::string::npos);
}

TEST(Module, GivesAddresses) {
  const auto sine = reinterpret_cast<double (*)(double)>(SymbolOfModule("libm.so.6", "sin"));
  EXPECT_EQ(sine(0), 0);
}

}  // namespace
}  // namespace crema::test
