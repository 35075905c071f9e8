// DeformableConvolution against torchvision and Convolution.
#include <gtest/gtest.h>

#include <string>

#include "layers/hard_places.h"
#include "support/layer_expect.h"

namespace crema::test {
namespace {

// Recorded with torchvision 0.29 (deform_conv2d, in double).
TEST(DeformableConvolutionTest, EqualsTorchvision) {
  const Values x = {-1.25, 0.5,   -0.5,  1.25, 0.25, -0.75, 1,    0,     -1,
                    0.75,  -0.25, -1.25, 0.5,  -0.5, 1.25,  0.25, -0.75, 1};
  const Values w = {-0.75, 0.5, 0, -0.5, 0.75, 0.25, -0.25, -0.75};
  Values offset;
  for (int i = 0; i < 64; ++i) offset.push_back((i * 37 % 53 - 26) / 16.0);
  Values dy;
  for (int i = 0; i < 8; ++i) dy.push_back((i * 3 % 7 - 3) / 2.0);
  const RunResult result = CallBuiltin(
      "DeformableConvolution",
      {.prototxt = "deformable_convolution_param { num_output: 2 kernel_size: 2 stride_h: 2 "
                   "stride_w: 1 pad_h: 1 pad_w: 0 dilation: 2 dilation: 1 group: 2 "
                   "deformable_group: 2 }",
       .inputs = {{{1, 2, 3, 3}, x}, {{1, 16, 2, 2}, offset}},
       .output_grads = {dy},
       .dtype = DType::kF64,
       .parameters = {w, {0.5, -0.25}}});
  ExpectNear(result.outputs[0], {0.5537109, 0.1953125, 0.5664062, 0.2553711, 0.09594727, -0.9438477,
                                 -0.0009765625, 0.06640625});
  ExpectNear(result.input_grads[0],
             {-0.08789062, -0.1464844, 0.1772461, 0, 0.0703125, -0.1171875, 0, 0.5410156,
              -0.08789062, -0.04394531, -0.01855469, -0.3310547, -0.7792969, -0.078125, 0.08203125,
              0.2607422, 0.03808594, 0.515625});
  ExpectNear(
      result.input_grads[1],
      {0,         0,          0,          -0.1289062, 0,          0,         -0.5273438, 0.1289062,
       0.1171875, 0,          0.703125,   0.0625,     -0.4101562, 0,         -0.28125,   0.25,
       0,         0,          0,          0,          0,          0,         0,          0,
       -0.1875,   0,          0.09375,    0,          -0.75,      0,         -0.7265625, 0,
       0,         0,          -0.09375,   0.28125,    0,          0,         -0.375,     1.125,
       0.453125,  0.25,       -0.0234375, 0,          0.05078125, 0.109375,  0.08007812, 0,
       0.0234375, -0.0234375, 0,          0,          -0.1210938, 0.1835938, 0,          0,
       0.6445312, -0.515625,  0,          0,          -0.6445312, -0.75,     0,          0});
  ExpectNear(result.parameter_grads[0], {0.1181641, -0.03222656, -0.1230469, -0.4921875, -0.546875,
                                         0.4707031, -0.09375, -1.27832});
  ExpectNear(result.parameter_grads[1], {-0.5, -1});
}

// Without offsets it is Convolution.
TEST(DeformableConvolutionTest, IsConvolutionWithoutOffsets) {
  Values x, w;
  for (int i = 0; i < 2 * 4 * 5 * 5; ++i) x.push_back(i * 5 % 13 - 6);
  for (int i = 0; i < 2 * 2 * 9; ++i) w.push_back(i * 7 % 11 - 5);
  const std::string fields = " { num_output: 2 kernel_size: 3 pad: 2 group: 2 dilation: 2 }";
  const Values plain = CallBuiltin("Convolution", {.prototxt = "convolution_param" + fields,
                                                   .inputs = {{{2, 4, 5, 5}, x}},
                                                   .parameters = {w, {1, 2}}})
                           .outputs[0];
  const Values deformed =
      CallBuiltin("DeformableConvolution",
                  {.prototxt = "deformable_convolution_param" + fields,
                   .inputs = {{{2, 4, 5, 5}, x}, {{2, 36, 5, 5}, Values(2 * 36 * 25, 0)}},
                   .parameters = {w, {1, 2}}})
          .outputs[0];
  ExpectNear(deformed, plain, 1e-4);
}

TEST(DeformableConvolutionTest, NamesItsOwnFields) {
  const std::string error = PlanError(
      "layer { name: 'x' type: 'Input' top: 'x' top: 'o' input_param { shape { dim: 1 dim: 2 dim: "
      "4 "
      "dim: 4 } shape { dim: 1 dim: 18 dim: 2 dim: 2 } } }\n"
      "layer { name: 'd' type: 'DeformableConvolution' bottom: 'x' bottom: 'o' top: 'y'\n"
      "  deformable_convolution_param { num_output: 2\n kernel_size: 0 } }");
  ExpectContains(error, "net.prototxt:4:2: layer \"d\": kernel_size must be above 0");
}

TEST(DeformableConvolutionTest, StaysInBoundsAtAllOffsets) {
  ExpectInBounds("DeformableConvolution", 1, HardPlaces());
}

}  // namespace
}  // namespace crema::test
