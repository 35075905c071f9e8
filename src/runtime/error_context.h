// Names of samples in errors of running layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "plan/plan.h"
#include "runtime/session.h"

namespace crema {

// Returns the data set's name of sample `index` of the batch in `value` (an index into the plan).
// Finds the data layer through layers that do not change the size of axis 0. Returns an empty text
// if there is none, or if it has no names.
std::string FindSampleName(const Session& session, int value, int64_t index);

// Returns the error of a layer (an index into the plan) of this session, with SampleErrorContext
// replaced by the name of sample Where::sample.
Error AddSampleNames(const Session& session, size_t layer, const Error& error);

// Calls `body` and adds the layer's name to problems that name none.
template <typename Body>
void WithLayerContext(const PlannedLayer& layer, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    std::vector<Problem> problems = error.problems();
    for (Problem& problem : problems) {
      if (problem.where.layer.empty()) problem.where.layer = layer.name();
    }
    throw Error(std::move(problems));
  }
}

}  // namespace crema
