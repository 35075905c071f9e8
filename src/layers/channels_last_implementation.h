// What implementations of GPUs on blobs in channels last have in common.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>

#include "core/strings.h"
#include "graph/implementation.h"
#include "graph/registry.h"
#include "math/group_stats.h"

namespace crema {

// Elements of space behind axis 1.
inline int64_t SpaceOf(const Shape& shape) { return shape.axes() > 2 ? shape.count(2) : 1; }

// Channels of a batch in channels last.
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

// Adapts an implementation whose functions take blobs in channels last; asks `also` first.
class ChannelsLastAdapter : public ImplementationAdapter {
 public:
  explicit ChannelsLastAdapter(const ImplementationPtr& own, Check also = nullptr)
      : ImplementationAdapter(FactsOf(*own), own, {SupportsChannelsLast, also}) {}

 private:
  static ImplementationFacts FactsOf(ImplementationFacts facts) {
    facts.name += " NHWC";
    facts.input_format = facts.output_format = MemoryFormat::kChannelsLast;
    return facts;
  }
};

inline ImplementationPtr InChannelsLast(const ImplementationPtr& implementation,
                                        Support (*also)(const OpDesc&) = nullptr) {
  return std::make_shared<ChannelsLastAdapter>(implementation, also);
}

// Adds `implementation`, of a layer that goes by elements in any order, for blobs in either layout.
inline void AddForAnyOrder(Registry* registry, std::string_view type,
                           const ImplementationPtr& implementation) {
  registry->AddImplementation(type, implementation);
  registry->AddImplementation(type, InChannelsLast(implementation));
}

}  // namespace crema
