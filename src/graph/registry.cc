#include "graph/registry.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "graph/implementation.h"

namespace crema {

void Registry::Add(LayerType type) {
  CREMA_CHECK(type.make != nullptr);
  const auto native =
      std::ranges::find(type.implementations, kNativeImplementation, &Implementation::name);
  if (native == type.implementations.end()) {
    type.implementations.push_back(std::make_shared<FunctionImplementation>(
        ImplementationFacts{.name = std::string(kNativeImplementation)}));
  }
  const std::string name = type.name;
  const bool added = types_.emplace(name, std::move(type)).second;
  CREMA_CHECK(added);
}

void Registry::AddAlias(const std::string& name, std::string_view of) {
  const auto found = types_.find(of);
  CREMA_CHECK(found != types_.end());
  LayerType alias = found->second;
  alias.name = name;
  alias.summary = "Another name of " + std::string(of) + ".";
  alias.alias_of = std::string(of);
  const bool added = types_.emplace(name, std::move(alias)).second;
  CREMA_CHECK(added);
}

void Registry::AddImplementation(std::string_view type, ImplementationPtr implementation) {
  const auto found = types_.find(type);
  if (found == types_.end()) {
    Fail(ErrorCode::kInternal, StrCat("layer type '", type, "' is not registered, but gets an ",
                                      "implementation; does builtin_layers.def list it?"));
  }
  std::vector<ImplementationPtr>& implementations = found->second.implementations;
  const auto place =
      std::ranges::find(implementations, implementation->device, &Implementation::device);
  implementations.insert(place, std::move(implementation));
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
