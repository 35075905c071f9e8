// Runs of a small regression on 13 records, tested on 7, whose solver has the fields of a test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/strings.h"
#include "format/caffemodel.h"
#include "runtime/evaluate.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema::test {

class RunFields : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteRecords(temp_.File("train"), 13);
    WriteRecords(temp_.File("test"), 7);
  }

  // In one line, so that `rest` begins in the first.
  std::string Text(const std::string& rest) const {
    std::string net = RegressionNet(temp_.path(), 4, 3);
    std::ranges::replace(net, '\n', ' ');
    return StrCat("net_param { ", net, " } ",
                  "base_lr: 0.05 lr_policy: 'fixed' momentum: 0.9 random_seed: 5 ",
                  "snapshot_prefix: '", temp_.File("s"), "' ", rest);
  }
  std::unique_ptr<Solver> Make(const std::string& rest) {
    return MakeSolver(Text(rest), OptionsFor(&recorder_));
  }
  std::string ErrorOf(const std::string& rest) {
    try {
      Make(rest)->Solve();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  void ExpectError(const std::string& rest, const std::string& expected) {
    const std::string error = ErrorOf(rest);
    EXPECT_NE(error.find(expected), std::string::npos) << rest << "\n" << error;
  }
  double EvaluatedLoss(const std::string& model) const {
    const NetFile net = ParseNet(RegressionNet(temp_.path(), 4, 3), "net.prototxt");
    EvaluationOptions options;
    options.threads = 1;
    return Evaluate(net, ReadCaffemodel(temp_.File(model)), model, TestRegistry(), options).loss;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(temp_.path())) {
      if (entry.is_regular_file()) names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }

  TempDir temp_;
  Recorder recorder_;
};

}  // namespace crema::test
