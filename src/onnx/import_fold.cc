#include "onnx/import_fold.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/strings.h"
#include "core/whole_number.h"
#include "layers/arithmetic/cast.h"

namespace crema {
namespace {

using onnx::TensorProto;

// Result of a function of whole numbers; nothing: undefined.
using MaybeInt = std::optional<int64_t>;

int64_t Wrap(uint64_t value) { return static_cast<int64_t>(value); }

// Returns true for one of uint64 from 2^63 on, which tensors have less 2^64.
bool IsLargeUnsigned(int type, int64_t value) { return type == TensorProto::UINT64 && value < 0; }

MaybeInt DivideInts(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) return std::nullopt;
  return a / b;
}

MaybeInt PowInts(int64_t a, int64_t b) {
  if (b < 0 || b > 63) return std::nullopt;
  uint64_t result = 1;
  for (int64_t i = 0; i < b; ++i) result *= static_cast<uint64_t>(a);
  return Wrap(result);
}

// One binary operator on both kinds of numbers.
struct BinaryFold {
  std::function<MaybeInt(int64_t, int64_t)> ints;
  std::function<double(double, double)> floats;
  bool compares = false;  // gives BOOL
};

double AsBool(bool value) { return value ? 1 : 0; }

// NaN if one of them is.
double LargerOf(double a, double b) { return a > b || std::isnan(a) ? a : b; }
double SmallerOf(double a, double b) { return a < b || std::isnan(a) ? a : b; }

// log(e^a + e^b).
double LogOfSum(double a, double b) {
  return a == b ? a + std::log(2.0) : LargerOf(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

std::map<std::string, BinaryFold> BinaryFolds() {
  using I = int64_t;
  using D = double;
  std::map<std::string, BinaryFold> folds;
  const auto wrapping = [](auto op) {
    return [op](I a, I b) {
      return MaybeInt(Wrap(op(static_cast<uint64_t>(a), static_cast<uint64_t>(b))));
    };
  };
  folds["Add"] = {wrapping(std::plus<uint64_t>()), std::plus<D>()};
  folds["Sub"] = {wrapping(std::minus<uint64_t>()), std::minus<D>()};
  folds["Mul"] = {wrapping(std::multiplies<uint64_t>()), std::multiplies<D>()};
  folds["Div"] = {DivideInts, std::divides<D>()};
  folds["Pow"] = {PowInts, [](D a, D b) { return std::pow(a, b); }};
  folds["Max"] = {[](I a, I b) { return std::max(a, b); }, LargerOf};
  folds["Min"] = {[](I a, I b) { return std::min(a, b); }, SmallerOf};
  const auto compare = [&](const char* name, auto op) {
    folds[name] = {[op](I a, I b) { return MaybeInt(op(a, b) ? 1 : 0); },
                   [op](D a, D b) { return AsBool(op(a, b)); }, true};
  };
  compare("Equal", [](auto a, auto b) { return a == b; });
  compare("Less", [](auto a, auto b) { return a < b; });
  compare("LessOrEqual", [](auto a, auto b) { return a <= b; });
  compare("Greater", [](auto a, auto b) { return a > b; });
  compare("GreaterOrEqual", [](auto a, auto b) { return a >= b; });
  compare("And", [](auto a, auto b) { return a != 0 && b != 0; });
  compare("Or", [](auto a, auto b) { return a != 0 || b != 0; });
  compare("Xor", [](auto a, auto b) { return (a != 0) != (b != 0); });
  return folds;
}

bool FitsBroadcast(const OnnxTensor& a, const OnnxTensor& b, const Dims& dims) {
  const int64_t count = BoundedCount(dims);
  return count <= kMostFoldedElements || count <= std::max(a.count(), b.count());
}

// Returns nothing if the shapes do not fit or a result is undefined.
std::optional<OnnxTensor> FoldBinary(const BinaryFold& fold, const OnnxTensor& a,
                                     const OnnxTensor& b) {
  const auto dims = BroadcastDims(a.dims, b.dims);
  if (!dims || !FitsBroadcast(a, b, *dims)) return std::nullopt;
  const OnnxTensor x = BroadcastTensor(a, *dims);
  const OnnxTensor y = BroadcastTensor(b, *dims);
  const auto count = static_cast<size_t>(BoundedCount(*dims));
  const int type = fold.compares ? TensorProto::BOOL : a.type;
  if (!x.IsFloat() && !y.IsFloat()) {
    std::vector<int64_t> values(count);
    for (size_t i = 0; i < count; ++i) {
      const MaybeInt value = fold.ints((*x.ints)[i], (*y.ints)[i]);
      if (!value) return std::nullopt;
      values[i] = *value;
    }
    return MakeInts(*dims, std::move(values), type);
  }
  const OnnxTensor p = ToFloats(x);
  const OnnxTensor q = ToFloats(y);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(fold.floats((*p.floats)[i], (*q.floats)[i]));
  }
  OnnxTensor result = MakeFloats(*dims, std::move(values), a.IsFloat() ? a.type : b.type);
  if (fold.compares) return CastTensor(result, TensorProto::BOOL);
  return a.IsFloat() ? result : CastTensor(result, a.type);
}

std::vector<OnnxTensor> Wrapped(std::optional<OnnxTensor> tensor) {
  if (!tensor) return {};
  return {std::move(*tensor)};
}

std::vector<OnnxTensor> FoldChain(const BinaryFold& fold, const NodeImport& node) {
  std::optional<OnnxTensor> result = node.Weights(0, "input");
  for (size_t i = 1; result && i < node.inputs(); ++i) {
    result = FoldBinary(fold, *result, node.Weights(i, "input"));
  }
  return Wrapped(std::move(result));
}

void AddUnary(FoldTable* table, const char* op, double (*function)(double)) {
  (*table)[op] = [function](const NodeImport& node) -> std::vector<OnnxTensor> {
    const OnnxTensor& x = node.Weights(0, "input");
    const OnnxTensor source = ToFloats(x);
    std::vector<float> values(source.floats->size());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(function((*source.floats)[i]));
    }
    OnnxTensor result = MakeFloats(x.dims, std::move(values));
    if (x.IsFloat()) result.type = x.type;
    return {x.IsFloat() ? result : CastTensor(result, x.type)};
  };
}

void AddUnaryInts(FoldTable* table, const char* op, int64_t (*ints)(int64_t),
                  double (*floats)(double)) {
  AddUnary(table, op, floats);
  (*table)[op] = [ints, other = (*table)[op]](const NodeImport& node) -> std::vector<OnnxTensor> {
    const OnnxTensor& x = node.Weights(0, "input");
    if (x.IsFloat()) return other(node);
    std::vector<int64_t> values = *x.ints;
    for (int64_t& value : values) value = ints(value);
    return {MakeInts(x.dims, std::move(values), x.type)};
  };
}

std::vector<OnnxTensor> FoldMod(const NodeImport& node) {
  const bool fmod = node.Int("fmod", 0) != 0;
  const BinaryFold fold = {[fmod](int64_t a, int64_t b) -> MaybeInt {
                             if (!DivideInts(a, b)) return std::nullopt;
                             const int64_t rest = a % b;
                             return !fmod && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
                           },
                           [](double a, double b) { return std::fmod(a, b); }};
  return FoldChain(fold, node);
}

std::vector<OnnxTensor> FoldWhere(const NodeImport& node) {
  const OnnxTensor& condition = node.Weights(0, "input");
  const OnnxTensor& x = node.Weights(1, "input");
  const OnnxTensor& y = node.Weights(2, "input");
  const auto both = BroadcastDims(x.dims, y.dims);
  const auto dims = both ? BroadcastDims(condition.dims, *both) : std::nullopt;
  if (!dims || x.IsFloat() != y.IsFloat() || BoundedCount(*dims) > kMostFoldedElements) return {};
  const OnnxTensor c = BroadcastTensor(condition, *dims);
  const OnnxTensor a = BroadcastTensor(x, *dims);
  const OnnxTensor b = BroadcastTensor(y, *dims);
  if (c.IsFloat()) return {};
  const auto choose = [&](const auto& first, const auto& second) {
    auto values = second;
    for (size_t i = 0; i < values.size(); ++i) {
      if ((*c.ints)[i] != 0) values[i] = first[i];
    }
    return values;
  };
  if (x.IsFloat()) return {MakeFloats(*dims, choose(*a.floats, *b.floats), x.type)};
  return {MakeInts(*dims, choose(*a.ints, *b.ints), x.type)};
}

// A reduction: start, step, and the function of the sum. `start_bool` is for truths.
struct ReduceFold {
  double start;
  double (*step)(double, double);
  bool mean = false;
  double (*end)(double) = [](double sum) { return sum; };
  double start_bool = 0;
};

std::vector<OnnxTensor> FoldReduce(const ReduceFold& fold, const NodeImport& node) {
  const OnnxTensor& x = node.Weights(0, "input");
  const Dims given = node.IntsOf("axes", 1);
  const bool all = given.empty() && node.Int("noop_with_empty_axes", 0) == 0;
  std::vector<bool> reduced(x.dims.size(), all);
  for (const int64_t axis : CanonicalAxes(node, given, x.dims.size())) {
    reduced[static_cast<size_t>(axis)] = true;
  }
  Dims kept;
  Dims dims;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    kept.push_back(reduced[i] ? 1 : x.dims[i]);
    if (!reduced[i] || node.Int("keepdims", 1) != 0) dims.push_back(kept.back());
  }
  if (BoundedCount(kept) > std::max(kMostFoldedElements, x.count())) return {};
  // The place of each element in the result.
  std::vector<int64_t> iota(static_cast<size_t>(BoundedCount(kept)));
  for (size_t i = 0; i < iota.size(); ++i) iota[i] = static_cast<int64_t>(i);
  std::vector<double> sums(iota.size(), x.type == TensorProto::BOOL ? fold.start_bool : fold.start);
  const OnnxTensor places = BroadcastTensor(MakeInts(kept, std::move(iota)), x.dims);
  for (size_t i = 0; i < static_cast<size_t>(x.count()); ++i) {
    const double value = x.IsFloat() ? (*x.floats)[i] : static_cast<double>((*x.ints)[i]);
    double& sum = sums[static_cast<size_t>((*places.ints)[i])];
    sum = fold.step(sum, value);
  }
  const double divisor =
      fold.mean ? static_cast<double>(x.count()) / static_cast<double>(sums.size()) : 1;
  if (x.IsFloat()) {
    std::vector<float> values(sums.size());
    for (size_t i = 0; i < sums.size(); ++i) {
      values[i] = static_cast<float>(fold.end(sums[i] / divisor));
    }
    return {MakeFloats(dims, std::move(values), x.type)};
  }
  std::vector<int64_t> values(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!(std::abs(sums[i]) < 0x1p53)) return {};
    values[i] = static_cast<int64_t>(fold.end(sums[i] / divisor));
  }
  return {MakeInts(dims, std::move(values), x.type)};
}

std::vector<OnnxTensor> FoldWholeRange(const NodeImport& node) {
  constexpr int64_t kMost = int64_t{1} << 61;  // so that no difference overflows
  const int64_t start = node.Ints(0, "start")[0];
  const int64_t limit = node.Ints(1, "limit")[0];
  const int64_t delta = node.Ints(2, "delta")[0];
  for (const int64_t value : {start, limit, delta}) {
    if (value < -kMost || value > kMost) return {};
  }
  if (delta == 0) return {};
  const int64_t room = delta > 0 ? limit - start : start - limit;
  const int64_t step = std::abs(delta);
  const int64_t count = room <= 0 ? 0 : (room + step - 1) / step;
  if (count > kMostFoldedElements) return {};
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = start + i * delta;
  return {MakeInts({count}, std::move(values), node.TypeOf(0))};
}

std::vector<OnnxTensor> FoldRange(const NodeImport& node) {
  for (size_t i = 0; i < 3; ++i) {
    const OnnxTensor& part = node.Weights(i, "input");
    if (part.count() != 1 || part.IsFloat() != node.Weights(0, "input").IsFloat()) return {};
  }
  const int type = node.TypeOf(0);
  if (!node.Weights(0, "input").IsFloat()) return FoldWholeRange(node);
  const double start = node.Floats(0, "start")[0];
  const double limit = node.Floats(1, "limit")[0];
  const double delta = node.Floats(2, "delta")[0];
  const double size = std::ceil((limit - start) / delta);
  if (!(std::abs(size) <= static_cast<double>(kMostFoldedElements))) return {};
  const auto count = static_cast<size_t>(std::max(size, 0.0));
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(start + static_cast<double>(i) * delta);
  }
  return {MakeFloats({static_cast<int64_t>(count)}, std::move(values), type)};
}

std::vector<OnnxTensor> FoldDequantize(const NodeImport& node) {
  const OnnxTensor& x = node.Weights(0, "input");
  const OnnxTensor& scale = node.Weights(1, "input");
  if (node.Int("block_size", 0) != 0 || !scale.IsFloat() || x.IsFloat()) return {};
  Dims along(x.dims.size(), 1);
  if (scale.count() != 1) {
    const Dims axis = CanonicalAxes(node, {node.Int("axis", 1)}, x.dims.size());
    if (scale.count() != x.dims[static_cast<size_t>(axis[0])]) return {};
    along[static_cast<size_t>(axis[0])] = scale.count();
  }
  const OnnxTensor factors = BroadcastTensor(ReshapeTensor(scale, along), x.dims);
  std::vector<float> values(static_cast<size_t>(x.count()));
  std::vector<int64_t> zeros(values.size(), 0);
  if (node.Has(2)) {
    if (node.Weights(2, "input").count() != scale.count() || node.Weights(2, "input").IsFloat())
      return {};
    zeros = *BroadcastTensor(ReshapeTensor(node.Weights(2, "input"), along), x.dims).ints;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] =
        static_cast<float>(static_cast<double>((*x.ints)[i]) - static_cast<double>(zeros[i])) *
        (*factors.floats)[i];
  }
  return {MakeFloats(x.dims, std::move(values), scale.type)};
}

std::vector<OnnxTensor> FoldClip(const NodeImport& node) {
  static const std::map<std::string, BinaryFold> kFolds = BinaryFolds();
  if (node.HasAttribute("min") || node.HasAttribute("max")) return {};
  std::optional<OnnxTensor> result = node.Weights(0, "input");
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (!node.Has(i) || !result) continue;
    result = FoldBinary(kFolds.at(i == 1 ? "Max" : "Min"), *result, node.Weights(i, "input"));
  }
  return Wrapped(std::move(result));
}

void AddReductions(FoldTable* table) {
  const auto add = [&](const char* op, ReduceFold fold) {
    (*table)[op] = [fold](const NodeImport& node) { return FoldReduce(fold, node); };
  };
  const auto sum = [](double a, double b) { return a + b; };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  add("ReduceSum", {0, sum});
  add("ReduceMean", {0, sum, true});
  add("ReduceProd", {1, [](double a, double b) { return a * b; }});
  add("ReduceMax", {-kInfinity, LargerOf});
  add("ReduceMin", {kInfinity, SmallerOf, false, [](double v) { return v; }, 1});
  const auto squares = [](double a, double b) { return a + b * b; };
  const auto logarithm = [](double v) { return std::log(v); };
  add("ReduceL1", {0, [](double a, double b) { return a + std::abs(b); }});
  add("ReduceL2", {0, squares, false, [](double v) { return std::sqrt(v); }});
  add("ReduceSumSquare", {0, squares});
  add("ReduceLogSum", {0, sum, false, logarithm});
  add("ReduceLogSumExp", {-kInfinity, LogOfSum});
}

}  // namespace

OnnxTensor ToFloats(const OnnxTensor& from) {
  if (from.IsFloat()) return from;
  const std::string why = WhyNoFloats(from);
  if (!why.empty()) Fail(ErrorCode::kUnsupported, StrCat("a constant ", why));
  return MakeFloats(from.dims, {from.ints->begin(), from.ints->end()});
}

std::string WhyNoFloats(const OnnxTensor& tensor, bool limits) {
  if (tensor.IsFloat()) return "";
  const auto is_limit = [](int64_t value) {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    return value == kMost || value == -kMost || value == std::numeric_limits<int32_t>::max() ||
           value == -int64_t{std::numeric_limits<int32_t>::max()};
  };
  for (size_t i = 0; i < tensor.ints->size(); ++i) {
    const int64_t value = (*tensor.ints)[i];
    const bool large = IsLargeUnsigned(tensor.type, value);
    if (!large && (IsExactFloat(value) || (limits && is_limit(value)))) continue;
    return StrCat("has ", large ? StrCat(static_cast<uint64_t>(value)) : StrCat(value),
                  " at element ", i,
                  "; blobs are of float32, which holds whole numbers up to 2^24, and few beyond");
  }
  return "";
}

namespace {

int64_t Narrow(int64_t value, int type) {
  switch (type) {
    case TensorProto::INT8:
      return static_cast<int8_t>(value);
    case TensorProto::UINT8:
      return static_cast<uint8_t>(value);
    case TensorProto::INT16:
      return static_cast<int16_t>(value);
    case TensorProto::UINT16:
      return static_cast<uint16_t>(value);
    case TensorProto::INT32:
      return static_cast<int32_t>(value);
    case TensorProto::UINT32:
      return static_cast<uint32_t>(value);
    case TensorProto::BOOL:
      return value != 0 ? 1 : 0;
    default:
      return value;
  }
}

int64_t ToInt(float value, int type) {
  if (type == TensorProto::BOOL) return value != 0 ? 1 : 0;
  if (std::isnan(value)) return 0;
  if (type == TensorProto::UINT64 && value >= 0x1p63F) {
    return value < 0x1p64F ? Wrap(static_cast<uint64_t>(value)) : -1;
  }
  if (value >= 0x1p63F) return Narrow(std::numeric_limits<int64_t>::max(), type);
  return Narrow(static_cast<int64_t>(std::max(value, -0x1p63F)), type);
}

// The nearest floats.
OnnxTensor NearestFloats(const OnnxTensor& from) {
  if (from.IsFloat()) return from;
  std::vector<float> values;
  for (const int64_t value : *from.ints) {
    const bool large = IsLargeUnsigned(from.type, value);
    values.push_back(large ? static_cast<float>(static_cast<uint64_t>(value))
                           : static_cast<float>(value));
  }
  return MakeFloats(from.dims, std::move(values));
}

}  // namespace

OnnxTensor CastTensor(const OnnxTensor& from, int type) {
  if (IsFloatType(type)) {
    OnnxTensor result = NearestFloats(from);
    const bool half = type == TensorProto::FLOAT16 && from.type != type;
    if (half || (type == TensorProto::BFLOAT16 && from.type != type)) {
      std::vector<float> values = *result.floats;
      for (float& value : values) value = half ? CastTo(FLOAT16, value) : float{BFloat16(value)};
      return MakeFloats(from.dims, std::move(values), type);
    }
    result.type = type;
    return result;
  }
  std::vector<int64_t> values(static_cast<size_t>(from.count()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = from.IsFloat() ? ToInt((*from.floats)[i], type) : Narrow((*from.ints)[i], type);
  }
  return MakeInts(from.dims, std::move(values), type);
}

namespace {

// The same with results that wrap as their types do; it does not fold large numbers of uint64.
FoldFunction Wrapping(FoldFunction fold) {
  return [fold = std::move(fold)](const NodeImport& node) -> std::vector<OnnxTensor> {
    for (size_t i = 0; i < node.inputs(); ++i) {
      const OnnxTensor* x = node.Constant(i);
      if (x == nullptr || x->IsFloat() || x->type != TensorProto::UINT64) continue;
      if (std::ranges::any_of(*x->ints, [](int64_t value) { return value < 0; })) return {};
    }
    std::vector<OnnxTensor> outputs = fold(node);
    for (OnnxTensor& output : outputs) {
      if (!output.IsFloat()) output = CastTensor(output, output.type);
    }
    return outputs;
  };
}

}  // namespace

void AddArithmeticFolds(FoldTable* table) {
  for (const auto& entry : BinaryFolds()) {
    (*table)[entry.first] = [fold = entry.second](const NodeImport& node) {
      return FoldChain(fold, node);
    };
  }
  (*table)["Sum"] = (*table)["Add"];
  (*table)["Mod"] = FoldMod;
  (*table)["Where"] = FoldWhere;
  (*table)["Range"] = FoldRange;
  (*table)["Clip"] = FoldClip;
  (*table)["DequantizeLinear"] = FoldDequantize;
  AddUnaryInts(
      table, "Neg", [](int64_t v) { return Wrap(-static_cast<uint64_t>(v)); },
      [](double v) { return -v; });
  AddUnaryInts(
      table, "Abs", [](int64_t v) { return v < 0 ? Wrap(-static_cast<uint64_t>(v)) : v; },
      [](double v) { return std::abs(v); });
  AddUnaryInts(
      table, "Not", [](int64_t v) { return int64_t{v == 0}; },
      [](double v) { return AsBool(v == 0); });
  AddUnaryInts(
      table, "Sign", [](int64_t v) { return int64_t{v > 0} - int64_t{v < 0}; },
      [](double v) { return AsBool(v > 0) - AsBool(v < 0); });
  AddUnary(table, "Floor", [](double v) { return std::floor(v); });
  AddUnary(table, "Ceil", [](double v) { return std::ceil(v); });
  AddUnary(table, "Round", [](double v) { return std::nearbyint(v); });
  AddUnary(table, "Sqrt", [](double v) { return std::sqrt(v); });
  AddUnary(table, "Reciprocal", [](double v) { return 1 / v; });
  AddUnary(table, "Exp", [](double v) { return std::exp(v); });
  AddUnary(table, "Log", [](double v) { return std::log(v); });
  AddUnary(table, "Relu", [](double v) { return v > 0 ? v : 0; });
  AddUnary(table, "Sigmoid", [](double v) { return 1 / (1 + std::exp(-v)); });
  AddUnary(table, "Tanh", [](double v) { return std::tanh(v); });
  AddUnary(table, "Sin", [](double v) { return std::sin(v); });
  AddUnary(table, "Cos", [](double v) { return std::cos(v); });
  AddReductions(table);
  for (auto& entry : *table) entry.second = Wrapping(std::move(entry.second));
}

}  // namespace crema
