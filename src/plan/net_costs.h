// The costs of a net for inference and for training, as `summary` prints them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "format/prototxt.h"
#include "graph/registry.h"
#include "graph/replace_sources.h"
#include "plan/plan.h"
#include "plan/summary.h"

namespace crema {

struct CostOptions {
  SourceShapes sources;  // data sets may be missing
  NetState state;        // its phase is that of the listed layers
  PlanOptions plan;      // `backward` and `optimize` have no effect
  bool measure_process = false;
};

// Copies of each weight besides gradients: SGD's momentum. While a snapshot is written, also the
// state, the model, and the serialised model.
inline constexpr int64_t kHistories = 1;
inline constexpr int64_t kSnapshotCopies = kHistories + 2;

struct NetCosts {
  NetSummary net;               // the net as written
  NetSummary inference;         // planned for inference
  NetSummary training;          // without history
  std::string no_training;      // why it cannot be trained; `training` is empty then
  int64_t recompute_saves = 0;  // peak training memory saved, in bytes
  // Program, libraries, text and plan, measured in this process; 0: not measured.
  int64_t process_bytes = 0;

  int64_t history_bytes() const { return kHistories * training.gradient_bytes; }
  int64_t training_bytes() const { return training.peak_bytes + history_bytes(); }
  int64_t snapshot_bytes() const { return kSnapshotCopies * training.gradient_bytes; }
};

// Plans the net of a file with the sources of the options. The plan refers to the registry, which
// must outlive it.
std::shared_ptr<const Plan> PlanWithSources(const NetFile& file, const Registry& registry,
                                            const CostOptions& options, Phase phase, bool backward,
                                            bool optimize);

// Throws what MakePlan and ReplaceSources throw.
NetCosts CostsOf(const NetFile& file, const Registry& registry, const CostOptions& options);

// Return a table with totals, and one JSON object.
std::string TextOf(const NetCosts& costs);
std::string JsonOf(const NetCosts& costs);

}  // namespace crema
