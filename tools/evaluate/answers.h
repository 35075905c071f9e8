// What a net answers and what is true: which of its blobs, and how to read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/plan.h"

namespace crema::tools {

enum class Task {
  kClassification,  // one label a sample
  kSegmentation,    // one label a position
  kDetection,       // boxes
};

struct Answers {
  Task task = Task::kClassification;
  std::string layer;  // that compares both; empty where the flags named the blobs
  std::string prediction;
  std::string label;
  int data_layer = -1;  // of the plan: where labels come from; -1 not known
  int64_t classes = 0;  // 1: the score of one class against another
  // Of classification and segmentation.
  int axis = 1;                    // of the classes
  std::optional<int32_t> ignored;  // label
  bool probabilities = false;      // otherwise scores before a softmax
  // Of detection.
  int64_t background = 0;  // class; -1 none
  double overlap = 0.5;
  bool difficult_counts = false;
};

// Finds both in a planned net: DetectionEvaluate or DetectionOutput; else the last loss that reads
// labels of classes, else the last Accuracy. `prediction` and `label` override, when not empty.
// Throws kInvalidArgument where nothing is found, a blob does not exist, or shapes do not fit.
Answers FindAnswers(const Plan& plan, const std::string& prediction, const std::string& label);

}  // namespace crema::tools
