// What the drawing of a net says about its layers beyond the text: plan, times, weights.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "draw/histogram.h"
#include "draw/layer_profile.h"
#include "graph/graph.h"
#include "plan/plan.h"

namespace crema::tools {

struct PlannedFacts {
  std::string implementation;  // "packed, in place", or "in conv1"
  std::vector<SkippedImplementation> skipped;
};

// By layer name; empty: unknown.
struct NetFacts {
  std::map<std::string, PlannedFacts> plan;
  std::map<std::string, LayerTimes> times;
  std::map<std::pair<std::string, int>, Histogram> weights;  // by layer and blob
};

// Returns the facts of each layer of a plan.
std::map<std::string, PlannedFacts> FactsOfPlan(const Plan& plan);

// Returns lines for the boxes of the layers, by node: implementation and time.
std::vector<std::string> Remarks(const Graph& graph, const NetFacts& facts);

}  // namespace crema::tools
