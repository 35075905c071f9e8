// Sizes of one convolution, from its parameters and the shape of its input.
#pragma once

#include <span>

#include "graph/layer.h"
#include "math/conv_window.h"

namespace crema {

struct ConvGeometry {
  int channel_axis = 1;
  int64_t batch = 0;  // product of the axes before the channels
  int64_t groups = 1;
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  ConvWindow window;

  // For one group: the weights are a matrix of GroupOutputs() rows and GroupDepth() columns.
  int64_t GroupOutputs() const { return out_channels / groups; }
  int64_t GroupDepth() const { return in_channels / groups * window.KernelSize(); }
  int64_t InImage() const { return in_channels * window.InSize(); }
  int64_t OutImage() const { return out_channels * window.OutSize(); }
};

// Checks the parameters that need no input. Throws as the constructor of a layer does.
void ValidateConvParam(const Layer& layer);

// These throw kInvalidArgument if the input does not fit the parameters.
// MakeConvWindow returns the window alone, for layers without filters.
ConvWindow MakeConvWindow(const Layer& layer, const Shape& input, int channel_axis);
ConvGeometry MakeConvGeometry(const Layer& layer, const Shape& input);
// Returns the geometry of the convolution that a Deconvolution transposes; `input` is the output of
// that convolution.
ConvGeometry MakeDeconvGeometry(const Layer& layer, const Shape& input);

// Returns true if a copy of an image with all that its windows reach has a reasonable size. Pad,
// stride and dilation may reach far beyond the image.
bool PaddedViewIsReasonable(const ConvGeometry& geometry);

// Returns the axes of `input` before the channel axis, then `channels` and the spatial sizes.
Shape ConvOutputShape(const Shape& input, int channel_axis, int64_t channels, int axes,
                      const ConvWindow::Sizes& spatial);
// Returns output channels x input channels of a group x kernel.
Shape ConvFilterShape(const ConvGeometry& geometry);
// Throws unless all inputs have the same shape.
void RequireEqualShapes(const Layer& layer, std::span<const BlobSpec> inputs);

}  // namespace crema
