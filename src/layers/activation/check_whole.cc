// CheckWhole: y = x, where the elements are results of arithmetic on whole numbers. One from 2^24
// on (in double precision 2^53) may be a rounded one: it is an error. dx = dy.
#include "core/strings.h"
#include "graph/sample_error_context.h"
#include "layers/activation/elementwise.h"

namespace crema {
namespace {

class CheckWhole final : public Elementwise<CheckWholeFormula> {
 public:
  using Elementwise::Elementwise;

  LayerInfo Infer(const InferContext& context) const override {
    LayerInfo info = Elementwise::Infer(context);
    info.moves_only = true;
    info.any_format = false;  // so that errors count the elements in their order
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const ConstTensorView& x = args.inputs[0];
    DispatchFloat(x.dtype(), [&]<typename T>(T) {
      for (int64_t i = 0; i < x.count(); ++i) {
        if (!CheckWholeFormula::IsExact(x.data<T>()[i])) FailElement(x.data<T>()[i], i, x.shape());
      }
    });
    Elementwise::Forward(args);
  }

 private:
  [[noreturn]] void FailElement(double value, int64_t at, const Shape& shape) const {
    Where where{.layer = param().name()};
    if (shape.axes() > 0) where.sample = at / shape.count(1);
    std::string sample;
    if (where.sample >= 0) sample = StrCat(" (", SampleErrorContext(where.sample), ")");
    const bool prints = std::abs(value) < 0x1p63;
    Fail(ErrorCode::kDataLoss,
         StrCat("element ", at, sample, " is about ",
                prints ? StrCat(static_cast<int64_t>(value)) : StrCat(value),
                ": whole numbers are computed as float32, which rounds them from 2^24 (16777216) "
                "on; give inputs with smaller results"),
         std::move(where));
  }
};

}  // namespace

void RegisterCheckWhole(Registry& registry) {
  auto type = ElementwiseType<CheckWholeFormula>(
      "CheckWhole", "Refuses whole numbers that float32 may have rounded.",
      "y = x; |x| of 2^24 or more, or NaN, is an error; a GPU gives NaN");
  type.make = [](const LayerParameter& p) { return std::make_unique<const CheckWhole>(p); };
  type.implementations.clear();
  type.traits.fits_16_bits = false;
  type.origin = "Crema";
  type.samples = {
      {.name = "plain", .prototxt = "", .inputs = {{.shape = {2, 3, 4, 5}}}},
      {.name = "large", .prototxt = "", .inputs = {{.shape = {5, 9001}}}},
      {.name = "scalar", .prototxt = "", .inputs = {{.shape = {}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
