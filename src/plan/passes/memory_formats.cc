#include "plan/passes/memory_formats.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/gradient_flow.h"
#include "graph/infer.h"
#include "plan/copy_cost.h"
#include "plan/layer_query.h"
#include "plan/passes/fusable_chain.h"
#include "plan/passes/keep_integers_f32.h"
#include "plan/passes/set_formats.h"
#include "plan/precision.h"

namespace crema {
namespace {

constexpr double kReorderSeconds = 2e-6;  // to start one reorder
// Measured times include forward and backward, estimates only forward; backward takes about twice
// as long. Each reorder runs once more for the gradient.
constexpr double kPassesOfTraining = 3;
// Decides between equal times: followers keep the format of their leader, and take bytes only if
// it writes bytes.
constexpr double kFollowerSeconds = 1e-9;
constexpr double kImpossibleSeconds = 1e6;
constexpr double kWorthwhile = 0.97;  // two measurements of a net differ by a percent or two

constexpr MemoryFormat kBlocked{Layout::kBlocked}, kBlockedBF16{Layout::kBlocked, DType::kBF16};
constexpr MemoryFormat kInt8{Layout::kNHWC, DType::kU8}, kLastBF16{Layout::kNHWC, DType::kBF16};

// One way to run a node.
struct Choice {
  NodeFormats formats = {};
  double seconds = 0;
  std::vector<int> followers = {};  // nodes that this choice fuses
  bool plain() const { return formats == NodeFormats{}; }
};

bool HasWholeBlocks(const BlobSpec& spec) {
  return spec.shape.axes() == 4 && spec.shape[1] % ChannelBlock() == 0 && spec.dtype == DType::kF32;
}

bool HasPixels(std::span<const BlobSpec> specs) {
  return std::ranges::all_of(specs, [](const BlobSpec& spec) {
    return spec.shape.axes() == 4 && spec.dtype == DType::kF32;
  });
}

// Returns true for a layer on the CPU whose own methods take channels-last blobs: it works on
// elements, in any order, or reads none.
bool TakesPixels(const LayerInfo& info, std::span<const BlobSpec> inputs) {
  return info.any_format && (info.reach == Reach::kElement || info.share || info.view) &&
         HasPixels(inputs) && HasPixels(info.outputs);
}

// Returns true for a layer that reads no element, so bytes suit it as well as floats.
bool PassesOn(const LayerInfo& info) { return info.any_format && (info.share || info.view); }

class Chooser {
 public:
  Chooser(Graph* graph, const Registry& registry, const ImplementationTimes& times,
          const PlanOptions& options)
      : graph_(*graph),
        registry_(registry),
        times_(times),
        options_(options),
        // Estimates must not depend on the threads if plans are to be the same everywhere.
        threads_(options.deterministic ? 1 : options.threads) {
    if (options.backward && !times.empty()) {
      estimate_scale_ = kPassesOfTraining;
      reorder_scale_ = 2;
    }
    infos_ =
        InferShapes(graph_, {.dtype = options.dtype, .rank = options.rank, .world = options.world});
    specs_.resize(graph_.values.size());
    is_fused_.resize(graph_.values.size());
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const std::vector<int>& outputs = graph_.nodes[n].outputs;
      for (size_t o = 0; o < outputs.size(); ++o) specs_[Index(outputs[o])] = infos_[n].outputs[o];
    }
    flow_ = options.backward ? ComputeGradientFlow(graph_, infos_) : NoGradients(graph_);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) choices_.push_back(ChoicesOf(n));
    DropUnusedChannelsLast();
    for (size_t n = 0; n < graph_.nodes.size(); ++n) ChargeFollowers(n);
  }

  // Searches for formats. Returns false if no implementation writes a format other than plain.
  bool Search() {
    const bool any = std::ranges::any_of(choices_, [](const std::vector<Choice>& choices) {
      return std::ranges::any_of(choices,
                                 [](const Choice& c) { return c.formats.out != MemoryFormat{}; });
    });
    if (!any) return false;
    chosen_.assign(choices_.size(), 0);  // plain
    Improve();
    std::vector<size_t> best = chosen_;
    double least = Total();
    const auto improve = [&] {
      Improve();
      const double total = Total();
      if (total >= least) return;
      least = total;
      best = chosen_;
    };
    for (const bool follow : {true, false}) {
      Start(follow);
      improve();
    }
    // Changes of single nodes cannot cross from one format to another in the middle of a net.
    for (const Layout layout : {Layout::kBlocked, Layout::kNCHW, Layout::kNHWC}) {
      for (const auto type :
           {std::optional<DType>(), {DType::kBF16}, {DType::kF16}, {DType::kU8}}) {
        const MemoryFormat format{layout, type};
        if (format != MemoryFormat{} && StartIn(format)) improve();
      }
    }
    chosen_ = std::move(best);
    return true;
  }

  // Replaces formats found from measured times by estimated ones, unless they are clearly faster.
  void PreferThoseOf(const Chooser& estimated) {
    const double seconds = Total();
    const std::vector<size_t> found = chosen_;
    for (size_t n = 0; n < choices_.size(); ++n) {
      const Choice& choice = estimated.ChosenOf(n);
      const int same = choice.plain() ? 0 : FindChoice(choices_[n], choice.formats);
      if (same >= 0) chosen_[n] = static_cast<size_t>(same);
    }
    if (seconds < Total() * kWorthwhile) chosen_ = found;
  }

  void Apply() {
    std::vector<NodeFormats> formats;
    for (size_t n = 0; n < choices_.size(); ++n) formats.push_back(ChosenOf(n).formats);
    KeepIntegersF32(graph_, infos_, &formats);
    SetFormats(formats, registry_, &graph_);
  }

  // For FusableChain.
  ChainLayer LayerAt(int n) const {
    const Node& node = graph_.nodes[Index(n)];
    const GradientFlow::OfNode& flow = flow_.nodes[Index(n)];
    return {.layer = *node.layer,
            .info = infos_[Index(n)],
            .inputs = node.inputs,
            .outputs = node.outputs,
            .backward = flow.backward,
            .to_input = flow.to_input,
            .recompute = options_.backward && node.layer->param().recompute()};
  }
  const BlobSpec& SpecOf(int v) const { return specs_[Index(v)]; }
  int ProducerOf(int v) const { return graph_.values[Index(v)].producer; }
  int SoleConsumer(int v) const {
    const Value& value = graph_.values[Index(v)];
    return value.readers.size() == 1 && value.loss_weight == 0 ? value.readers[0] : -1;
  }

 private:
  double CopySeconds(BlobSpec spec, MemoryFormat format) const {
    const bool fits = format.layout != Layout::kBlocked || spec.shape.axes() == 4;
    spec.format = fits ? format : MemoryFormat{};
    return crema::CopySeconds(std::span(&spec, 1), threads_);
  }

  double CopySeconds(std::span<const BlobSpec> specs, MemoryFormat format) const {
    double seconds = 0;
    for (const BlobSpec& spec : specs) seconds += CopySeconds(spec, format);
    return seconds;
  }

  // Returns the seconds of the products of a layer on a GPU. Those on the CPU are part of the
  // estimates of implementations.
  double ProductSeconds(const LayerInfo& info, const Implementation& implementation,
                        Precision precision) const {
    if (!OnGpu()) return 0;
    const bool halves = implementation.input_format.type.has_value();
    const double rate = halves              ? kGpuHalfMacsPerByte
                        : precision == TF32 ? kGpuTf32MacsPerByte
                                            : kGpuMacsPerByte;
    return static_cast<double>(info.macs) / (rate * kCopyBytesPerSecond * threads_);
  }

  static size_t Index(int i) { return static_cast<size_t>(i); }

  // Returns the choices of node n, the plain one first.
  std::vector<Choice> ChoicesOf(size_t n) const {
    const Node& node = graph_.nodes[n];
    const LayerInfo& info = infos_[n];
    std::vector<BlobSpec> inputs;
    for (int v : node.inputs) inputs.push_back(specs_[Index(v)]);
    const auto moved = [&](MemoryFormat in, MemoryFormat out) {
      if (info.view || info.share) return 0.0;
      return CopySeconds(inputs, in) + CopySeconds(info.outputs, out);
    };
    std::vector<Choice> choices{{.seconds = moved({}, {}) * estimate_scale_}};
    if (node.inputs.empty()) return choices;
    const InferContext context = ContextOf(*node.layer, inputs, node.outputs.size(), options_);
    OpDesc query = QueryOf(*node.layer, context, info, options_);
    query.backward = flow_.nodes[n].backward;
    query.to_input = std::ranges::count(flow_.nodes[n].to_input, true) > 0;
    OpDesc timed = query;
    timed.threads = threads_;
    bool has_plain = false;
    // Channels last is for tensor cores, which do not multiply unrounded f32.
    const bool last = query.precision == TF32;
    for (const ImplementationPtr& implementation : node.type->implementations) {
      if (!MayUse(*implementation, *node.layer, options_)) continue;
      Choice choice{{implementation->input_format, implementation->output_format,
                     implementation->plain_later_inputs}};
      const NodeFormats& formats = choice.formats;
      if (formats.in == MemoryFormat{Layout::kNHWC} && !last) continue;
      if (!implementation->Supports(query).yes) continue;
      const std::optional<double> measured = times_.SecondsOf(*node.layer, *implementation);
      if (times_.Has(*node.layer) && !measured) continue;
      const double estimate =
          implementation->Seconds(timed).value_or(moved(formats.in, formats.out)) +
          ProductSeconds(info, *implementation, query.precision);
      choice.seconds = measured.value_or(estimate * estimate_scale_);
      if (options_.passes.fuse) {
        choice.followers =
            FusableChain(*this, static_cast<int>(n), *implementation, query, options_);
      }
      const int same = choice.plain() ? 0 : FindChoice(choices, formats);
      if (choice.plain() && !std::exchange(has_plain, true)) {
        choices[0] = choice;
      } else if (same < 0) {
        choices.push_back(choice);
      } else if (measured) {
        double& seconds = choices[static_cast<size_t>(same)].seconds;
        seconds = std::min(seconds, choice.seconds);
      }
    }
    // Any other format is better than a format that the pinned implementation lacks.
    if (!has_plain && IsPinned(*node.layer, options_)) choices[0].seconds = kImpossibleSeconds;
    if (OnGpu()) return WithViewsOfHalves(node, info, std::move(choices));
    AddAnyFormats(n, query, inputs, &choices);
    return choices;
  }

  // Adds the formats that the methods of the layer take besides plain, on the CPU.
  void AddAnyFormats(size_t n, const OpDesc& query, std::span<const BlobSpec> inputs,
                     std::vector<Choice>* choices) const {
    const LayerInfo& info = infos_[n];
    const auto add = [&](MemoryFormat format) {
      const bool passes = info.view || info.share;
      const double seconds =
          passes ? 0 : CopySeconds(inputs, format) + CopySeconds(info.outputs, format);
      choices->push_back({{format, format}, seconds * estimate_scale_});
    };
    const bool halves = StoresBFloat16(query).yes;
    if (info.any_format && std::ranges::all_of(inputs, HasWholeBlocks) &&
        std::ranges::all_of(info.outputs, HasWholeBlocks)) {
      add(kBlocked);
      if (halves) add(kBlockedBF16);
    }
    if (halves && TakesPixels(info, inputs)) add(kLastBF16);
    if (PassesOn(info) && HasPixels(inputs) && !flow_.nodes[n].backward &&
        KeepsInt8Range(graph_, graph_.nodes[n])) {
      choices->push_back({{kInt8, kInt8}});
    }
  }

  // Channels last bfloat16 is for products that are faster on it. Without one, layers that take any
  // format must not choose it.
  void DropUnusedChannelsLast() {
    if (OnGpu()) return;
    const auto uses = [](const Choice& choice) { return choice.formats.out == kLastBF16; };
    for (size_t n = 0; n < choices_.size(); ++n) {
      if (!graph_.nodes[n].type->traits.multiplies_matrices) continue;
      const auto pays = [&](const Choice& c) { return uses(c) && c.seconds < kImpossibleSeconds; };
      if (std::ranges::any_of(choices_[n], pays)) return;
    }
    for (std::vector<Choice>& choices : choices_) std::erase_if(choices, uses);
  }

  bool OnGpu() const { return options_.device.type != DeviceType::kCpu; }

  // Adds 16-bit formats for views, which alias memory of any type.
  std::vector<Choice> WithViewsOfHalves(const Node& node, const LayerInfo& info,
                                        std::vector<Choice> choices) const {
    if (!info.view) return choices;
    const Precision precision = PrecisionOf(*node.layer, options_);
    if (precision == BF16) choices.push_back({{{.type = DType::kBF16}, {.type = DType::kBF16}}});
    if (precision == FP16) choices.push_back({{{.type = DType::kF16}, {.type = DType::kF16}}});
    return choices;
  }

  // Adds the time of layers that one implementation of node n fuses to the choices that do not fuse
  // them.
  void ChargeFollowers(size_t n) {
    std::vector<int> all;
    for (const Choice& choice : choices_[n]) {
      if (choice.followers.size() > all.size()) all = choice.followers;
    }
    for (size_t k = 0; k < all.size(); ++k) {
      const double seconds = choices_[Index(all[k])][0].seconds;
      for (Choice& choice : choices_[n]) {
        if (choice.followers.size() <= k) choice.seconds += seconds;
      }
      is_fused_[Index(graph_.nodes[k == 0 ? n : Index(all[k - 1])].outputs[0])] = true;
      // A small cost on bytes, so that bytes are not the first choice if the leader writes floats.
      for (Choice& choice : choices_[Index(all[k])]) {
        choice.seconds = choice.formats.in.type == DType::kU8 ? kFollowerSeconds : 0;
      }
    }
  }

  static int FindChoice(const std::vector<Choice>& choices, const NodeFormats& formats) {
    for (size_t i = 1; i < choices.size(); ++i) {
      if (choices[i].formats == formats) return static_cast<int>(i);
    }
    return -1;
  }

  const Choice& ChosenOf(size_t n) const { return choices_[n][chosen_[n]]; }

  double ReorderSeconds(int v, MemoryFormat from, MemoryFormat to) const {
    const BlobSpec& spec = specs_[Index(v)];
    if (from == to) return 0;
    return (kReorderSeconds + CopySeconds(spec, from) + CopySeconds(spec, to)) * reorder_scale_ +
           (is_fused_[Index(v)] ? kFollowerSeconds : 0);
  }

  // Returns the seconds of the reorders before node n.
  double InputSeconds(size_t n, const Choice& choice) const {
    double seconds = 0;
    const std::vector<int>& inputs = graph_.nodes[n].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int producer = graph_.values[Index(inputs[i])].producer;
      seconds +=
          ReorderSeconds(inputs[i], ChosenOf(Index(producer)).formats.out, choice.formats.Input(i));
    }
    return seconds;
  }

  // Returns the format in which node n reads value v.
  MemoryFormat ReadFormat(size_t n, int v) const {
    const std::vector<int>& inputs = graph_.nodes[n].inputs;
    const auto i = std::ranges::find(inputs, v) - inputs.begin();
    return ChosenOf(n).formats.Input(static_cast<size_t>(i));
  }

  double OutputSeconds(size_t n, const Choice& choice) const {
    double seconds = 0;
    for (int v : graph_.nodes[n].outputs) {
      const Value& value = graph_.values[Index(v)];
      if (IsPlainForUsers(value)) seconds += ReorderSeconds(v, choice.formats.out, {});
      for (int reader : value.readers) {
        seconds += ReorderSeconds(v, choice.formats.out, ReadFormat(Index(reader), v));
      }
    }
    return seconds;
  }

  double Total() const {
    double total = 0;
    for (size_t n = 0; n < choices_.size(); ++n) {
      total += ChosenOf(n).seconds + InputSeconds(n, ChosenOf(n));
      for (int v : graph_.nodes[n].outputs) {
        if (!IsPlainForUsers(graph_.values[Index(v)])) continue;
        total += ReorderSeconds(v, ChosenOf(n).formats.out, {});
      }
    }
    return total;
  }

  // Starts with the fastest choice of each node. `follow` adds the reorders from its inputs, whose
  // formats are chosen before.
  void Start(bool follow) {
    chosen_.assign(choices_.size(), 0);
    for (size_t n = 0; n < choices_.size(); ++n) {
      double least = 0;
      for (size_t c = 0; c < choices_[n].size(); ++c) {
        const Choice& choice = choices_[n][c];
        // Layers that take any format cost the same in each, and always follow.
        const bool free = infos_[n].any_format;
        const double seconds = choice.seconds + (follow || free ? InputSeconds(n, choice) : 0);
        if (c > 0 && seconds >= least) continue;
        least = seconds;
        chosen_[n] = c;
      }
    }
  }

  // Starts with this format for each node that supports it, and plain for the others. Returns false
  // if no node supports it.
  bool StartIn(MemoryFormat format) {
    chosen_.assign(choices_.size(), 0);
    for (size_t n = 0; n < choices_.size(); ++n) {
      const auto& choices = choices_[n];
      for (size_t c = 1; c < choices.size(); ++c) {
        const NodeFormats& formats = choices[c].formats;
        if (formats.out == format) chosen_[n] = c;
        if (formats.in == format && formats.out == format) break;
      }
    }
    return std::ranges::any_of(chosen_, [](size_t c) { return c > 0; });
  }

  // Changes single nodes while this reduces the total time.
  void Improve() {
    constexpr int kMostSweeps = 50;
    bool changed = true;
    for (int sweep = 0; changed && sweep < kMostSweeps; ++sweep) {
      changed = false;
      for (size_t i = 0; i < choices_.size(); ++i) {
        const size_t n = sweep % 2 == 0 ? i : choices_.size() - 1 - i;
        changed = ImproveNode(n) || changed;
      }
    }
  }

  bool ImproveNode(size_t n) {
    if (choices_[n].size() == 1) return false;
    const auto cost = [&](size_t c) {
      const Choice& choice = choices_[n][c];
      return choice.seconds + InputSeconds(n, choice) + OutputSeconds(n, choice);
    };
    const size_t before = chosen_[n];
    double least = cost(before);
    for (size_t c = 0; c < choices_[n].size(); ++c) {
      const double seconds = cost(c);
      if (seconds < least * (1 - 1e-9)) {
        least = seconds;
        chosen_[n] = c;
      }
    }
    return chosen_[n] != before;
  }

  Graph& graph_;
  const Registry& registry_;
  const ImplementationTimes& times_;
  const PlanOptions& options_;
  const int threads_;
  double estimate_scale_ = 1;
  double reorder_scale_ = 1;
  std::vector<LayerInfo> infos_;
  GradientFlow flow_;
  std::vector<BlobSpec> specs_;               // by value
  std::vector<bool> is_fused_;                // by value: a follower reads it
  std::vector<std::vector<Choice>> choices_;  // by node
  std::vector<size_t> chosen_;                // by node
};

}  // namespace

bool FitsFormats(const Implementation& implementation, const LayerInfo& info,
                 std::span<const BlobSpec> inputs, std::span<const BlobSpec> outputs) {
  const auto fits = [](std::span<const BlobSpec> specs, MemoryFormat format) {
    return std::ranges::all_of(specs, [&](const BlobSpec& spec) { return spec.format == format; });
  };
  bool fits_inputs = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    fits_inputs = fits_inputs && inputs[i].format == implementation.InputFormat(i);
  }
  if (fits_inputs && fits(outputs, implementation.output_format)) return true;
  const MemoryFormat format = inputs.empty() ? MemoryFormat{} : inputs[0].format;
  if (format.type == DType::kU8) {
    return PassesOn(info) && fits(inputs, format) && fits(outputs, format) && HasPixels(inputs);
  }
  if (format == kLastBF16 && implementation.device == DeviceType::kCpu) {
    return implementation.input_format == MemoryFormat{} && TakesPixels(info, inputs) &&
           fits(inputs, format) && fits(outputs, format);
  }
  return info.any_format && implementation.input_format == MemoryFormat{} &&
         format.layout == Layout::kBlocked && fits(inputs, format) && fits(outputs, format) &&
         std::ranges::all_of(inputs, HasWholeBlocks) &&
         std::ranges::all_of(outputs, HasWholeBlocks);
}

void ChooseMemoryFormats(Graph* graph, const Registry& registry, const ImplementationTimes& times,
                         const PlanOptions& options) {
  if (options.device.type == DeviceType::kCpu && ChannelBlock() == 0) return;
  Chooser chooser(graph, registry, times, options);
  if (!chooser.Search()) return;
  if (!times.empty()) {
    const ImplementationTimes none;
    Chooser estimated(graph, registry, none, options);
    if (estimated.Search()) chooser.PreferThoseOf(estimated);
  }
  chooser.Apply();
}

}  // namespace crema
