// Adds the name of the layer to errors of running layers.
#pragma once

#include <utility>
#include <vector>

#include "core/error.h"
#include "plan/plan.h"

namespace crema {

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
