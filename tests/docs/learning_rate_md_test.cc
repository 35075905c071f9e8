// The table of docs/learning_rate.md has the rates that the code computes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "core/strings.h"
#include "format/file.h"
#include "format/prototxt.h"
#include "solvers/learning_rate.h"

namespace crema {
namespace {

// Returns the row of the document for these fields.
std::string Row(const std::string& fields) {
  const std::vector<std::string> bars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  LearningRate rate(ParseSolver("base_lr: 1 max_iter: 100 " + fields, "s").solver);
  std::string curve;
  std::string values;
  for (int i = 0; i <= 100; ++i) {
    const double now = rate.At(i);
    if (i % 5 == 0) curve += bars.at(static_cast<size_t>(std::lround(now * 7)));
    for (const int column : {0, 10, 20, 40, 60, 80, 99}) {
      char text[32];
      std::snprintf(text, sizeof(text), " %.3g |", now);
      if (i == column) values += text;
    }
  }
  return StrCat("| `", fields, "` | ", curve, " |", values);
}

TEST(LearningRateMd, TheTableIsWhatTheCodeComputes) {
  int rows = 0;
  for (const std::string& line : Split(ReadFile(CREMA_SOURCE_DIR "/docs/learning_rate.md"), '\n')) {
    constexpr std::string_view kBegin = "| `lr_policy: ";
    if (!line.starts_with(kBegin)) continue;
    const std::string fields = line.substr(3, line.find('`', 3) - 3);
    EXPECT_EQ(line, Row(fields));
    ++rows;
  }
  EXPECT_GE(rows, 11);
}

}  // namespace
}  // namespace crema
