#include "onnx/import_dialect.h"

#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/shape.h"
#include "core/strings.h"
#include "format/stock_caffe.h"
#include "graph/registry.h"
#include "onnx/import_graph.h"

namespace crema {
namespace {

using SetParam = std::function<void(LayerParameter*)>;

const char* NameOf(CaffeDialect dialect) {
  return dialect == CaffeDialect::kCaffe ? "Caffe 1.0" : "the SSD fork of Caffe";
}

SetParam PowerOf(float power, float scale, float shift) {
  return [=](LayerParameter* layer) {
    PowerParameter* param = layer->mutable_power_param();
    if (power != 1) param->set_power(power);
    if (scale != 1) param->set_scale(scale);
    if (shift != 0) param->set_shift(shift);
  };
}

SetParam EltwiseOf(EltwiseParameter::EltwiseOp operation) {
  return [=](LayerParameter* layer) { layer->mutable_eltwise_param()->set_operation(operation); };
}

class DialectWriter {
 public:
  DialectWriter(CaffeDialect dialect, const std::string& path)
      : ssd_(dialect == CaffeDialect::kSsd), dialect_(dialect), path_(path) {}

  void Convert(NetParameter* net) {
    NetParameter old;
    old.Swap(net);
    made_.set_name(old.name());
    for (const LayerParameter& layer : old.layer()) {
      names_.Add(layer.name());
      for (const std::string& top : layer.top()) names_.Add(top);
      was_read_.insert(layer.bottom().begin(), layer.bottom().end());
    }
    for (LayerParameter& layer : *old.mutable_layer()) Visit(&layer);
    if (!problems_.empty()) throw Error(std::move(problems_));
    RemoveUnreadTables();
    net->Swap(&made_);
  }

 private:
  // Adds a layer for `of`. Returns its top: a new one, or that of `of` if it is the last.
  std::string Step(const std::string& type, const std::vector<std::string>& bottoms,
                   const SetParam& set = {}, bool last = false) {
    LayerParameter* step = made_.add_layer();
    step->set_name(last ? of_->name() : names_.Add(StrCat(of_->name(), "/", type)));
    step->set_type(type);
    for (const std::string& bottom : bottoms) step->add_bottom(bottom);
    step->add_top(last ? of_->top(0) : step->name());
    if (set) set(step);
    return step->top(0);
  }

  void Last(const std::string& type, const std::vector<std::string>& bottoms,
            const SetParam& set = {}) {
    Step(type, bottoms, set, true);
  }

  const Shape& ShapeOf(int bottom) const { return shapes_.at(of_->bottom(bottom)); }

  // Limits values by two ReLU.
  std::string Limited(const std::string& x, float low, float high, bool last = false) {
    const bool has_high = std::isfinite(high);
    std::string value = x;
    float offset = 0;  // value = x - offset
    if (std::isfinite(low)) {
      if (low != 0) value = Step("Power", {value}, PowerOf(1, 1, -low));
      value = Step("ReLU", {value}, {}, last && !has_high && low == 0);
      if (!has_high && low == 0) return value;
      offset = low;
    }
    if (!has_high) return Step("Power", {value}, PowerOf(1, 1, offset), last);
    value = Step("ReLU", {Step("Power", {value}, PowerOf(1, -1, high - offset))});
    return Step("Power", {value}, PowerOf(1, -1, high), last);
  }

  // x * sigmoid(beta * x)
  void WriteSwish(float beta) {
    const std::string& x = of_->bottom(0);
    const std::string scaled = beta == 1 ? x : Step("Power", {x}, PowerOf(1, beta, 0));
    Last("Eltwise", {x, Step("Sigmoid", {scaled})}, EltwiseOf(EltwiseParameter::PROD));
  }

  bool WriteActivation() {
    const std::string& type = of_->type();
    const std::string& x = of_->bottom(0);
    if (type == "ReLU6" && of_->relu6_param().negative_slope() == 0) {
      Limited(x, 0, 6, true);
    } else if (type == "Clip") {
      const ClipParameter& clip = of_->clip_param();
      if (!std::isfinite(clip.min()) && !std::isfinite(clip.max())) return false;
      Limited(x, clip.min(), clip.max(), true);
    } else if (type == "HardSigmoid" || type == "HardSwish") {
      const HardSigmoidParameter& param = of_->hard_sigmoid_param();
      const std::string line = Step("Power", {x}, PowerOf(1, param.alpha(), param.beta()));
      const bool product = type == "HardSwish";
      const std::string gate = Limited(line, 0, 1, !product);
      if (product) Last("Eltwise", {x, gate}, EltwiseOf(EltwiseParameter::PROD));
    } else if (type == "SiLU") {
      WriteSwish(1);
    } else if (type == "CheckWhole") {
      Last("Power", {x});
    } else if (type == "Swish") {
      WriteSwish(of_->swish_param().beta());
    } else if (type == "Mish") {
      Last("Eltwise", {x, Step("TanH", {Step("BNLL", {x})})}, EltwiseOf(EltwiseParameter::PROD));
    } else {
      return false;
    }
    return true;
  }

  bool WriteUnary() {
    const std::string& x = of_->bottom(0);
    switch (of_->unary_param().operation()) {
      case UnaryParameter::NEGATIVE:
        Last("Power", {x}, PowerOf(1, -1, 0));
        return true;
      case UnaryParameter::RECIPROCAL:
        Last("Power", {x}, PowerOf(-1, 1, 0));
        return true;
      case UnaryParameter::SQRT:
        Last("Power", {x}, PowerOf(0.5F, 1, 0));
        return true;
      case UnaryParameter::SOFTPLUS:
        Last("BNLL", {x});
        return true;
      default:
        return false;
    }
  }

  bool WriteBinary() {
    if (of_->bottom_size() != 2 || ShapeOf(0) != ShapeOf(1)) return false;
    const std::string& a = of_->bottom(0);
    const std::string& b = of_->bottom(1);
    switch (of_->binary_param().operation()) {
      case BinaryParameter::MAX:
        Last("Eltwise", {a, b}, EltwiseOf(EltwiseParameter::MAX));
        return true;
      case BinaryParameter::DIV:
        Last("Eltwise", {a, Step("Power", {b}, PowerOf(-1, 1, 0))},
             EltwiseOf(EltwiseParameter::PROD));
        return true;
      default:
        return false;
    }
  }

  void Reshape(const std::string& x, const Shape& shape) {
    Last("Reshape", {x}, [&](LayerParameter* layer) {
      auto* dims = layer->mutable_reshape_param()->mutable_shape();
      for (const int64_t dim : shape.dims()) dims->add_dim(dim);
    });
  }

  // Caffe reduces all axes from one on, and drops them.
  bool WriteReduction(const Shape& top) {
    const ReductionParameter& param = of_->reduction_param();
    const int axes = ShapeOf(0).axes();
    if (param.axes_size() == 0 || param.operation() > ReductionParameter::MEAN) return false;
    std::vector<bool> reduced(static_cast<size_t>(axes), false);
    for (const int axis : param.axes()) {
      reduced[static_cast<size_t>(axis < 0 ? axis + axes : axis)] = true;
    }
    int first = axes;
    while (first > 0 && reduced[static_cast<size_t>(first) - 1]) --first;
    for (int i = 0; i < first; ++i) {
      if (reduced[static_cast<size_t>(i)]) return false;
    }
    const bool keep = param.keep_dims();
    const std::string value = Step(
        "Reduction", {of_->bottom(0)},
        [&](LayerParameter* layer) {
          *layer->mutable_reduction_param() = param;
          layer->mutable_reduction_param()->clear_axes();
          layer->mutable_reduction_param()->clear_keep_dims();
          layer->mutable_reduction_param()->set_axis(first);
        },
        !keep);
    if (keep) Reshape(value, top);
    return true;
  }

  // A cut of one axis is a part of Slice; the others are not read.
  bool WriteCut() {
    const StridedSliceParameter& param = of_->strided_slice_param();
    const bool plain = param.step_size() == 0 || (param.step_size() == 1 && param.step(0) == 1);
    if (!plain || param.axes_size() != 1 || param.start_size() != 1) return false;
    const int axis = param.axes(0) < 0 ? param.axes(0) + ShapeOf(0).axes() : param.axes(0);
    const int64_t size = ShapeOf(0)[axis];
    const int64_t start = param.start(0);
    const int64_t end = param.end(0);
    if (start < 0 || end <= start || end > size || (start == 0 && end == size)) return false;
    Cut(of_->bottom(0), axis, start, end, size, true);
    return true;
  }

  // Requires: not the whole axis.
  std::string Cut(const std::string& x, int axis, int64_t start, int64_t end, int64_t size,
                  bool last) {
    std::vector<std::string> rest;
    LayerParameter* slice = made_.add_layer();
    slice->set_name(last ? of_->name() : names_.Add(StrCat(of_->name(), "/Slice")));
    slice->set_type("Slice");
    slice->add_bottom(x);
    slice->mutable_slice_param()->set_axis(axis);
    const auto add_rest = [&] {
      rest.push_back(names_.Add(StrCat(of_->name(), "/rest")));
      slice->add_top(rest.back());
    };
    if (start > 0) add_rest();
    if (start > 0) slice->mutable_slice_param()->add_slice_point(static_cast<uint32_t>(start));
    const std::string part = last ? of_->top(0) : slice->name();
    slice->add_top(part);
    if (end < size) add_rest();
    if (end < size) slice->mutable_slice_param()->add_slice_point(static_cast<uint32_t>(end));
    LayerParameter* silence = made_.add_layer();
    silence->set_name(names_.Add(StrCat(of_->name(), "/Silence")));
    silence->set_type("Silence");
    for (const std::string& top : rest) silence->add_bottom(top);
    return part;
  }

  // Channels in groups change places by Permute.
  bool WriteShuffle(const Shape& top) {
    const int64_t groups = of_->shuffle_channel_param().group();
    if (!ssd_ || top.axes() < 2 || groups < 1) return false;
    const std::string apart = Step("Reshape", {of_->bottom(0)}, [&](LayerParameter* layer) {
      auto* dims = layer->mutable_reshape_param()->mutable_shape();
      for (const int64_t dim : {top[0], groups, top[1] / groups, top.count(2)}) {
        dims->add_dim(dim);
      }
    });
    const std::string swapped = Step("Permute", {apart}, [](LayerParameter* layer) {
      for (const uint32_t axis : {0, 2, 1, 3}) layer->mutable_permute_param()->add_order(axis);
    });
    Reshape(swapped, top);
    return true;
  }

  // Enlarges planes by a whole factor: a transposed convolution of each channel with ones.
  bool WriteUpsample(const Shape& top) {
    const Shape& x = ShapeOf(0);
    if (of_->bottom_size() != 1 || x.axes() != 4 || x.count() == 0) return false;
    const int64_t down = top[2] / x[2];
    const int64_t across = top[3] / x[3];
    if (down * x[2] != top[2] || across * x[3] != top[3]) return false;
    Last("Deconvolution", {of_->bottom(0)}, [&](LayerParameter* layer) {
      ConvolutionParameter* param = layer->mutable_convolution_param();
      const auto channels = static_cast<uint32_t>(x[1]);
      param->set_num_output(channels);
      param->set_group(channels);
      param->set_bias_term(false);
      param->set_kernel_h(static_cast<uint32_t>(down));
      param->set_kernel_w(static_cast<uint32_t>(across));
      param->set_stride_h(static_cast<uint32_t>(down));
      param->set_stride_w(static_cast<uint32_t>(across));
      BlobProto* ones = layer->add_blobs();
      for (const int64_t dim : {x[1], int64_t{1}, down, across}) {
        ones->mutable_shape()->add_dim(dim);
      }
      ones->mutable_data()->Resize(static_cast<int>(x[1] * down * across), 1.0F);
    });
    return true;
  }

  // Caffe rounds sizes up. If that gives more windows, the last ones are cut off.
  bool WritePooling(const Shape& top) {
    LayerParameter pooling = *of_;
    if (pooling.pooling_param().round_mode() != PoolingParameter::FLOOR) return false;
    if (top.axes() != 4 || pooling.top_size() != 1) return false;
    pooling.mutable_pooling_param()->clear_round_mode();
    std::map<std::string, Shape> before = shapes_;
    const Shape rounded = Infer(pooling)[0];
    shapes_ = std::move(before);
    int cuts = static_cast<int>(rounded[2] != top[2]) + static_cast<int>(rounded[3] != top[3]);
    std::string value = Step(
        "Pooling", {of_->bottom(0)},
        [&](LayerParameter* layer) { *layer->mutable_pooling_param() = pooling.pooling_param(); },
        cuts == 0);
    for (const int axis : {2, 3}) {
      if (rounded[axis] == top[axis]) continue;
      value = Cut(value, axis, 0, top[axis], rounded[axis], --cuts == 0);
    }
    return true;
  }

  // Rows of a constant matrix: Embed holds it. Caffe does not count negative indices from the end.
  bool WriteGather() {
    const GatherParameter& param = of_->gather_param();
    const bool rows = param.mode() == GatherParameter::AXIS && param.axis() == 0;
    const auto table = tables_.find(of_->bottom(0));
    if (!rows || ShapeOf(0).axes() != 2 || table == tables_.end()) return false;
    Last("Embed", {of_->bottom(1)}, [&](LayerParameter* layer) {
      EmbedParameter* embed = layer->mutable_embed_param();
      embed->set_input_dim(static_cast<uint32_t>(ShapeOf(0)[0]));
      embed->set_num_output(static_cast<uint32_t>(ShapeOf(0)[1]));
      embed->set_bias_term(false);
      *layer->mutable_blobs() = made_.layer(table->second).blobs();
    });
    return true;
  }

  // Removes the matrices that Embed holds now.
  void RemoveUnreadTables() {
    std::set<std::string> reads;
    for (const LayerParameter& layer : made_.layer()) {
      reads.insert(layer.bottom().begin(), layer.bottom().end());
    }
    for (const auto& [top, place] : tables_) {
      if (was_read_.contains(top) && !reads.contains(top)) made_.mutable_layer(place)->clear_type();
    }
    google::protobuf::RepeatedPtrField<LayerParameter> kept;
    for (LayerParameter& layer : *made_.mutable_layer()) {
      if (layer.has_type()) kept.Add()->Swap(&layer);
    }
    kept.Swap(made_.mutable_layer());
  }

  // Returns the shapes of the tops and remembers them.
  std::vector<Shape> Infer(const LayerParameter& layer) {
    std::vector<BlobSpec> inputs;
    for (const std::string& bottom : layer.bottom()) inputs.push_back({shapes_.at(bottom)});
    const LayerType* type = registry_.Find(layer.type());
    CREMA_CHECK(type != nullptr);
    const LayerInfo info =
        type->make(layer)->Infer({.phase = TEST,
                                  .inputs = inputs,
                                  .output_count = static_cast<size_t>(layer.top_size()),
                                  .dtype = DType::kF32});
    std::vector<Shape> tops;
    for (int i = 0; i < layer.top_size(); ++i) {
      tops.push_back(info.outputs[static_cast<size_t>(i)].shape);
      shapes_[layer.top(i)] = tops.back();
    }
    return tops;
  }

  bool Write(const std::vector<Shape>& tops) {
    const std::string& type = of_->type();
    if (type == "Unary") return WriteUnary();
    if (type == "Binary") return WriteBinary();
    if (type == "Reduction") return WriteReduction(tops[0]);
    if (type == "StridedSlice") return WriteCut();
    if (type == "ShuffleChannel") return WriteShuffle(tops[0]);
    if (type == "Gather") return WriteGather();
    if (type == "Upsample") return WriteUpsample(tops[0]);
    if (type == "Pooling") return WritePooling(tops[0]);
    return of_->bottom_size() == 1 && WriteActivation();
  }

  void Visit(LayerParameter* layer) {
    google::protobuf::RepeatedPtrField<BlobProto> blobs;
    blobs.Swap(layer->mutable_blobs());
    of_ = layer;
    const std::vector<Shape> tops = Infer(*layer);
    if (Write(tops)) return;
    Check(*layer);
    blobs.Swap(layer->mutable_blobs());
    if (layer->type() == "Parameter") tables_[layer->top(0)] = made_.layer_size();
    made_.add_layer()->Swap(layer);
  }

  // Reports everything that keeps a layer from being read.
  void Check(const LayerParameter& layer) {
    std::vector<std::string> reasons;
    NetParameter alone;
    *alone.add_layer() = layer;
    if (ssd_ && layer.type() == "Permute") {
      alone.mutable_layer(0)->set_type("Split");
      alone.mutable_layer(0)->clear_permute_param();
    }
    for (const Problem& problem : FindNotStock(alone, {})) {
      if (!reasons.empty() && !IsStockLayerType(layer.type()))
        break;  // its fields go without saying
      std::string reason = problem.message;
      constexpr std::string_view kStock = "Caffe 1.0";
      if (reason.starts_with(kStock)) reason.replace(0, kStock.size(), NameOf(dialect_));
      reasons.push_back(std::move(reason));
    }
    if ((layer.type() == "Pooling" || layer.type() == "LRN") && ShapeOf(0).axes() != 4) {
      reasons.push_back(StrCat("its input is ", ToString(ShapeOf(0)), ", but ", NameOf(dialect_),
                               " takes 4 axes"));
    }
    if (reasons.empty()) return;
    problems_.push_back({ErrorCode::kUnsupported,
                         {.file = path_, .layer = layer.name()},
                         StrCat("becomes a layer ", layer.type(), ": ", Join(reasons, "; "))});
  }

  const bool ssd_;
  const CaffeDialect dialect_;
  const std::string& path_;
  const Registry registry_ = BuiltinRegistry();
  NetParameter made_;
  UniqueNames names_;
  std::map<std::string, Shape> shapes_;
  std::map<std::string, int> tables_;  // places of Parameter layers, by top
  std::set<std::string> was_read_;     // blobs that the given net reads
  const LayerParameter* of_ = nullptr;
  std::vector<Problem> problems_;
};

}  // namespace

CaffeDialect ParseCaffeDialect(const std::string& name) {
  if (name == "caffe") return CaffeDialect::kCaffe;
  if (name == "ssd") return CaffeDialect::kSsd;
  Fail(ErrorCode::kInvalidArgument, StrCat("--dialect: '", name, "' is not caffe or ssd"));
}

void ConvertToDialect(CaffeDialect dialect, const std::string& path, NetParameter* net) {
  DialectWriter(dialect, path).Convert(net);
}

}  // namespace crema
