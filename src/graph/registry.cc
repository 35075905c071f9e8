#include "graph/registry.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace crema {

void Registry::Add(LayerType type) {
  CREMA_CHECK(type.make != nullptr);
  type.kernels.push_back(Kernel{.name = "native"});
  const std::string name = type.name;
  const bool added = types_.emplace(name, std::move(type)).second;
  CREMA_CHECK(added);
}

void Registry::AddKernel(std::string_view type, Kernel kernel) {
  const auto found = types_.find(type);
  CREMA_CHECK(found != types_.end());
  std::vector<Kernel>& kernels = found->second.kernels;
  kernels.insert(std::ranges::find(kernels, kernel.device, &Kernel::device), std::move(kernel));
}

const LayerType* Registry::Find(std::string_view type) const {
  const auto found = types_.find(type);
  return found == types_.end() ? nullptr : &found->second;
}

std::vector<std::string> Registry::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, type] : types_) names.push_back(name);
  return names;
}

}  // namespace crema
