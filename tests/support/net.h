// Nets from text, for tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "format/prototxt.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "runtime/session.h"

namespace crema::test {

// Returns the built-in layers with their GPU implementations, made once.
const Registry& TestRegistry();

// Plans a net written as text, under the name "net.prototxt". The registry must outlive the plan.
std::shared_ptr<const Plan> PlanText(const std::string& text, Phase phase = TRAIN,
                                     PlanOptions options = {},
                                     const Registry& registry = TestRegistry());

// The text of the error that planning ends with; empty when it succeeds.
std::string PlanError(const std::string& text, Phase phase = TRAIN);

// Returns the graph of a net written as text, in the phase TRAIN, before any pass.
Graph GraphOf(const std::string& text);

// Expects the graph to be that of the net `after`, apart from phases. Prints both.
void ExpectSameNet(const Graph& graph, const std::string& after);

// The warnings of planning, a line each.
std::string PlanWarnings(const std::string& text, Phase phase = TRAIN);

// Sets a blob to values drawn from (seed, element), in -1..1.
void FillInput(Session* session, const std::string& blob, uint64_t seed);

std::vector<float> ValuesOf(const ConstTensorView& view);

}  // namespace crema::test
