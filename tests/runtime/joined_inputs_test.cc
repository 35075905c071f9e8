// Concat whose inputs are placed in its output.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "support/net.h"

namespace crema {
namespace {

using test::FillInput;
using test::PlanText;
using test::ValuesOf;

std::string ImageInput(int batch, int channels) {
  return StrCat("layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: ", batch,
                " dim: ", channels, " dim: 8 dim: 8 } } }\n");
}

std::string ConvAndRelu(const std::string& name, int outputs) {
  return StrCat("layer { name: '", name, "' type: 'Convolution' bottom: 'x' top: '", name,
                "' convolution_param { num_output: ", outputs,
                " kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }\n",
                "layer { name: 'relu_", name, "' type: 'ReLU' bottom: '", name, "' top: '", name,
                "' }\n");
}

std::string Concat(const std::string& name, const std::string& a, const std::string& b) {
  return StrCat("layer { name: '", name, "' type: 'Concat' bottom: '", a, "' bottom: '", b,
                "' top: '", name, "' }\n");
}

std::string Pool(const std::string& name, const std::string& bottom) {
  return StrCat("layer { name: '", name, "' type: 'Pooling' bottom: '", bottom, "' top: '", name,
                "' pooling_param { kernel_size: 2 stride: 2 } }\n");
}

struct JoinedNet {
  explicit JoinedNet(const std::string& text, bool share = true, bool formats = true)
      : plan(PlanText(
            text, TEST,
            {.backward = false, .passes = {.memory_formats = formats, .share_memory = share}})),
        session(plan, std::shared_ptr<const Weights>(Weights::Make(*plan, 3)), ExecContext(1, 3)) {}

  bool Joins(const std::string& name) const {
    for (const PlannedLayer& layer : plan->layers) {
      if (layer.name() == name) return layer.concat_in_place == ConcatPlace::kContiguous;
    }
    ADD_FAILURE() << name;
    return false;
  }
  std::vector<float> Run(uint64_t seed) {
    FillInput(&session, "x", seed);
    session.Forward();
    return ValuesOf(session.DataOf(plan->outputs[0]));
  }

  std::shared_ptr<const Plan> plan;
  Session session;
};

TEST(JoinedInputs, LieWhereTheOutputHasThem) {
  for (const bool formats : {true, false}) {
    const std::string text = ImageInput(1, 16) + ConvAndRelu("a", 16) + ConvAndRelu("b", 32) +
                             Concat("c", "a", "b") + Pool("p", "c");
    JoinedNet net(text, true, formats);
    ASSERT_TRUE(net.Joins("c"));
    const auto slot = [&](const char* name) {
      return net.plan->values[static_cast<size_t>(net.plan->FindValue(name))].data;
    };
    EXPECT_EQ(slot("a").offset, slot("c").offset);
    EXPECT_EQ(slot("b").offset, slot("c").offset + slot("a").bytes);
    JoinedNet apart(text, false, formats);
    EXPECT_FALSE(apart.Joins("c"));
    EXPECT_LT(net.plan->arena_bytes, apart.plan->arena_bytes);
    EXPECT_EQ(net.Run(5), apart.Run(5));
    EXPECT_EQ(net.Run(6), apart.Run(6));
  }
}

TEST(JoinedInputs, ConcatsInConcats) {
  const std::string text = ImageInput(1, 16) + ConvAndRelu("a", 16) + ConvAndRelu("b", 32) +
                           ConvAndRelu("c", 48) + Concat("ab", "a", "b") +
                           Concat("abc", "c", "ab") + Pool("p", "abc");
  JoinedNet net(text);
  EXPECT_TRUE(net.Joins("ab"));
  EXPECT_TRUE(net.Joins("abc"));
  JoinedNet apart(text, false);
  EXPECT_EQ(net.Run(5), apart.Run(5));
}

TEST(JoinedInputs, StayApartWhereThatCannotBe) {
  // Several images: parts of the output lie between parts (concat_in_place_test.cc).
  EXPECT_FALSE(JoinedNet(ImageInput(2, 16) + ConvAndRelu("a", 16) + ConvAndRelu("b", 16) +
                         Concat("c", "a", "b"))
                   .Joins("c"));
  // One of them twice.
  EXPECT_FALSE(
      JoinedNet(ImageInput(1, 16) + ConvAndRelu("a", 16) + Concat("c", "a", "a")).Joins("c"));
  // Values that are set from outside are not moved.
  EXPECT_FALSE(
      JoinedNet(ImageInput(1, 16) + ConvAndRelu("a", 16) + Concat("c", "x", "a")).Joins("c"));
  // Read again by a later layer.
  EXPECT_FALSE(JoinedNet(ImageInput(1, 16) + ConvAndRelu("a", 16) + ConvAndRelu("b", 16) +
                         Concat("c", "a", "b") + Pool("pc", "c") + Pool("pa", "a"))
                   .Joins("c"));
  // In two outputs: only in the first.
  const JoinedNet two(ImageInput(1, 16) + ConvAndRelu("a", 16) + ConvAndRelu("b", 16) +
                      ConvAndRelu("d", 16) + Concat("c", "a", "b") + Concat("e", "a", "d"));
  EXPECT_FALSE(two.Joins("c"));
}

TEST(JoinedInputs, SessionsTurnToOtherShapesAndBack) {
  const std::string text = ImageInput(1, 16) + ConvAndRelu("a", 16) + ConvAndRelu("b", 32) +
                           Concat("c", "a", "b") + Pool("p", "c");
  JoinedNet net(text);
  ASSERT_TRUE(net.Joins("c"));
  JoinedNet apart(text, false);
  const std::vector<Shape> shapes = {{1, 16, 8, 8}, {1, 16, 5, 7}, {2, 16, 4, 4}, {1, 16, 8, 8}};
  for (const Shape& shape : shapes) {
    net.session.Reshape("x", shape);
    apart.session.Reshape("x", shape);
    EXPECT_EQ(net.Run(7), apart.Run(7)) << ToString(shape);
    EXPECT_EQ(net.Run(8), apart.Run(8)) << ToString(shape);
  }
}

}  // namespace
}  // namespace crema
