// Deconvolution by cuDNN; see conv_cudnn.h.
#include "layers/convolution/conv_cudnn.h"

namespace crema {

void RegisterDeconvolutionCudnn(Registry& registry) {
  AddCudnnConvImplementations("Deconvolution", true, &registry);
}

}  // namespace crema
