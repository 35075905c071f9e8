// Helpers for GPU implementations on channels-last blobs.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>

#include "core/strings.h"
#include "graph/implementation.h"
#include "graph/registry.h"
#include "math/group_stats.h"

namespace crema {

// Returns the number of elements of the spatial axes (after axis 1); 1 if there are none.
inline int64_t SpaceOf(const Shape& shape) { return shape.axes() > 2 ? shape.count(2) : 1; }

// Returns the group layout of the channels of a channels-last batch.
inline GroupLayout ChannelsLastGroups(const Shape& shape) {
  return {1, shape[0] * SpaceOf(shape), shape[1], 1};
}

inline Support SupportsChannelsLast(const OpDesc& query) {
  const auto has_space = [](const BlobSpec& spec) { return spec.shape.axes() > 2; };
  if (!std::ranges::all_of(query.context.inputs, has_space) ||
      !std::ranges::all_of(query.info.outputs, has_space)) {
    return Support::No("is for channels and spatial axes after them");
  }
  return {};
}

// Adapts an implementation whose functions take channels-last blobs. `also` is an additional check;
// null means none.
class ChannelsLastAdapter : public ImplementationAdapter {
 public:
  explicit ChannelsLastAdapter(const ImplementationPtr& own, Check also = nullptr)
      : ImplementationAdapter(FactsOf(*own), own, {SupportsChannelsLast, also}) {}

 private:
  static ImplementationFacts FactsOf(ImplementationFacts facts) {
    facts.name += " NHWC";
    facts.input_format = facts.output_format = {Layout::kNHWC};
    return facts;
  }
};

inline ImplementationPtr InChannelsLast(const ImplementationPtr& implementation,
                                        Support (*also)(const OpDesc&) = nullptr) {
  return std::make_shared<ChannelsLastAdapter>(implementation, also);
}

// Adds `implementation` of an elementwise layer, which ignores the order of elements, for both
// layouts.
inline void AddForAnyOrder(Registry* registry, std::string_view type,
                           const ImplementationPtr& implementation) {
  registry->AddImplementation(type, implementation);
  registry->AddImplementation(type, InChannelsLast(implementation));
}

}  // namespace crema
