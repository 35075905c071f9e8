// The file of times: damaged or foreign files are rejected, entries of others stay.
#include "runtime/implementation_times_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

KnownLayers SomeLayers() {
  KnownLayers layers;
  layers["machine; type: \"Convolution\" of 1x3x8x8 f32"].seconds = {
      {"onednn, plain input", 1.25e-4}, {"packed", 0.1}};
  layers["machine; type: \"Pooling\" of 1x3x8x8 f32"].beyond = 2.5;
  return layers;
}

ErrorCode CodeOf(const std::string& text) {
  try {
    ParseImplementationTimes(text);
  } catch (const Error& error) {
    return error.problems().front().code;
  }
  return ErrorCode::kInternal;
}

TEST(ImplementationTimesFile, ReadsWhatItWrote) {
  const std::string text = PrintImplementationTimes(SomeLayers());
  const KnownLayers layers = ParseImplementationTimes(text);
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers.begin()->second.seconds.at("onednn, plain input"), 1.25e-4);
  EXPECT_EQ(layers.rbegin()->second.beyond, 2.5);
  EXPECT_TRUE(layers.rbegin()->second.seconds.empty());
  EXPECT_EQ(PrintImplementationTimes(layers), text);
  EXPECT_TRUE(ParseImplementationTimes(PrintImplementationTimes({})).empty());
}

TEST(ImplementationTimesFile, RefusesIncompleteFiles) {
  const std::string text = PrintImplementationTimes(SomeLayers());
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_EQ(CodeOf(text.substr(0, length)), ErrorCode::kDataLoss) << length;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_EQ(CodeOf(changed), ErrorCode::kDataLoss) << i;
  }
  EXPECT_EQ(CodeOf(text + "\n"), ErrorCode::kDataLoss);
  EXPECT_EQ(CodeOf("a file of somebody else\n"), ErrorCode::kDataLoss);
}

TEST(ImplementationTimesFile, WhatWasMeasuredFirstStays) {
  const test::TempDir temp;
  const ImplementationTimesFile file(temp.File("new/folder"));
  EXPECT_TRUE(file.Read().empty());
  KnownLayers first;
  first["a"].seconds = {{"x", 1}};
  first["b"].beyond = 3;
  file.Add(first);
  KnownLayers second;
  second["a"].seconds = {{"x", 2}, {"y", 2}};
  second["b"].seconds = {{"x", 2}};
  second["c"].seconds = {{"x", 2}};
  file.Add(second);
  const KnownLayers all = file.Read();
  EXPECT_EQ(all.at("a").seconds.at("x"), 1);
  EXPECT_EQ(all.at("a").seconds.at("y"), 2);
  EXPECT_EQ(all.at("b").seconds.at("x"), 2);
  EXPECT_EQ(all.at("c").seconds.at("x"), 2);
}

TEST(ImplementationTimesFile, WritersAtOnceLoseNothing) {
  const test::TempDir temp;
  {
    std::vector<std::jthread> writers;
    for (int w = 0; w < 4; ++w) {
      writers.emplace_back([&, w] {
        for (int i = 0; i < 10; ++i) {
          KnownLayers layers;
          layers[StrCat("layer ", w, " ", i)].seconds = {{"row", 1}};
          ImplementationTimesFile(temp.path()).Add(layers);
        }
      });
    }
  }
  EXPECT_EQ(ImplementationTimesFile(temp.path()).Read().size(), 40U);
  EXPECT_EQ(temp.FileCount(), 2U);  // the lock and the file, nothing temporary
}

TEST(ImplementationTimesFile, ADamagedFileIsReportedAndReplaced) {
  const test::TempDir temp;
  temp.Write("implementation_times", "crema implementation times, version 0\nend 0 0\n");
  const ImplementationTimesFile file(temp.path());
  EXPECT_THROW(file.Read(), Error);
  file.Add(SomeLayers());
  EXPECT_EQ(file.Read().size(), 2U);
}

}  // namespace
}  // namespace crema
