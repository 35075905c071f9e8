// Internal to the implementations of Convolution and Deconvolution on blocked blobs.
#pragma once

#include <vector>

#include "layers/convolution/conv_epilogue.h"
#include "math/blocked_conv.h"

namespace crema {

// Requires SupportsBlockedConv and a possible epilogue.
BlockedConvConfig BlockedConfigOf(const OpDesc& query, bool plain_input, bool bf16 = false);
// Implementation::Accepts of these implementations.
Support StridedOutputPays(const OpDesc& query);
BlockedConvShape BlockedShapeOf(const ConvGeometry& geometry);
// Checks what oneDNN supports at all; `geometry` is MakeConvGeometry or MakeDeconvGeometry. Depends
// neither on the batch nor on the spatial sizes of the input.
Support SupportsBlockedGeometry(const OpDesc& query,
                                ConvGeometry (*geometry)(const Layer&, const Shape&));
// Depends neither on the batch nor on the spatial sizes of the input.
Support SupportsBlockedConv(const OpDesc& query);
// Checks that oneDNN has more than its reference, which does depend on them.
Support HasFastBlockedConv(const BlockedConvConfig& config);
// Returns the estimated seconds of oneDNN's forward pass, in single precision on blocked blobs.
double BlockedConvSeconds(const OpDesc& query);
// Implementation::CanFuse of these implementations. `activations`: of those that fuse other
// activations than ReLU too, without a backward pass.
bool ConvolutionCanFuse(const OpDesc& query, bool activations = false);
BlockedConvGrads BlockedGradsOf(const Layer& layer, const BackwardArgs& args);

// Returns the implementations "int8", on blobs of bytes.
std::vector<ImplementationPtr> Int8ConvolutionImplementations();

// Returns implementation "winograd": 3 x 3 filters, each pass by Winograd's algorithm where that
// pays and by oneDNN elsewhere.
ImplementationPtr WinogradConvolutionImplementation();

// Returns implementation "onednn, joined groups", for groups of parts of a block of channels.
ImplementationPtr JoinedConvolutionImplementation();

}  // namespace crema
