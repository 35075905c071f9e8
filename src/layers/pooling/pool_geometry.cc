#include "layers/pooling/pool_geometry.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/layer_axis.h"

namespace crema {
namespace {

using Entries = google::protobuf::RepeatedField<uint32_t>;

// The forms in which one quantity can be given: for all axes, for height and width, for any number
// of axes, and IntelCaffe's form for three axes.
struct Forms {
  std::string stem;
  bool has_whole;
  bool has_h;
  bool has_w;
  uint32_t whole;
  uint32_t h;
  uint32_t w;
  std::string nd_name;
  const Entries& nd;
  std::string three_name;
  const Entries& three;
};

Forms KernelForms(const PoolingParameter& p) {
  // Caffe accepts kernel_size together with one of kernel_h and kernel_w.
  const bool pair_counts = !p.has_kernel_size() || (p.has_kernel_h() && p.has_kernel_w());
  return {.stem = "kernel",
          .has_whole = p.has_kernel_size(),
          .has_h = p.has_kernel_h() && pair_counts,
          .has_w = p.has_kernel_w() && pair_counts,
          .whole = p.kernel_size(),
          .h = p.kernel_h(),
          .w = p.kernel_w(),
          .nd_name = "kernel_nd",
          .nd = p.kernel_nd(),
          .three_name = "kernel_size_3d",
          .three = p.kernel_size_3d()};
}

Forms StrideForms(const PoolingParameter& p) {
  return {.stem = "stride",
          .has_whole = p.has_stride(),
          .has_h = p.has_stride_h(),
          .has_w = p.has_stride_w(),
          .whole = p.stride(),
          .h = p.stride_h(),
          .w = p.stride_w(),
          .nd_name = "stride_nd",
          .nd = p.stride_nd(),
          .three_name = "stride_3d",
          .three = p.stride_3d()};
}

Forms PadForms(const PoolingParameter& p) {
  return {.stem = "pad",
          .has_whole = p.has_pad(),
          .has_h = p.has_pad_h(),
          .has_w = p.has_pad_w(),
          .whole = p.pad(),
          .h = p.pad_h(),
          .w = p.pad_w(),
          .nd_name = "pad_nd",
          .nd = p.pad_nd(),
          .three_name = "pad_3d",
          .three = p.pad_3d()};
}

// Returns the entries of the form that is given, or the default of the form for all axes. Throws if
// two forms are given.
std::vector<int64_t> Read(const Layer& layer, const Forms& forms) {
  CheckPairForm(layer, "pooling_param", forms.stem, forms.has_whole, forms.has_h, forms.has_w);
  const bool plane = forms.has_whole || forms.has_h;
  for (const auto& [name, entries] :
       {std::pair{forms.nd_name, &forms.nd}, std::pair{forms.three_name, &forms.three}}) {
    if (entries->empty() || (!plane && (forms.nd.empty() || forms.three.empty()))) continue;
    FailField(layer, "pooling_param." + name,
              StrCat("the ", forms.stem, " is given in two ways; give one of ", forms.stem,
                     ", its pair _h and _w, ", forms.nd_name, " and ", forms.three_name));
  }
  if (!forms.nd.empty()) return {forms.nd.begin(), forms.nd.end()};
  if (!forms.three.empty()) return {forms.three.begin(), forms.three.end()};
  if (forms.has_h) return {forms.h, forms.w};
  return {forms.whole};
}

bool AllAre(const std::vector<int64_t>& entries, int64_t value) {
  return std::ranges::all_of(entries, [&](int64_t entry) { return entry == value; });
}

// Returns the entry of spatial axis `index`.
int64_t EntryOf(const std::vector<int64_t>& entries, size_t index) {
  return entries[entries.size() == 1 ? 0 : index];
}

std::string Times(const std::vector<int64_t>& entries, size_t axes) {
  std::string text;
  for (size_t a = 0; a < axes; ++a) {
    text += (a > 0 ? "x" : "") + std::to_string(EntryOf(entries, a));
  }
  return text;
}

std::string Times(std::span<const PoolAxis> axes, int64_t PoolAxis::*member) {
  std::string text;
  for (const PoolAxis& axis : axes)
    text += (text.empty() ? "" : "x") + std::to_string(axis.*member);
  return text;
}

void CheckGlobal(const Layer& layer, const PoolSettings& settings, bool kernel_given) {
  if (kernel_given) {
    FailField(layer, "pooling_param.kernel_size",
              "with global_pooling the kernel is the whole plane; leave the kernel size out");
  }
  if (!AllAre(settings.pad, 0)) {
    FailField(layer, "pooling_param.pad", "with global_pooling pad must be 0; leave it out");
  }
  if (!AllAre(settings.stride, 1)) {
    FailField(layer, "pooling_param.stride", "with global_pooling stride must be 1; leave it out");
  }
}

void CheckKernel(const Layer& layer, const PoolSettings& settings) {
  const std::vector<int64_t>& kernel = settings.kernel;
  const std::vector<int64_t>& pad = settings.pad;
  if (std::ranges::find(kernel, 0) != kernel.end()) {
    FailField(layer, "pooling_param.kernel_size", "the kernel size must be above 0");
  }
  const size_t axes = std::max(kernel.size(), pad.size());
  if (kernel.size() != pad.size() && kernel.size() > 1 && pad.size() > 1) {
    FailField(layer, "pooling_param.pad",
              StrCat("pad is given for ", pad.size(), " axes, the kernel for ", kernel.size()));
  }
  for (size_t a = 0; a < axes; ++a) {
    if (EntryOf(pad, a) < EntryOf(kernel, a)) continue;
    FailField(
        layer, "pooling_param.pad",
        StrCat("pad ", Times(pad, axes), " must be smaller than the kernel ", Times(kernel, axes)));
  }
}

void Check(const Layer& layer, const PoolSettings& settings, bool kernel_given) {
  const PoolingParameter& p = layer.param().pooling_param();
  if (std::ranges::find(settings.stride, 0) != settings.stride.end()) {
    FailField(layer, "pooling_param.stride", "stride must be above 0");
  }
  if (p.global_pooling()) {
    CheckGlobal(layer, settings, kernel_given);
  } else {
    CheckKernel(layer, settings);
  }
  if (p.pool() == PoolingParameter::STOCHASTIC && !AllAre(settings.pad, 0)) {
    FailField(layer, "pooling_param.pad", "pad must be 0 for STOCHASTIC pooling");
  }
}

// Reads the three fields that set the rounding. Throws if they contradict each other.
bool RoundsDown(const Layer& layer) {
  const PoolingParameter& p = layer.param().pooling_param();
  struct Said {
    bool down;
    std::string text;
  };
  std::vector<Said> said;
  if (p.has_round_mode()) {
    const bool down = p.round_mode() == PoolingParameter::FLOOR;
    said.push_back({down, down ? "round_mode: FLOOR" : "round_mode: CEIL"});
  }
  if (p.has_ceil_mode()) {
    said.push_back({!p.ceil_mode(), p.ceil_mode() ? "ceil_mode: true" : "ceil_mode: false"});
  }
  if (p.torch_pooling()) said.push_back({true, "torch_pooling: true"});
  for (const Said& other : said) {
    if (other.down == said.front().down) continue;
    FailField(
        layer, "pooling_param." + other.text.substr(0, other.text.find(':')),
        StrCat(said.front().text, " and ", other.text, " contradict each other; give one of them"));
  }
  return !said.empty() && said.front().down;
}

// Computes the size as Caffe does, in single precision.
int64_t OutSize(const PoolAxis& axis, bool rounds_down) {
  const float steps =
      static_cast<float>(axis.in + 2 * axis.pad - axis.kernel) / static_cast<float>(axis.stride);
  return static_cast<int64_t>(rounds_down ? std::floor(steps) : std::ceil(steps)) + 1;
}

void CheckAxes(const Layer& layer, const PoolSettings& settings, const Shape& input, int spatial) {
  if (spatial < 1) {
    FailInputs(layer, StrCat("pooling needs one spatial axis or more after the channels, axis ",
                             settings.axis, ", but the input is ", ToString(input)));
  }
  for (const auto& [name, entries] :
       {std::pair{"kernel", &settings.kernel}, std::pair{"stride", &settings.stride},
        std::pair{"pad", &settings.pad}}) {
    if (entries->size() <= 1 || entries->size() == static_cast<size_t>(spatial)) continue;
    FailInputs(layer,
               StrCat(name, " is given for ", entries->size(), " spatial axes, but there are ",
                      spatial, " in the input of shape ", ToString(input)));
  }
}

}  // namespace

void CheckPairForm(const Layer& layer, const std::string& message, const std::string& stem,
                   bool whole, bool h, bool w) {
  if (h != w) {
    FailField(layer, message + "." + stem + (h ? "_w" : "_h"),
              StrCat(stem, "_h and ", stem, "_w must both be given"));
  }
  if (whole && h) {
    FailField(layer, message + "." + stem,
              StrCat("give ", stem, " or ", stem, "_h and ", stem, "_w, not both"));
  }
}

PoolSettings ReadPoolSettings(const Layer& layer) {
  const PoolingParameter& p = layer.param().pooling_param();
  const Forms kernel = KernelForms(p);
  PoolSettings settings;
  settings.axis = p.axis();
  settings.rounds_down = RoundsDown(layer);
  settings.stride = Read(layer, StrideForms(p));
  settings.pad = Read(layer, PadForms(p));
  const bool given = p.has_kernel_size() || p.has_kernel_h() || p.has_kernel_w() ||
                     !kernel.nd.empty() || !kernel.three.empty();
  if (!p.global_pooling()) {
    if (!given) {
      FailField(layer, "pooling_param.kernel_size",
                "kernel_size is missing; give it, kernel_h and kernel_w, or global_pooling: true");
    }
    settings.kernel = Read(layer, kernel);
  }
  Check(layer, settings, given);
  return settings;
}

PoolSettings ReadPool3DSettings(const Layer& layer) {
  const PoolingParameter& p = layer.param().pooling_param();
  const auto with_depth = [&](const Forms& forms, int64_t depth) {
    const std::vector<int64_t> plane = Read(layer, forms);
    return std::vector<int64_t>{depth, plane.front(), plane.back()};
  };
  PoolSettings settings;
  settings.rounds_down = RoundsDown(layer);
  settings.stride = with_depth(StrideForms(p), p.temporal_stride());
  settings.pad = with_depth(PadForms(p), p.temporal_pad());
  const bool plane = p.has_kernel_size() || p.has_kernel_h() || p.has_kernel_w();
  if (!p.global_pooling()) {
    if (!plane || !p.has_kernel_depth()) {
      FailField(layer, plane ? "pooling_param.kernel_depth" : "pooling_param.kernel_size",
                "a window needs kernel_size and kernel_depth; give both, or global_pooling: true");
    }
    settings.kernel = with_depth(KernelForms(p), p.kernel_depth());
  }
  Check(layer, settings, plane || p.has_kernel_depth());
  return settings;
}

PoolWindowNd MakePoolWindow(const Layer& layer, const PoolSettings& settings, const Shape& input) {
  const int first = LayerAxis(layer, input, settings.axis, "pooling_param.axis") + 1;
  PoolWindowNd window{.size = input.axes() - first};
  CheckAxes(layer, settings, input, window.size);
  for (size_t a = 0; a < static_cast<size_t>(window.size); ++a) {
    PoolAxis& axis = window.axes[a];
    axis.in = input[first + static_cast<int>(a)];
    axis.kernel = settings.kernel.empty() ? axis.in : EntryOf(settings.kernel, a);
    axis.stride = EntryOf(settings.stride, a);
    axis.pad = EntryOf(settings.pad, a);
  }
  FitWindow(layer, input, settings.rounds_down, &window);
  return window;
}

void FitWindow(const Layer& layer, const Shape& input, bool rounds_down, PoolWindowNd* window) {
  const std::span axes(window->axes.data(), static_cast<size_t>(window->size));
  const bool padded = std::ranges::any_of(axes, [](const PoolAxis& axis) { return axis.pad > 0; });
  for (PoolAxis& axis : axes) {
    axis.out = OutSize(axis, rounds_down);
    // The last window must start inside the image or the padding before it.
    if (padded && (axis.out - 1) * axis.stride >= axis.in + axis.pad) --axis.out;
    if (axis.out >= 1 && axis.in >= 1) continue;
    FailInputs(layer, StrCat("a window of ", Times(axes, &PoolAxis::kernel), " with pad ",
                             Times(axes, &PoolAxis::pad), " does not fit the input of shape ",
                             ToString(input)));
  }
  int64_t windows = 1;
  for (const PoolAxis& axis : axes) {
    if (axis.out > std::numeric_limits<int32_t>::max() / windows) {
      FailInputs(layer, StrCat("a padding of ", Times(axes, &PoolAxis::pad),
                               " makes more windows than a blob can hold"));
    }
    windows *= axis.out;
  }
  // No window reaches beyond the padding: a shorter kernel takes the same values.
  for (PoolAxis& axis : axes) axis.kernel = std::min(axis.kernel, axis.in + 2 * axis.pad);
}

void CheckAverageWindows(const Layer& layer, const PoolWindowNd& window, const Shape& input) {
  for (int a = 0; a < window.size; ++a) {
    const PoolAxis& axis = window.axes[static_cast<size_t>(a)];
    const int64_t last = axis.out - 1;
    if (axis.Padded(last) > 0 && axis.End(last) > axis.Begin(last)) continue;
    FailField(layer, "pooling_param.stride",
              StrCat("the last window starts at ", axis.Start(last), ", past the end (", axis.in,
                     ") of the input of shape ", ToString(input),
                     ", and a mean of nothing has no value; use a stride that is not larger than "
                     "the kernel, or round_mode: FLOOR"));
  }
}

}  // namespace crema
