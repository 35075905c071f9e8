// Writes layers of Caffe's forks with layers of Crema. Each function is for one type; the comment
// names the file of the fork that it follows.
#include "format/fork_rewrites.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/upgrade.h"

namespace crema {
namespace {

// The layers that stand for one layer of a fork. Blob "@0" is its first bottom, "=0" its first top;
// the others lie between the parts, and a part is named after its first top. One part, the last if
// `main` does not name another, keeps the name, parameters, weights and other fields of the layer.
struct ForkParts {
  std::vector<LayerParameter> layers;
  int main = -1;

  // Appends a layer; bottoms and tops are separated by spaces. The result is valid until the next
  // call.
  LayerParameter& Add(std::string_view type, std::string_view bottoms, std::string_view tops) {
    LayerParameter& part = layers.emplace_back();
    part.set_type(std::string(type));
    for (const std::string& blob : Split(bottoms, ' ')) {
      if (!blob.empty()) part.add_bottom(blob);
    }
    for (const std::string& blob : Split(tops, ' ')) part.add_top(blob);
    return part;
  }
};

bool IsOfLayer(const std::string& blob) { return blob[0] == '@' || blob[0] == '='; }

int IndexOf(const std::string& blob) { return std::atoi(blob.c_str() + 1); }

std::string BlobName(const LayerParameter& layer, const std::string& blob) {
  if (!IsOfLayer(blob)) return StrCat(layer.name(), "/", blob);
  return blob[0] == '@' ? layer.bottom(IndexOf(blob)) : layer.top(IndexOf(blob));
}

// Appends "0 1 2 ..." with a prefix.
std::string Numbered(std::string_view prefix, int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(StrCat(prefix, i));
  return Join(names, " ");
}

// A blob of ones with the items and channels of bottom 0, of a shape that is not known here.
void AddOnes(ForkParts* parts, std::string_view bottom) {
  ReductionParameter* largest =
      parts->Add("Reduction", bottom, "largest").mutable_reduction_param();
  largest->set_operation(ReductionParameter::MAX);
  largest->set_axis(2);
  PowerParameter* one = parts->Add("Power", "largest", "ones").mutable_power_param();
  one->set_scale(0);
  one->set_shift(1);
}

// IntelCaffe, mkl_batch_norm_layer.cpp: scale and shift belong to it, even if no text says so.
bool MklBatchNorm(LayerParameter* layer, ForkParts* parts) {
  parts->Add("BatchNorm", "@0", "=0");
  BatchNormParameter* param = layer->mutable_batch_norm_param();
  if (!param->has_use_weight_bias()) param->set_use_weight_bias(true);
  return true;
}

// IntelCaffe, mn_activation_layer.cpp: exchanges between machines; one machine keeps what it has.
bool MnActivation(LayerParameter* layer, ForkParts* parts) {
  layer->clear_mn_activation_param();
  parts->Add("Split", "@0", "=0");
  return true;
}

// IntelCaffe, spatial_dropout_layer.cpp: x times 0 or 1 / (1 - ratio), drawn for each item and
// channel. It reads dropout_param, and not its own message.
bool SpatialDropout(LayerParameter* layer, ForkParts* parts) {
  if (layer->has_spatial_dropout_param()) return false;
  AddOnes(parts, "@0");
  *parts->Add("Dropout", "ones", "mask").mutable_dropout_param() = layer->dropout_param();
  parts->Add("Scale", "@0 mask", "=0").mutable_scale_param()->set_axis(0);
  layer->clear_dropout_param();
  return true;
}

// Cambricon, crelu_layer.cpp: ReLU of x and of -x along an axis.
bool CReLU(LayerParameter* layer, ForkParts* parts) {
  const CReLUParameter param = layer->crelu_param();
  parts->Add("Power", "@0", "negative").mutable_power_param()->set_scale(-1);
  ConcatParameter* concat = parts->Add("Concat", "@0 negative", "both").mutable_concat_param();
  concat->set_axis(param.concat_axis());
  ReLUParameter* relu = parts->Add("ReLU", "both", "=0").mutable_relu_param();
  relu->set_negative_slope(param.negative_slope());
  layer->clear_crelu_param();
  return true;
}

// OpenVINO's training_toolbox_caffe, grn_layer.cpp: x / sqrt(bias + sum over channels of x^2).
bool Grn(LayerParameter* layer, ForkParts* parts) {
  const GRNParameter param = layer->grn_param();
  if (param.dummy_backward() || param.bias() < 0) return false;
  ReductionParameter* squares = parts->Add("Reduction", "@0", "squares").mutable_reduction_param();
  squares->set_operation(ReductionParameter::SUMSQ);
  squares->add_axes(1);
  squares->set_keep_dims(true);
  PowerParameter* factor = parts->Add("Power", "squares", "factor").mutable_power_param();
  factor->set_shift(param.bias());
  factor->set_power(-0.5F);
  parts->Add("Binary", "@0 factor", "=0")
      .mutable_binary_param()
      ->set_operation(BinaryParameter::MUL);
  layer->clear_grn_param();
  return true;
}

// FlowNet, channel_norm_layer.cpp: sqrt(sum over channels of x^2).
bool ChannelNorm(LayerParameter*, ForkParts* parts) {
  ReductionParameter* norm = parts->Add("Reduction", "@0", "=0").mutable_reduction_param();
  norm->set_operation(ReductionParameter::L2);
  norm->add_axes(1);
  norm->set_keep_dims(true);
  return true;
}

// A negative or huge pad would crop.
bool IsPad(int64_t pad) { return pad >= 0 && pad < 1 << 20; }

// Pads one axis of a blob that has four.
void PadOneAxis(int axis, int before, int after, PadParameter* pad) {
  pad->set_axis(axis);
  pad->add_pad_before(before);
  pad->add_pad_after(after);
  for (int rest = axis < 0 ? -axis - 1 : 3 - axis; rest > 0; --rest) {
    pad->add_pad_before(0);
    pad->add_pad_after(0);
  }
}

// MyCaffe, pad_channel_layer.cpp: channels of 0 after the others.
bool PadChannel(LayerParameter* layer, ForkParts* parts) {
  const auto count = static_cast<int>(layer->pad_channel_param().num_channels_to_pad());
  if (count <= 0 || !IsPad(count)) return false;
  PadOneAxis(1, 0, count, parts->Add("Pad", "@0", "=0").mutable_pad_param());
  layer->clear_pad_channel_param();
  return true;
}

// panoramic-object-detection, ring_pad_layer.cu. (Its .cpp reads a wrong size.)
bool RingPad(LayerParameter* layer, ForkParts* parts) {
  const RingPadParameter param = layer->ring_pad_param();
  if (param.axis() < -4 || param.axis() > 3 || !IsPad(param.pad())) return false;
  PadParameter* pad = parts->Add("Pad", "@0", "=0").mutable_pad_param();
  PadOneAxis(param.axis(), param.pad(), param.pad(), pad);
  pad->set_mode(PadParameter::WRAP);
  layer->clear_ring_pad_param();
  return true;
}

// sophgo's padding_layer.cpp and, with other field names, that of older ports. Their size tests are
// kept: `pad_h` counts if `pad` is 0, the four sides if both are.
bool Padding(LayerParameter* layer, ForkParts* parts) {
  const PaddingParameter param = layer->padding_param();
  if (param.pad_to_power_of_2() || param.pad_method() != PaddingParameter::CONSTANT) return false;
  for (const uint32_t pad : {param.pad(), param.pad_h(), param.pad_w(), param.pad_h_top(),
                             param.pad_h_bottom(), param.pad_w_left(), param.pad_w_right(),
                             param.pad_t(), param.pad_b(), param.pad_l(), param.pad_r()}) {
    if (!IsPad(pad)) return false;
  }
  const uint32_t rows = param.pad() > 0 ? param.pad() : param.pad_h();
  const uint32_t columns = param.pad() > 0 ? param.pad() : param.pad_w();
  const auto side = [](uint32_t both, uint32_t older, uint32_t own) {
    return static_cast<int>(own > 0 ? own : both > 0 ? both : older);
  };
  PadParameter* pad = parts->Add("Pad", "@0", "=0").mutable_pad_param();
  pad->set_axis(-2);
  pad->add_pad_before(side(rows, param.pad_h_top(), param.pad_t()));
  pad->add_pad_before(side(columns, param.pad_w_left(), param.pad_l()));
  pad->add_pad_after(side(rows, param.pad_h_bottom(), param.pad_b()));
  pad->add_pad_after(side(columns, param.pad_w_right(), param.pad_r()));
  pad->set_value(static_cast<float>(param.pad_value()));
  layer->clear_padding_param();
  return true;
}

// yjxiong's batch_reduction_layer.cpp: sums or means of groups of level^2 elements along an axis; a
// single level 1 takes the whole axis, and the axis goes.
bool BatchReduction(LayerParameter* layer, ForkParts* parts) {
  const BatchReductionParameter param = layer->batch_reduction_param();
  const auto operation = param.reduction_param().operation();
  const int axis = param.reduction_param().axis(), levels = param.level_size();
  const bool folds = operation == ReductionParameter::SUM || operation == ReductionParameter::MEAN;
  const bool sized = levels <= 1024 && std::ranges::all_of(param.level(), [](int level) {
                       return level > 0 && level <= 1024;  // so that their squares and sums fit
                     });
  ReductionParameter others = param.reduction_param();
  others.clear_operation();
  others.clear_axis();
  if (param.pos() || !folds || !sized || others.ByteSizeLong() > 0) return false;
  const auto reduce = [&](const std::string& bottom, const std::string& top, bool keep) {
    ReductionParameter* reduction = parts->Add("Reduction", bottom, top).mutable_reduction_param();
    reduction->set_operation(operation);
    reduction->add_axes(axis);
    reduction->set_keep_dims(keep);
  };
  layer->clear_batch_reduction_param();
  if (levels == 0 || (levels == 1 && param.level(0) == 1)) {
    reduce("@0", "=0", false);
    return true;
  }
  // A Reshape to the size that the axis must have.
  ReshapeParameter* size = parts->Add("Reshape", "@0", "whole").mutable_reshape_param();
  size->set_axis(axis < 0 ? axis - 1 : axis);
  size->set_num_axes(1);
  int64_t total = 0;
  for (const int64_t level : param.level()) total += level * level;
  size->mutable_shape()->add_dim(total);
  if (levels == 1) {
    reduce("whole", "=0", true);
    return true;
  }
  SliceParameter* slice =
      parts->Add("Slice", "whole", Numbered("group", levels)).mutable_slice_param();
  slice->set_axis(axis);
  uint32_t at = 0;
  for (int i = 0; i + 1 < levels; ++i) {
    at += static_cast<uint32_t>(param.level(i) * param.level(i));
    slice->add_slice_point(at);
  }
  for (int i = 0; i < levels; ++i) reduce(StrCat("group", i), StrCat("folded", i), true);
  parts->Add("Concat", Numbered("folded", levels), "=0").mutable_concat_param()->set_axis(axis);
  return true;
}

// OpenVINO's training_toolbox_caffe, prior_box_clustered_layer.cpp: only boxes of width x height.
bool PriorBoxClustered(LayerParameter* layer, ForkParts* parts) {
  const PriorBoxParameter& param = layer->prior_box_param();
  if (param.min_size_size() > 0 || param.width_size() == 0 ||
      param.width_size() != param.height_size()) {
    return false;
  }
  parts->Add("PriorBox", "@0 @1", "=0");
  return true;
}

// yjxiong's sync_bn_layer.cu.
bool SyncBn(LayerParameter* layer, ForkParts* parts) {
  if (layer->bn_param().frozen()) return false;
  parts->Add("BN", "@0", "=0");
  return true;
}

// Two layers of this name: one takes its size from a second bottom, the other has a factor.
bool BilinearInterpolation(LayerParameter* layer, ForkParts* parts) {
  const uint32_t factor = layer->bilinear_interpolation_param().interpolation_factor();
  if ((layer->bottom_size() == 1) != (factor > 0)) return false;
  if (factor == 0) {
    parts->Add("Interp", "@0 @1", "=0");
  } else {
    ResizeLayerParameter* resize = parts->Add("Resize", "@0", "=0").mutable_resize_param();
    resize->set_height_scale(static_cast<float>(factor));
    resize->set_width_scale(static_cast<float>(factor));
    resize->set_align_corners(true);
  }
  layer->clear_bilinear_interpolation_param();
  return true;
}

// FlowNet, mean_layer.cpp: output_scale (input_scale x +- mean_scale value[c mod values]).
bool Mean(LayerParameter* layer, ForkParts* parts) {
  const MeanParameter param = layer->mean_param();
  const int values = param.value_size();
  if (param.has_file() || values == 0) return false;
  const float factor = param.output_scale() * param.input_scale();
  const float mean_factor = param.output_scale() * param.mean_scale() *
                            (param.operation() == MeanParameter::SUBTRACT ? -1.0F : 1.0F);
  layer->clear_mean_param();
  if (values > 1) {
    DummyDataParameter* data =
        parts->Add("DummyData", "", Numbered("value", values)).mutable_dummy_data_param();
    data->add_shape()->add_dim(1);
    for (const float value : param.value()) data->add_data_filler()->set_value(mean_factor * value);
    parts->Add("Concat", Numbered("value", values), "values").mutable_concat_param()->set_axis(0);
  }
  for (int i = 0; i < layer->bottom_size(); ++i) {
    const std::string scaled = values > 1 ? StrCat("scaled", i) : StrCat("=", i);
    PowerParameter* scale = parts->Add("Power", StrCat("@", i), scaled).mutable_power_param();
    scale->set_scale(factor);
    if (values == 1) scale->set_shift(mean_factor * param.value(0));
    if (values == 1) continue;
    ReshapeParameter* apart =
        parts->Add("Reshape", scaled, StrCat("groups", i)).mutable_reshape_param();
    apart->set_axis(1);
    apart->set_num_axes(1);
    apart->mutable_shape()->add_dim(-1);
    apart->mutable_shape()->add_dim(values);
    parts->Add("Bias", StrCat("groups", i, " values"), StrCat("sums", i))
        .mutable_bias_param()
        ->set_axis(2);
    ReshapeParameter* together =
        parts->Add("Reshape", StrCat("sums", i), StrCat("=", i)).mutable_reshape_param();
    together->set_axis(1);
    together->set_num_axes(2);
    together->mutable_shape()->add_dim(-1);
  }
  return true;
}

// FlowNet, lpq_loss_layer.cpp and .cu: places that are not a number count as 0.
bool LpqLoss(LayerParameter* layer, ForkParts* parts) {
  const LpqLossParameter param = layer->lpq_loss_param();
  if (param.p_size() != 1 || param.q_size() != 1 || param.normalize_by_num_entries() ||
      param.pq_episode_starts_at_iter_size() > 1) {
    return false;
  }
  const bool pair = layer->bottom_size() == 2;
  const std::string x = pair ? "difference" : "@0";
  if (pair) {
    EltwiseParameter* difference = parts->Add("Eltwise", "@0 @1", x).mutable_eltwise_param();
    difference->add_coeff(1);
    difference->add_coeff(-1);
  }
  parts->Add("Unary", x, "missing").mutable_unary_param()->set_operation(UnaryParameter::IS_NAN);
  parts->Add("DummyData", "", "zero").mutable_dummy_data_param()->add_shape()->add_dim(1);
  parts->Add("Where", "missing zero " + x, "known");
  parts->Add("AbsVal", "known", "sizes");
  PowerParameter* inner = parts->Add("Power", "sizes", "terms").mutable_power_param();
  inner->set_power(param.p(0));
  inner->set_shift(param.p_epsilon());
  ReductionParameter* channels =
      parts->Add("Reduction", "terms", "places").mutable_reduction_param();
  channels->set_operation(param.l2_prescale_by_channels() ? ReductionParameter::MEAN
                                                          : ReductionParameter::SUM);
  channels->add_axes(1);
  channels->set_keep_dims(true);
  PowerParameter* outer = parts->Add("Power", "places", "roots").mutable_power_param();
  outer->set_power(param.q(0));
  outer->set_shift(param.q_epsilon());
  parts->Add("Reduction", "roots", "items").mutable_reduction_param()->set_axis(1);
  parts->Add("Reduction", "items", "=0")
      .mutable_reduction_param()
      ->set_operation(ReductionParameter::MEAN);
  if (layer->loss_weight_size() == 0) layer->add_loss_weight(1);
  layer->clear_lpq_loss_param();
  return true;
}

// FlowNet, accum_layer.cpp: each bottom enlarged, corners on corners, to the size of the last.
bool Accum(LayerParameter* layer, ForkParts* parts) {
  const AccumParameter param = layer->accum_param();
  if (!param.have_reference() || param.has_top_height() || param.has_top_width() ||
      param.has_size_divisible_by()) {
    return false;
  }
  const int count = layer->bottom_size() - 1;
  for (int i = 0; i < count; ++i) {
    parts->Add("Interp", StrCat("@", i, " @", count), StrCat("enlarged", i));
  }
  parts->Add("Concat", Numbered("enlarged", count), "=0");
  layer->clear_accum_param();
  return true;
}

// caffe-lstm, lstm_layer.cpp: gates in the order of Caffe's LSTM; rows are steps x streams, and the
// weights of the state come before the bias. Without a second bottom each pass begins anew.
bool Lstm(LayerParameter* layer, ForkParts* parts) {
  const LSTMParameter param = layer->lstm_param();
  if (layer->blobs_size() == 3) {  // a weights file, which lacks the fields of this fork
    layer->mutable_blobs()->SwapElements(1, 2);
    parts->Add("LSTM", "@0", "=0");
    return true;
  }
  if (param.clipping_threshold() != 0 || !param.has_batch_size()) return false;
  const auto to_steps = [&](std::string_view bottom, std::string_view top, bool features) {
    ReshapeParameter* steps = parts->Add("Reshape", bottom, top).mutable_reshape_param();
    if (features) steps->set_num_axes(1);
    steps->mutable_shape()->add_dim(-1);
    steps->mutable_shape()->add_dim(param.batch_size());
  };
  to_steps("@0", "steps", true);
  if (layer->bottom_size() == 2) {
    to_steps("@1", "continues", false);
  } else {
    AddOnes(parts, "steps");
    PadParameter* shift = parts->Add("Pad", "ones", "continues").mutable_pad_param();
    shift->set_axis(0);  // a row of 0 before, and the last row goes
    for (const int rows : {1, 0}) {
      shift->add_pad_before(rows);
      shift->add_pad_after(-rows);
    }
  }
  parts->main = static_cast<int>(parts->layers.size());
  RecurrentParameter* recurrent =
      parts->Add("LSTM", "steps continues", "states").mutable_recurrent_param();
  recurrent->set_num_output(param.num_output());
  if (param.has_weight_filler()) *recurrent->mutable_weight_filler() = param.weight_filler();
  if (param.has_bias_filler()) *recurrent->mutable_bias_filler() = param.bias_filler();
  ReshapeParameter* rows = parts->Add("Reshape", "states", "=0").mutable_reshape_param();
  rows->set_num_axes(2);
  rows->mutable_shape()->add_dim(-1);
  while (layer->param_size() > 1 && layer->param_size() < 3) layer->add_param();
  if (layer->param_size() == 3) layer->mutable_param()->SwapElements(1, 2);
  layer->clear_lstm_param();
  return true;
}

constexpr int kAsManyTops = -1;
constexpr int kAnyCount = 1 << 20;

struct ForkRewrite {
  std::string_view type;
  // Appends the parts and removes from the layer what they hold. Returns false, and changes
  // nothing, if the layer has fields that the parts cannot express.
  bool (*write)(LayerParameter* layer, ForkParts* parts);
  int least_bottoms = 1;
  int most_bottoms = 1;
  int tops = 1;
  std::string_view difference = {};  // a warning
};

constexpr ForkRewrite kForkRewrites[] = {
    {"Accum", Accum, 2, kAnyCount},
    {"BatchReduction", BatchReduction},
    {"BilinearInterpolation", BilinearInterpolation, 1, 2},
    {"CReLU", CReLU},
    {"ChannelNorm", ChannelNorm},
    {"GRN", Grn},
    {"LpqLoss", LpqLoss, 1, 2},
    {"Lstm", Lstm, 1, 2},
    {"MKLBatchNorm", MklBatchNorm},
    {"Mean", Mean, 1, kAnyCount, kAsManyTops},
    {"MnActivation", MnActivation},
    {"PadChannel", PadChannel},
    {"Padding", Padding},
    {"PriorBoxClustered", PriorBoxClustered, 2, 2},
    {"RingPad", RingPad},
    {"SpatialDropout", SpatialDropout},
    {"SyncBN", SyncBn, 1, 1, 1,
     "SyncBN runs as BN: in TRAIN the statistics are those of one device, and x is divided by the "
     "root of its variance over m elements and not over m - 1; TEST is the same"},
};

const ForkRewrite* FindRewrite(std::string_view type) {
  const auto* const found = std::ranges::find(kForkRewrites, type, &ForkRewrite::type);
  return found == std::end(kForkRewrites) ? nullptr : found;
}

// Gives the parts the names, rules and fields of the layer, which is left empty.
void Complete(LayerParameter* layer, ForkParts* parts) {
  if (parts->main < 0) parts->main = static_cast<int>(parts->layers.size()) - 1;
  LayerParameter& main = parts->layers[static_cast<size_t>(parts->main)];
  for (LayerParameter& part : parts->layers) {
    if (&part != &main) {
      const std::string& top = part.top(0);
      part.set_name(StrCat(layer->name(), "/", IsOfLayer(top) ? StrCat("top", IndexOf(top)) : top));
      *part.mutable_include() = layer->include();
      *part.mutable_exclude() = layer->exclude();
      if (layer->has_phase()) part.set_phase(layer->phase());
    }
    for (std::string& bottom : *part.mutable_bottom()) {
      if (layer->propagate_down_size() > 0) {
        part.add_propagate_down(!IsOfLayer(bottom) ||
                                IndexOf(bottom) >= layer->propagate_down_size() ||
                                layer->propagate_down(IndexOf(bottom)));
      }
      bottom = BlobName(*layer, bottom);
    }
    for (std::string& top : *part.mutable_top()) top = BlobName(*layer, top);
  }
  layer->clear_bottom();
  layer->clear_top();
  layer->clear_propagate_down();
  layer->MergeFrom(main);
  main.Swap(layer);
}

// Returns no parts if the layer stays as it is.
ForkParts PartsOf(LayerParameter* layer) {
  ForkParts parts;
  const ForkRewrite* rewrite = FindRewrite(layer->type());
  if (rewrite == nullptr) return parts;
  const int tops = rewrite->tops == kAsManyTops ? layer->bottom_size() : rewrite->tops;
  if (layer->bottom_size() < rewrite->least_bottoms ||
      layer->bottom_size() > rewrite->most_bottoms || layer->top_size() != tops ||
      !rewrite->write(layer, &parts)) {
    return {};
  }
  Complete(layer, &parts);
  return parts;
}

}  // namespace

bool HasForkRewrite(std::string_view type) { return FindRewrite(type) != nullptr; }

void UpgradeForkLayers(NetParameter* net, SourceMap* source, std::vector<Problem>* warnings) {
  if (std::ranges::none_of(
          net->layer(), [](const LayerParameter& layer) { return HasForkRewrite(layer.type()); })) {
    return;
  }
  const int count = net->layer_size();
  google::protobuf::RepeatedPtrField<LayerParameter> layers;
  struct Span {
    int first;
    int main;
  };
  std::vector<Span> spans;
  std::set<std::string> told;
  for (int i = 0; i < count; ++i) {
    LayerParameter* layer = net->mutable_layer(i);
    const std::string type = layer->type();
    ForkParts parts = PartsOf(layer);
    spans.push_back({layers.size(), layers.size() + std::max(parts.main, 0)});
    if (parts.layers.empty()) {
      layers.Add()->Swap(layer);
      continue;
    }
    for (LayerParameter& part : parts.layers) layers.Add()->Swap(&part);
    const std::string_view difference = FindRewrite(type)->difference;
    if (difference.empty() || !told.insert(type).second) continue;
    Where where = source->Locate(StrCat("layer[", i, "].type"));
    where.layer = layers.Get(spans.back().main).name();
    warnings->push_back({ErrorCode::kUnsupported, std::move(where), std::string(difference)});
  }
  net->mutable_layer()->Swap(&layers);
  // All parts have the position of their layer. From the last layer on, since positions move up.
  for (int i = count - 1; i >= 0; --i) {
    const auto [first, main] = spans[static_cast<size_t>(i)];
    const int end = i + 1 < count ? spans[static_cast<size_t>(i) + 1].first : net->layer_size();
    const std::string from = StrCat("layer[", i, "]");
    const Where where = source->Locate(from);
    if (main != i) source->Move(from, StrCat("layer[", main, "]"));
    for (int part = first; part < end; ++part) {
      if (where.line > 0) source->Add(StrCat("layer[", part, "]"), {where.line, where.column});
    }
  }
}

}  // namespace crema
