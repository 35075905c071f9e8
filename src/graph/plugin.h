// Loads plugins: shared libraries with layer types (docs/plugins.md, include/crema/plugin.h).
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "format/prototxt.h"
#include "graph/registry.h"

namespace crema {

// Loads the library and adds its layer types; it stays loaded. Has no effect if the registry has
// the same file. Throws kNotFound, and kInvalidArgument for a file that is damaged or no plugin, of
// another ABI, and for a name of a plugin or a layer type that exists; the registry is as before
// then. The code runs with all rights of the process.
void LoadPlugin(const std::string& path, Registry* registry);

// Loads the plugins that a net names, whose paths it makes absolute. For nets that the user runs as
// programs of their own. Throws like LoadPlugin, with the place in the text.
void LoadPlugins(NetFile* file, Registry* registry);

// Returns the plugins of a registry, by name.
std::vector<std::shared_ptr<const PluginFacts>> PluginsOf(const Registry& registry);

// A registry that gets plugins while others use it. Thread safety: any number of threads, without a
// lock, which a process forked meanwhile would inherit in locked state.
class GrowingRegistry {
 public:
  explicit GrowingRegistry(Registry first) : now_(new Version{std::move(first), nullptr}) {}
  ~GrowingRegistry();
  GrowingRegistry(const GrowingRegistry&) = delete;
  GrowingRegistry& operator=(const GrowingRegistry&) = delete;

  // Returns the present registry, which does not change while this object lives.
  const Registry& Now() const { return now_.load()->registry; }
  // Throws like crema::LoadPlugin.
  void LoadPlugin(const std::string& path);

 private:
  struct Version {
    Registry registry;
    Version* before;
  };

  std::atomic<Version*> now_;  // owns all versions
};

}  // namespace crema
