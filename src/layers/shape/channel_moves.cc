#include "layers/shape/channel_moves.h"

namespace crema {

void ElementMove::Forward(const ForwardArgs& args) const {
  const StridedBlock block = Move(args.inputs[0].shape());
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    CopyStrided(args.context.threads(), block, args.inputs[0].data<T>(), args.outputs[0].data<T>());
  });
}

void ElementMove::Backward(const BackwardArgs& args) const {
  const StridedBlock block = Move(args.inputs[0].shape()).Reversed();
  DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
    CopyStrided(args.context.threads(), block, args.output_grads[0].data<T>(),
                args.input_grads[0].data<T>());
  });
}

}  // namespace crema
