// Determines the predictions and labels of a net, and their format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/plan.h"

namespace crema::tools {

enum class Task {
  kClassification,  // one label per sample
  kSegmentation,    // one label per position
  kDetection,       // boxes
};

struct Answers {
  Task task = Task::kClassification;
  std::string layer;  // layer that compares both; empty if flags name the blobs
  std::string prediction;
  std::string label;
  int data_layer = -1;  // in the plan: source of the labels; -1: unknown
  int64_t classes = 0;  // 1: score of one class against another
  // For classification and segmentation.
  int axis = 1;                    // axis of the classes
  std::optional<int32_t> ignored;  // ignored label
  bool probabilities = false;      // false: scores before a softmax
  // For detection.
  int64_t background = 0;  // class; -1: none
  double overlap = 0.5;
  bool difficult_counts = false;
};

// Finds both in a planned net: DetectionEvaluate or DetectionOutput; else the last loss with class
// labels, else the last Accuracy. Non-empty `prediction` and `label` override. Throws
// kInvalidArgument if nothing is found, a blob does not exist, or shapes do not fit.
Answers FindAnswers(const Plan& plan, const std::string& prediction, const std::string& label);

}  // namespace crema::tools
