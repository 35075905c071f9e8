// Convolution, also depthwise and of three axes, by cuDNN; see conv_cudnn.h.
#include "layers/convolution/conv_cudnn.h"

namespace crema {

void RegisterConvolutionCudnn(Registry& registry) {
  for (const char* type :
       {"Convolution", "Convolution3D", "ConvolutionDepthwise", "DepthwiseConvolution"}) {
    AddCudnnConvImplementations(type, false, &registry);
  }
}

}  // namespace crema
