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

// What the data set calls sample `index` of the batch that lies in `value` (an index into the
// plan): the source is the one that the value comes from, through layers that keep the extent of
// axis 0. Empty when there is no such source, or it has no names.
std::string FindSampleName(const Session& session, int value, int64_t index);

// The error of a layer (an index into the plan) of this session, where SampleErrorContext is
// replaced by the name of the sample that Where::sample says.
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
