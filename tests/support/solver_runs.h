// Training runs from text, for tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "data/records/lmdb.h"
#include "solvers/solver.h"
#include "support/net.h"

namespace crema::test {

// Records the reports of a run.
class Recorder : public TrainingObserver, public LogSink {
 public:
  struct Best {
    std::string model;
    std::string metric;
    double value = 0;
  };
  void OnIteration(const IterationReport& r) override { iterations.push_back(r); }
  void OnTest(const TestReport& r) override { tests.push_back(r); }
  void OnSnapshot(const std::string&, const std::string& state) override {
    snapshots.push_back(state);
  }
  void OnBest(const std::string& model, const std::string& metric, double value) override {
    bests.push_back({model, metric, value});
  }
  void OnEnd(bool early) override { stopped_early = early; }
  void Write(Severity, std::string_view message) override { log += std::string(message) + "\n"; }

  std::vector<IterationReport> iterations;
  std::vector<TestReport> tests;
  std::vector<std::string> snapshots;
  std::vector<Best> bests;
  bool stopped_early = false;
  std::string log;
};

inline SolverOptions OptionsFor(Recorder* recorder, int threads = 1) {
  SolverOptions options;
  options.threads = threads;
  options.log = recorder;
  options.observer = recorder;
  return options;
}

inline RunConfig ConfigOf(const std::string& text) {
  return MakeRunConfig(ParseSolver(text, "solver.prototxt"));
}

inline std::unique_ptr<Solver> MakeSolver(const std::string& text, SolverOptions options) {
  return std::make_unique<Solver>(ConfigOf(text), TestRegistry(), std::move(options));
}

inline std::vector<std::vector<float>> ValuesOf(const Weights& weights) {
  std::vector<std::vector<float>> values;
  for (size_t s = 0; s < weights.size(); ++s) values.push_back(ValuesOf(weights.blob(s)));
  return values;
}

// Records of 1 x 2 x 2 pixels; the label is the sample's number.
inline void WriteRecords(const std::string& path, int count) {
  LmdbWriter writer(path);
  for (int i = 0; i < count; ++i) {
    Datum datum;
    datum.set_channels(1);
    datum.set_height(2);
    datum.set_width(2);
    datum.set_label(i);
    for (int p = 0; p < 4; ++p) datum.mutable_data()->push_back(static_cast<char>(i * 9 + p * 40));
    char key[16];
    std::snprintf(key, sizeof(key), "%08d", i);
    writer.Put(key, datum.SerializeAsString());
  }
  writer.Close();
}

// A net that learns the number of a record: TRAIN in batches of `train_batch`, TEST of
// `test_batch`.
inline std::string RegressionNet(const std::string& folder, int train_batch, int test_batch) {
  const auto data = [&](const std::string& phase, int batch, const std::string& lmdb) {
    return "layer { name: 'data' type: 'Data' top: 'data' top: 'label' include { phase: " + phase +
           " } transform_param { scale: 0.0039 } data_param { source: '" + folder + "/" + lmdb +
           "' batch_size: " + std::to_string(batch) + " backend: LMDB } } ";
  };
  return "name: 'regression' " + data("TRAIN", train_batch, "train") +
         data("TEST", test_batch, "test") + R"(
layer { name: "flat" type: "Flatten" bottom: "data" top: "flat" }
layer { name: "hidden" type: "InnerProduct" bottom: "flat" top: "hidden"
  inner_product_param { num_output: 6 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "hidden" top: "hidden" }
layer { name: "drop" type: "Dropout" bottom: "hidden" top: "hidden"
  dropout_param { dropout_ratio: 0.2 } }
layer { name: "out" type: "InnerProduct" bottom: "hidden" top: "out"
  inner_product_param { num_output: 1 weight_filler { type: "xavier" } } }
layer { name: "number" type: "Power" bottom: "label" top: "number" power_param { scale: 0.05 } }
layer { name: "rows" type: "Reshape" bottom: "number" top: "rows"
  reshape_param { shape { dim: -1 dim: 1 } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "out" bottom: "rows" top: "loss" }
)";
}

}  // namespace crema::test
