// Layers of plugins: implements Layer by the interface of include/crema/plugin.h.
#pragma once

#include <functional>
#include <memory>

#include "graph/implementation.h"
#include "graph/registry.h"

struct crema_plugin_layer;

namespace crema {

// Returns a type whose layers call the functions of `layer`, which the library of `plugin` owns.
// Throws kInvalidArgument, naming the plugin, if a name or a required function is missing.
LayerType TypeOfPlugin(const crema_plugin_layer& layer, std::shared_ptr<const PluginFacts> plugin);

// Returns "plugin 'name' 1.0 (path)".
std::string ToString(const PluginFacts& plugin);

// Return one call of cuda_forward or cuda_backward on a stream. Require: a layer of a plugin that
// has the function, and the memory of all views until the call.
std::function<void()> PluginGpuPass(const Layer& layer, const ForwardArgs& args, void* stream);
std::function<void()> PluginGpuPass(const Layer& layer, const BackwardArgs& args, void* stream);

// The implementation that calls them (plugin_gpu.cu, in builds with CUDA and in tests).
ImplementationPtr PluginGpuImplementation();
// Returns the scratch bytes of a pass on the CPU or the GPU.
size_t PluginScratch(const OpDesc& op);
// Returns why the GPU does not compute this layer.
Support SupportsPluginOnGpu(const OpDesc& op);

}  // namespace crema
