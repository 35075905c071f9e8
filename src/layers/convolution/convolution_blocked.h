// Internal to the rows of Convolution and Deconvolution on blocked blobs.
#pragma once

#include <vector>

#include "layers/convolution/conv_epilogue.h"
#include "math/blocked_conv.h"

namespace crema {

// Requires SupportsBlockedConv and an epilogue that is possible.
BlockedConvConfig BlockedConfigOf(const KernelQuery& query, bool plain_input, bool bf16 = false);
// Kernel::strided_output of these rows, which can always.
bool StridedOutputPays(const KernelQuery& query);
BlockedConvShape BlockedShapeOf(const ConvGeometry& geometry);
// What oneDNN has at all; `geometry` is MakeConvGeometry or MakeDeconvGeometry. Depends neither on
// the batch nor on the spatial extents of the input.
Support SupportsBlockedGeometry(const KernelQuery& query,
                                ConvGeometry (*geometry)(const Layer&, const Shape&));
// Depends neither on the batch nor on the spatial extents of the input.
Support SupportsBlockedConv(const KernelQuery& query);
// And oneDNN has more than its reference, which does depend on them.
Support SupportsFastBlockedConv(const KernelQuery& query, bool plain_input, bool bf16 = false);
// What oneDNN is estimated to take forward, in single precision on blocked blobs.
double BlockedConvSeconds(const KernelQuery& query);
// Kernel::absorbs of these rows.
bool ConvolutionAbsorbs(const KernelQuery& query);
BlockedConvGrads BlockedGradsOf(const Layer& layer, const BackwardArgs& args);

// Rows "int8", on blobs of bytes.
std::vector<Kernel> Int8ConvolutionKernels();

// Row "winograd": 3 x 3 filters, each pass by Winograd's algorithm where that pays and by oneDNN
// elsewhere.
Kernel WinogradConvolutionKernel();

}  // namespace crema
