// The requirements of the fake cuDNN on descriptors.
#include <algorithm>

#include "core/strings.h"
#include "cudnn/fake_descriptor.h"

namespace crema::test {
namespace {

constexpr int kMostDims = CUDNN_DIM_MAX;
constexpr int kMostOperations = 64;

struct Demand {
  int name;
  std::vector<cudnnBackendAttributeType_t> types;
  int64_t most = 1;  // elements
  bool optional = false;
};

using Demands = std::vector<Demand>;

Demand Descriptor(int name) { return {name, {CUDNN_TYPE_BACKEND_DESCRIPTOR}}; }
Demand OptionalDescriptor(int name) { return {name, {CUDNN_TYPE_BACKEND_DESCRIPTOR}, 1, true}; }
Demand Factor(int name) { return {name, {CUDNN_TYPE_FLOAT, CUDNN_TYPE_DOUBLE}}; }
Demand Integers(int name) { return {name, {CUDNN_TYPE_INT64}, kMostDims}; }

Demands ConvolutionDemands(int first, int count, int alpha) {
  Demands demands{Factor(alpha), Factor(alpha + 1)};
  for (int i = 0; i < count; ++i) demands.push_back(Descriptor(first + i));
  return demands;
}

const std::map<int, Demands>& AllDemands() {
  static const std::map<int, Demands> demands{
      {CUDNN_BACKEND_TENSOR_DESCRIPTOR,
       {{CUDNN_ATTR_TENSOR_DATA_TYPE, {CUDNN_TYPE_DATA_TYPE}},
        Integers(CUDNN_ATTR_TENSOR_DIMENSIONS),
        Integers(CUDNN_ATTR_TENSOR_STRIDES),
        {CUDNN_ATTR_TENSOR_UNIQUE_ID, {CUDNN_TYPE_INT64}},
        {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {CUDNN_TYPE_INT64}},
        {CUDNN_ATTR_TENSOR_IS_VIRTUAL, {CUDNN_TYPE_BOOLEAN}, 1, true}}},
      {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
       {{CUDNN_ATTR_CONVOLUTION_COMP_TYPE, {CUDNN_TYPE_DATA_TYPE}},
        {CUDNN_ATTR_CONVOLUTION_CONV_MODE, {CUDNN_TYPE_CONVOLUTION_MODE}},
        {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {CUDNN_TYPE_INT64}},
        Integers(CUDNN_ATTR_CONVOLUTION_DILATIONS),
        Integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
        Integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
        Integers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)}},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
       ConvolutionDemands(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, 4,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA)},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
       ConvolutionDemands(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, 4,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA)},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
       ConvolutionDemands(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, 4,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA)},
      {CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
       {{CUDNN_ATTR_POINTWISE_MODE, {CUDNN_TYPE_POINTWISE_MODE}},
        {CUDNN_ATTR_POINTWISE_MATH_PREC, {CUDNN_TYPE_DATA_TYPE}},
        {CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, {CUDNN_TYPE_NAN_PROPOGATION}, 1, true},
        {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, {CUDNN_TYPE_DOUBLE}, 1, true},
        {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, {CUDNN_TYPE_DOUBLE}, 1, true}}},
      {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
       {Descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR),
        Descriptor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
        OptionalDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
        Descriptor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC)}},
      {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATIONGRAPH_HANDLE, {CUDNN_TYPE_HANDLE}},
        {CUDNN_ATTR_OPERATIONGRAPH_OPS, {CUDNN_TYPE_BACKEND_DESCRIPTOR}, kMostOperations}}},
      {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
       {Descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH),
        {CUDNN_ATTR_ENGINEHEUR_MODE, {CUDNN_TYPE_HEUR_MODE}}}},
      {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
       {{CUDNN_ATTR_EXECUTION_PLAN_HANDLE, {CUDNN_TYPE_HANDLE}},
        Descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)}},
      {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
       {{CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, {CUDNN_TYPE_INT64}, kMostOperations},
        {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, {CUDNN_TYPE_VOID_PTR}, kMostOperations},
        {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {CUDNN_TYPE_VOID_PTR}}}}};
  return demands;
}

std::string TensorFault(const FakeDescriptor& tensor) {
  const auto sizes = SizesOf(tensor);
  const auto strides = tensor.ArrayOf<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  if (sizes.size() != strides.size()) return "as many strides as sizes";
  if (sizes.size() < 4) return "a tensor has four axes or more";
  if (std::ranges::any_of(sizes, [](int64_t e) { return e <= 0; })) return "sizes are above 0";
  const auto alignment = tensor.ValueOf<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  if (alignment <= 0 || (alignment & (alignment - 1)) != 0) return "alignment is a power of 2";
  return alignment % (TypeOf(tensor) == CUDNN_DATA_FLOAT ? 4 : 2) == 0 ? ""
                                                                       : "alignment of elements";
}

std::string WindowFault(const FakeDescriptor& window) {
  const auto axes =
      static_cast<size_t>(window.ValueOf<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  for (const int name :
       {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
        CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS}) {
    if (window.ArrayOf<int64_t>(name).size() != axes) return "an element an axis of space";
  }
  return "";
}

// Checks x, w, y of a convolution: sizes must fit the window.
std::string SizesFault(const FakeDescriptor& window, const FakeDescriptor& x,
                       const FakeDescriptor& w, const FakeDescriptor& y) {
  const auto xs = SizesOf(x), ws = SizesOf(w), ys = SizesOf(y);
  if (xs.size() != ws.size() || xs.size() != ys.size()) return "tensors of as many axes";
  if (xs[0] != ys[0] || ys[1] != ws[0] || xs[1] % ws[1] != 0) return "channels do not fit";
  if (ys[1] % (xs[1] / ws[1]) != 0) return "groups do not fit";
  const auto of = [&](int name, size_t i) { return window.ArrayOf<int64_t>(name).at(i); };
  for (size_t i = 0; i + 2 < xs.size(); ++i) {
    const int64_t reach = of(CUDNN_ATTR_CONVOLUTION_DILATIONS, i) * (ws[i + 2] - 1) + 1;
    const int64_t padded = xs[i + 2] + of(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i) +
                           of(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i);
    const int64_t stride = of(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i);
    if (padded < reach || (padded - reach) / stride + 1 != ys[i + 2]) return "sizes do not fit";
  }
  return "";
}

// The mode decides which tensors exist.
std::string PointwiseFault(const FakeDescriptor& operation) {
  const auto mode = ModeOf(operation);
  const bool of_one = mode == CUDNN_POINTWISE_RELU_FWD;
  if (operation.Has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC) == of_one) return "B of another mode";
  if (of_one) return "";
  if (mode != CUDNN_POINTWISE_ADD) return "nobody asks for that mode";
  const auto x = SizesOf(operation.DescriptorOf(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
  const auto b = SizesOf(operation.DescriptorOf(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
  for (size_t a = 0; a < x.size(); ++a) {
    if (b.at(a) != 1 && b[a] != x[a]) return "B cannot be extended";
  }
  return "";
}

}  // namespace

std::string FakeFault(const FakeDescriptor& d) {
  const auto demands = AllDemands().find(d.type);
  if (demands == AllDemands().end()) return "nobody makes these";
  for (const Demand& demand : demands->second) {
    const auto found = d.attributes.find(demand.name);
    if (found == d.attributes.end()) {
      if (demand.optional) continue;
      return StrCat("attribute ", demand.name, " is missing");
    }
    if (std::ranges::find(demand.types, found->second.type) == demand.types.end()) {
      return StrCat("attribute ", demand.name, " has another type");
    }
    if (found->second.count < 1 || found->second.count > demand.most) {
      return StrCat("attribute ", demand.name, " has ", found->second.count, " elements");
    }
  }
  for (const auto& [name, attribute] : d.attributes) {
    if (std::ranges::find(demands->second, name, &Demand::name) == demands->second.end()) {
      return StrCat("attribute ", name, " is of other descriptors");
    }
    if (attribute.type != CUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
    for (void* inner : d.ArrayOf<void*>(name)) {
      if (!static_cast<FakeDescriptor*>(inner)->finalized) return "an inner one is not finalized";
    }
  }
  const auto at = [&](int name) -> const FakeDescriptor& { return d.DescriptorOf(name); };
  switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return TensorFault(d);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return WindowFault(d);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return SizesFault(at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC),
                        at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X),
                        at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W),
                        at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y));
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return SizesFault(at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC),
                        at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX),
                        at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W),
                        at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY));
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return SizesFault(at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC),
                        at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X),
                        at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW),
                        at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY));
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return PointwiseFault(d);
    default:
      return "";
  }
}

}  // namespace crema::test
