// What graphs of the stand-in of cuDNN give.
#include <cmath>
#include <cstring>
#include <functional>

#include "core/bfloat16.h"
#include "core/strings.h"
#include "cudnn/fake_descriptor.h"
#include "support/half.h"

namespace crema::test {
namespace {

using Extents = std::vector<int64_t>;

double Load(cudnnDataType_t type, const void* memory, int64_t i) {
  if (type == CUDNN_DATA_FLOAT) return static_cast<const float*>(memory)[i];
  if (type == CUDNN_DATA_BFLOAT16) {
    return static_cast<double>(static_cast<float>(static_cast<const BFloat16*>(memory)[i]));
  }
  return static_cast<double>(static_cast<float>(static_cast<const Half*>(memory)[i]));
}

void Store(cudnnDataType_t type, double value, int64_t i, void* memory) {
  const auto rounded = static_cast<float>(value);
  if (type == CUDNN_DATA_FLOAT) {
    static_cast<float*>(memory)[i] = rounded;
  } else if (type == CUDNN_DATA_BFLOAT16) {
    static_cast<BFloat16*>(memory)[i] = BFloat16(rounded);
  } else {
    static_cast<Half*>(memory)[i] = Half(rounded);
  }
}

int64_t CountOf(const Extents& extents) {
  int64_t product = 1;
  for (int64_t extent : extents) product *= extent;
  return product;
}

Extents SpaceOf(const Extents& extents) {
  Extents space;
  for (size_t a = 2; a < extents.size(); ++a) space.push_back(extents[a]);
  return space;
}

// A tensor's numbers, row-major whatever its strides are.
struct Numbers {
  Extents extents;
  std::vector<double> values;

  int64_t count() const { return CountOf(extents); }
  double& operator[](int64_t index) { return values[static_cast<size_t>(index)]; }
  double& At(const Extents& place) {
    int64_t index = 0;
    for (size_t a = 0; a < extents.size(); ++a) index = index * extents[a] + place[a];
    return values[static_cast<size_t>(index)];
  }
};

// body(place) for each place of a box.
void ForPlaces(const Extents& extents, const std::function<void(const Extents&)>& body) {
  Extents place(extents.size(), 0);
  while (true) {
    body(place);
    size_t a = extents.size();
    while (a > 0 && ++place[a - 1] == extents[a - 1]) place[--a] = 0;
    if (a == 0) return;
  }
}

Extents ExtentsOf(const FakeDescriptor& tensor) {
  return tensor.ArrayOf<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
}

bool IsVirtual(const FakeDescriptor& tensor) {
  return tensor.Has(CUDNN_ATTR_TENSOR_IS_VIRTUAL) &&
         tensor.ValueOf<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}

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
    const Extents strides = tensor.ArrayOf<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
    ForPlaces(ExtentsOf(tensor), [&](const Extents& place) {
      int64_t at = 0;
      for (size_t a = 0; a < place.size(); ++a) at += place[a] * strides[a];
      body(place, at);
    });
  }

  Numbers Read(const FakeDescriptor& tensor) {
    const auto id = tensor.ValueOf<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    if (IsVirtual(tensor)) return between_.at(id);
    Numbers numbers{ExtentsOf(tensor), {}};
    numbers.values.resize(static_cast<size_t>(numbers.count()));
    const void* memory = MemoryOf(tensor);
    if (memory == nullptr) return numbers;
    const auto type = tensor.ValueOf<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
    ForElements(tensor, [&](const Extents& place, int64_t at) {
      numbers.At(place) = Load(type, memory, at);
    });
    return numbers;
  }

  void Write(Numbers numbers, const FakeDescriptor& tensor) {
    if (IsVirtual(tensor)) {
      between_[tensor.ValueOf<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)] = std::move(numbers);
      return;
    }
    void* memory = MemoryOf(tensor);
    if (memory == nullptr) return;
    const auto type = tensor.ValueOf<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
    ForElements(tensor, [&](const Extents& place, int64_t at) {
      Store(type, numbers.At(place), at, memory);
    });
  }

  static Numbers Zeros(const FakeDescriptor& tensor) {
    Numbers numbers{ExtentsOf(tensor), {}};
    numbers.values.resize(static_cast<size_t>(numbers.count()));
    return numbers;
  }

  // Elements of x, w and y that one product of a convolution is of, in one channel each.
  struct Product {
    int64_t x, w, y;
  };

  static int64_t IndexOf(const Extents& place, const Extents& extents) {
    int64_t index = 0;
    for (size_t a = 0; a < extents.size(); ++a) index = index * extents[a] + place[a];
    return index;
  }

  static std::vector<Product> ProductsOf(const FakeDescriptor& window, const Extents& x,
                                         const Extents& w, const Extents& y) {
    const auto of = [&](int name) { return window.ArrayOf<int64_t>(name); };
    const Extents pad = of(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    const Extents stride = of(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    const Extents dilation = of(CUDNN_ATTR_CONVOLUTION_DILATIONS);
    std::vector<Product> products;
    Extents from(x.size());
    ForPlaces(y, [&](const Extents& to) {
      ForPlaces(w, [&](const Extents& tap) {
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
    const Extents x_space = SpaceOf(x.extents), w_space = SpaceOf(w.extents);
    const Extents y_space = SpaceOf(y.extents);
    const auto products = ProductsOf(window, x_space, w_space, y_space);
    const int64_t xs = CountOf(x_space), ws = CountOf(w_space), ys = CountOf(y_space);
    const int64_t inputs = x.extents[1], depth = w.extents[1], outputs = y.extents[1];
    const int64_t group_outputs = outputs / (inputs / depth);
    for (int64_t n = 0; n < y.extents[0]; ++n) {
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
    const FakeDescriptor& how =
        operation.DescriptorOf(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    Numbers x = Read(operation.DescriptorOf(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    Numbers y = x;
    if (how.ValueOf<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_ADD) {
      Numbers b = Read(operation.DescriptorOf(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
      ForPlaces(y.extents, [&](const Extents& place) {
        Extents from = place;
        for (size_t a = 0; a < from.size(); ++a) from[a] = b.extents[a] == 1 ? 0 : place[a];
        y.At(place) += b.At(from);
      });
    } else {
      const double slope = how.Has(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE)
                               ? how.ValueOf<double>(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE)
                               : 0;
      for (double& value : y.values) value = value > 0 ? value : slope * value;
    }
    Write(std::move(y), operation.DescriptorOf(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  }

  const FakeDescriptor& graph_;
  std::map<int64_t, void*> memory_;
  std::map<int64_t, Numbers> between_;
  std::map<int64_t, bool> used_;
  std::string fault_;
};

}  // namespace

std::vector<std::string> FakeOperations(const FakeDescriptor& graph) {
  std::vector<std::string> names;
  for (void* descriptor : graph.ArrayOf<void*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    const auto& operation = *static_cast<FakeDescriptor*>(descriptor);
    switch (operation.type) {
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        names.emplace_back("forward");
        break;
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        names.emplace_back("to input");
        break;
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        names.emplace_back("to weights");
        break;
      default:
        names.emplace_back(operation.Has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC) ? "add" : "relu");
    }
  }
  return names;
}

std::string FakeCompute(const FakeDescriptor& graph, const FakeDescriptor& pack) {
  return Computation(graph, pack).Run();
}

}  // namespace crema::test
