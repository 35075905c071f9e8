// Computes the graphs of the fake cuDNN.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/strings.h"
#include "cudnn/fake_descriptor.h"
#include "cudnn/fake_numbers.h"

namespace crema::test {
namespace {

class Computation {
 public:
  Computation(const FakeDescriptor& graph, const FakeDescriptor& pack) : graph_(graph) {
    const auto ids = pack.ArrayOf<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const auto data = pack.ArrayOf<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    if (ids.size() != data.size()) fault_ = "as many pointers as ids";
    for (size_t i = 0; i < std::min(ids.size(), data.size()); ++i) memory_[ids[i]] = data[i];
  }

  std::string Run() {
    for (void* operation : graph_.ArrayOf<void*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
      if (fault_.empty()) Compute(*static_cast<FakeDescriptor*>(operation));
    }
    if (fault_.empty() && used_.size() != memory_.size()) fault_ = "memory of no tensor";
    return fault_;
  }

 private:
  void* MemoryOf(const FakeDescriptor& tensor) {
    const auto id = tensor.ValueOf<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    used_[id] = true;
    const auto found = memory_.find(id);
    const auto alignment = tensor.ValueOf<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    if (found == memory_.end() || found->second == nullptr) {
      fault_ = StrCat("tensor ", id, " has no memory");
    } else if (reinterpret_cast<uintptr_t>(found->second) % static_cast<uintptr_t>(alignment) !=
               0) {
      fault_ = StrCat("tensor ", id, " is not aligned to ", alignment);
    } else {
      return found->second;
    }
    return nullptr;
  }

  template <typename Body>
  void ForElements(const FakeDescriptor& tensor, const Body& body) {
    const Sizes strides = tensor.ArrayOf<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
    ForPlaces(SizesOf(tensor), [&](const Sizes& place) {
      int64_t at = 0;
      for (size_t a = 0; a < place.size(); ++a) at += place[a] * strides[a];
      body(place, at);
    });
  }

  Numbers Read(const FakeDescriptor& tensor) {
    const auto id = tensor.ValueOf<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    if (IsVirtual(tensor)) return between_.at(id);
    Numbers numbers{SizesOf(tensor), {}};
    numbers.values.resize(static_cast<size_t>(numbers.count()));
    const void* memory = MemoryOf(tensor);
    if (memory == nullptr) return numbers;
    ForElements(tensor, [&](const Sizes& place, int64_t at) {
      numbers.At(place) = Load(TypeOf(tensor), memory, at);
    });
    return numbers;
  }

  void Write(Numbers numbers, const FakeDescriptor& tensor) {
    if (IsVirtual(tensor)) {
      // f32 virtual tensors are as precise as memory, as intermediate values are in registers.
      if (TypeOf(tensor) != CUDNN_DATA_FLOAT) {
        for (double& value : numbers.values) value = Rounded(TypeOf(tensor), value);
      }
      between_[tensor.ValueOf<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)] = std::move(numbers);
      return;
    }
    void* memory = MemoryOf(tensor);
    if (memory == nullptr) return;
    ForElements(tensor, [&](const Sizes& place, int64_t at) {
      Store(TypeOf(tensor), numbers.At(place), at, memory);
    });
  }

  static Numbers Zeros(const FakeDescriptor& tensor) {
    Numbers numbers{SizesOf(tensor), {}};
    numbers.values.resize(static_cast<size_t>(numbers.count()));
    return numbers;
  }

  // Elements of x, w and y that one product of a convolution is of, in one channel each.
  struct Product {
    int64_t x, w, y;
  };

  static int64_t IndexOf(const Sizes& place, const Sizes& sizes) {
    int64_t index = 0;
    for (size_t a = 0; a < sizes.size(); ++a) index = index * sizes[a] + place[a];
    return index;
  }

  static std::vector<Product> ProductsOf(const FakeDescriptor& window, const Sizes& x,
                                         const Sizes& w, const Sizes& y) {
    const auto of = [&](int name) { return window.ArrayOf<int64_t>(name); };
    const Sizes pad = of(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    const Sizes stride = of(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    const Sizes dilation = of(CUDNN_ATTR_CONVOLUTION_DILATIONS);
    std::vector<Product> products;
    Sizes from(x.size());
    ForPlaces(y, [&](const Sizes& to) {
      ForPlaces(w, [&](const Sizes& tap) {
        for (size_t a = 0; a < x.size(); ++a) {
          from[a] = to[a] * stride[a] - pad[a] + tap[a] * dilation[a];
          if (from[a] < 0 || from[a] >= x[a]) return;
        }
        products.push_back({IndexOf(from, x), IndexOf(tap, w), IndexOf(to, y)});
      });
    });
    return products;
  }

  // body(x, w, y) for each product, of row-major elements.
  template <typename Body>
  static void ForProducts(const FakeDescriptor& window, const Numbers& x, const Numbers& w,
                          const Numbers& y, const Body& body) {
    const Sizes x_space = SpaceOf(x.sizes), w_space = SpaceOf(w.sizes);
    const Sizes y_space = SpaceOf(y.sizes);
    const auto products = ProductsOf(window, x_space, w_space, y_space);
    const int64_t xs = CountOf(x_space), ws = CountOf(w_space), ys = CountOf(y_space);
    const int64_t inputs = x.sizes[1], depth = w.sizes[1], outputs = y.sizes[1];
    const int64_t group_outputs = outputs / (inputs / depth);
    for (int64_t n = 0; n < y.sizes[0]; ++n) {
      for (int64_t k = 0; k < outputs; ++k) {
        for (int64_t c = 0; c < depth; ++c) {
          const int64_t image = n * inputs + k / group_outputs * depth + c;
          for (const Product& p : products) {
            body(image * xs + p.x, (k * depth + c) * ws + p.w, (n * outputs + k) * ys + p.y);
          }
        }
      }
    }
  }

  void Compute(const FakeDescriptor& operation) {
    const auto at = [&](int name) -> const FakeDescriptor& { return operation.DescriptorOf(name); };
    switch (operation.type) {
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        return Forward(at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC),
                       at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X),
                       at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W),
                       at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y));
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        return ToInput(at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC),
                       at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY),
                       at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W),
                       at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX));
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        return ToWeights(at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC),
                         at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X),
                         at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY),
                         at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW));
      default:
        return Pointwise(operation);
    }
  }

  void Forward(const FakeDescriptor& window, const FakeDescriptor& x, const FakeDescriptor& w,
               const FakeDescriptor& y) {
    Numbers input = Read(x), filter = Read(w), output = Zeros(y);
    ForProducts(window, input, filter, output, [&](int64_t from, int64_t weight, int64_t to) {
      output[to] += input[from] * filter[weight];
    });
    Write(std::move(output), y);
  }

  void ToInput(const FakeDescriptor& window, const FakeDescriptor& dy, const FakeDescriptor& w,
               const FakeDescriptor& dx) {
    Numbers gradient = Read(dy), filter = Read(w), result = Zeros(dx);
    ForProducts(window, result, filter, gradient, [&](int64_t from, int64_t weight, int64_t to) {
      result[from] += gradient[to] * filter[weight];
    });
    Write(std::move(result), dx);
  }

  void ToWeights(const FakeDescriptor& window, const FakeDescriptor& x, const FakeDescriptor& dy,
                 const FakeDescriptor& dw) {
    Numbers input = Read(x), gradient = Read(dy), result = Zeros(dw);
    ForProducts(window, input, result, gradient, [&](int64_t from, int64_t weight, int64_t to) {
      result[weight] += gradient[to] * input[from];
    });
    Write(std::move(result), dw);
  }

  void Pointwise(const FakeDescriptor& operation) {
    const auto read = [&](int name) { return Read(operation.DescriptorOf(name)); };
    Numbers x = read(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    if (ModeOf(operation) == CUDNN_POINTWISE_RELU_FWD) {
      const FakeDescriptor& how =
          operation.DescriptorOf(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      const double slope = how.Has(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE)
                               ? how.ValueOf<double>(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE)
                               : 0;
      for (double& value : x.values) value = value > 0 ? value : slope * value;
    } else {
      Numbers b = read(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
      ForPlaces(Sizes(x.sizes), [&](const Sizes& place) { x.At(place) += b.At(place); });
    }
    Write(std::move(x), operation.DescriptorOf(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  }

  const FakeDescriptor& graph_;
  std::map<int64_t, void*> memory_;
  std::map<int64_t, Numbers> between_;
  std::map<int64_t, bool> used_;
  std::string fault_;
};

}  // namespace

std::string FakeCompute(const FakeDescriptor& graph, const FakeDescriptor& pack) {
  return Computation(graph, pack).Run();
}

}  // namespace crema::test
