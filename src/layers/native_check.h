// Errors about values that a GPU found to be wrong, in the words of the CPU's code.
#pragma once

#include <vector>

#include "core/device_memory.h"
#include "core/error.h"
#include "crema.pb.h"
#include "graph/layer.h"

namespace crema {

// The native forward pass on copies of the inputs, for what it throws. For layers without learned
// blobs, scratch memory and state; of f32. Throws kInternal where it finds nothing wrong.
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
                 .learned = {},
                 .saved = {},
                 .scratch = {},
                 .state = nullptr,
                 .output_shapes = shapes});
  Fail(ErrorCode::kInternal, "the GPU refused values that the CPU takes",
       {.layer = layer.param().name()});
}

}  // namespace crema
