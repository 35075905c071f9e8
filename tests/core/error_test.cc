#include "core/error.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace crema {
namespace {

Problem At(const std::string& file, int line, const std::string& message) {
  Problem problem{.code = ErrorCode::kInvalidArgument, .where = {}, .message = message};
  problem.where.file = file;
  problem.where.line = line;
  problem.where.column = 12;
  return problem;
}

TEST(ErrorTest, TextNamesFileLineColumnAndLayer) {
  Problem problem = At("net.prototxt", 61, "unknown field 'bn_param'");
  problem.where.layer = "bn1";
  EXPECT_EQ(ToString(problem), "net.prototxt:61:12: layer \"bn1\": unknown field 'bn_param'");
}

TEST(ErrorTest, TextLeavesOutWhatIsNotKnown) {
  EXPECT_EQ(ToString(At("net.prototxt", 0, "it is empty")), "net.prototxt: it is empty");
  EXPECT_EQ(ToString(Problem{.where = {}, .message = "alone"}), "alone");
}

TEST(ErrorTest, ManyProblemsGetALineEach) {
  const Error error(std::vector<Problem>{At("a", 1, "first"), At("a", 2, "second")});
  EXPECT_STREQ(error.what(), "a:1:12: first\na:2:12: second");
  EXPECT_EQ(error.problems().size(), 2u);
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
}

TEST(ErrorTest, FailThrowsWhatItIsTold) {
  try {
    Fail(ErrorCode::kNotFound, "no such file", {.file = "x"});
    FAIL() << "nothing was thrown";
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(), "x: no such file");
  }
}

TEST(ErrorTest, ExitCodesAreTheDocumentedOnes) {
  EXPECT_EQ(ExitCode(ErrorCode::kInternal), 1);
  EXPECT_EQ(ExitCode(ErrorCode::kInvalidArgument), 2);
  EXPECT_EQ(ExitCode(ErrorCode::kNotFound), 2);
  EXPECT_EQ(ExitCode(ErrorCode::kUnsupported), 2);
  EXPECT_EQ(ExitCode(ErrorCode::kDataLoss), 3);
  EXPECT_EQ(ExitCode(ErrorCode::kIoFailure), 3);
  EXPECT_EQ(ExitCode(ErrorCode::kOutOfMemory), 4);
  EXPECT_EQ(ExitCode(ErrorCode::kDeviceFailure), 4);
  EXPECT_EQ(ExitCode(ErrorCode::kDiverged), 5);
  EXPECT_EQ(ExitCode(ErrorCode::kCancelled), 130);
}

TEST(ErrorTest, CheckThrowsInternalInsteadOfAborting) {
  const int two = 2;
  EXPECT_NO_THROW(CREMA_CHECK(two == 2));
  try {
    CREMA_CHECK(two == 3);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_NE(std::string(error.what()).find("two == 3"), std::string::npos);
  }
}

}  // namespace
}  // namespace crema
