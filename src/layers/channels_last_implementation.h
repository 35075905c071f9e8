// What implementations of GPUs on blobs in channels last have in common.
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/strings.h"
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
    return Support::No("is for channels and axes of space behind them");
  }
  return {};
}

// The same implementation, of functions that take blobs in channels last, in front of which `also`
// is asked.
inline Implementation InChannelsLast(Implementation implementation,
                                     Support (*also)(const OpDesc&) = nullptr) {
  implementation.name += " NHWC";
  implementation.input_format = implementation.output_format = MemoryFormat::kChannelsLast;
  implementation.supports = [own = std::move(implementation.supports), also](const OpDesc& query) {
    Support support = SupportsChannelsLast(query);
    if (support.yes && also != nullptr) support = also(query);
    return support.yes && own ? own(query) : support;
  };
  return implementation;
}

// Adds `implementation`, of a layer that goes by elements in any order, for blobs in either layout.
inline void AddForAnyOrder(Registry* registry, std::string_view type,
                           const Implementation& implementation) {
  registry->AddImplementation(type, implementation);
  registry->AddImplementation(type, InChannelsLast(implementation));
}

}  // namespace crema
