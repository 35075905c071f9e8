#include "format/unread_fields.h"

#include <gtest/gtest.h>

#include "core/strings.h"
#include "format/prototxt.h"

namespace crema {
namespace {

std::string WarningsOf(const std::string& text) {
  std::string all;
  for (const Problem& warning : ParseNet(text, "net.prototxt").warnings) {
    all += ToString(warning) + "\n";
  }
  return all;
}

TEST(UnreadFields, OfNetsLayersAndConvolutionsAreNamedOnceWithTheirPlace) {
  EXPECT_EQ(
      WarningsOf("name: 'n'\n"
                 "default_forward_type: FLOAT16\n"
                 "global_grad_scale: 1000\n"
                 "layer { name: 'd' type: 'Input' top: 'x'\n"
                 "  input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }\n"
                 "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'y'\n"
                 "  forward_type: FLOAT16\n"
                 "  convolution_param { num_output: 2 kernel_size: 3 force_nd_im2col: true } }\n"),
      "net.prototxt:2:1: 'default_forward_type' has no effect: --precision chooses number formats\n"
      "net.prototxt:3:1: 'global_grad_scale' has no effect: the solver's loss_scale does this\n"
      "net.prototxt:7:3: layer \"c\": 'forward_type' has no effect: --precision chooses number "
      "formats\n"
      "net.prototxt:8:52: layer \"c\": 'force_nd_im2col' has no effect: the planner chooses "
      "implementations; see --implementation\n");
}

TEST(UnreadFields, DefaultsAreSilent) {
  EXPECT_EQ(WarningsOf("debug_info: false global_grad_scale: 1\n"
                       "layer { name: 'd' type: 'Input' top: 'x' }\n"
                       "layer { name: 'c' type: 'Concat' bottom: 'x' bottom: 'x' top: 'y'\n"
                       "  concat_param { axis: 1 per_fla_fuse: false } }\n"),
            "");
}

}  // namespace
}  // namespace crema
