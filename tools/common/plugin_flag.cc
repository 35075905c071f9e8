#include "common/plugin_flag.h"

#include <gflags/gflags.h>

#include <string>

#include "core/strings.h"

DEFINE_string(plugin, "",
              "[Expert FILES] shared libraries with layer types, separated by commas: "
              "my_layers.so; their code "
              "runs in this command");

namespace crema::tools {

Registry LayersOfFlag() {
  Registry registry = BuiltinRegistry();
  for (const std::string& path : Split(FLAGS_plugin, ',')) {
    if (!path.empty()) LoadPlugin(path, &registry);
  }
  return registry;
}

void LoadPlugins(RunConfig* config, Registry* registry) {
  crema::LoadPlugins(&config->train.file, registry);
  for (NetOfRun& test : config->tests) crema::LoadPlugins(&test.file, registry);
}

}  // namespace crema::tools
