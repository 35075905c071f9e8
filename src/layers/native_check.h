// Reports invalid values found on a GPU with the CPU's error message.
#pragma once

#include <vector>

#include "core/device_memory.h"
#include "core/error.h"
#include "crema.pb.h"
#include "graph/layer.h"

namespace crema {

// Runs the native forward pass on CPU copies of the inputs, for the error that it throws. For f32
// layers without parameters, scratch memory and state. Throws kInternal if the CPU accepts the
// values.
[[noreturn]] inline void FailNatively(const Layer& layer, const ForwardArgs& args) {
  std::vector<Tensor> memory;
  std::vector<ConstTensorView> inputs;
  for (const ConstTensorView& input : args.inputs) {
    memory.emplace_back(input.shape(), input.dtype());
    if (!input.empty()) {
      Download(args.context, memory.back().view().raw(), input.raw(), input.bytes());
    }
    inputs.emplace_back(memory.back().view());
  }
  std::vector<TensorView> outputs;
  for (const TensorView& output : args.outputs) {
    memory.emplace_back(output.shape(), output.dtype());
    outputs.push_back(memory.back().view());
  }
  std::vector<Shape> shapes(args.outputs.size());
  ExecContext context(1, args.context.seed());
  layer.Forward({.context = context,
                 .phase = args.phase,
                 .layer_id = args.layer_id,
                 .inputs = inputs,
                 .outputs = outputs,
                 .parameters = {},
                 .saved = {},
                 .scratch = {},
                 .state = nullptr,
                 .output_shapes = shapes});
  Fail(ErrorCode::kInternal, "the GPU refused values that the CPU takes",
       {.layer = layer.param().name()});
}

}  // namespace crema
