// Options of compare_runner: KEY=VALUE arguments.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "core/shape.h"
#include "crema.pb.h"

namespace crema::compare {

enum class Mode {
  kInfer,    // the TEST phase, forward only
  kTrain,    // forward, backward and an update of SGD with momentum
  kWeights,  // makes random weights, writes them and ends
};

struct RunnerOptions {
  Mode mode = Mode::kInfer;
  std::string model;                      // a prototxt
  std::string weights;                    // a caffemodel; kWeights writes it
  std::map<std::string, Shape> shapes;    // of inputs: data:8,3,224,224;label:8
  std::map<std::string, Shape> integers;  // label:1000: whole numbers below 1000
  int threads = 2;
  Precision precision = FP32;
  double rate = 1e-4;   // learning rate
  bool dropout = true;  // false: as if it were not there, to compare results
  double autotune = 0;  // seconds to measure implementations at most; 0: estimates decide
};

// Throws kInvalidArgument for an unknown key or value, or one that is missing.
RunnerOptions ParseRunnerOptions(std::span<char* const> arguments);

}  // namespace crema::compare
