#include "support/layer_checker.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <thread>
#include <utility>

#include "core/bfloat16.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/input_types.h"
#include "support/fact_checker.h"
#include "support/layer_run.h"
#include "support/rounding.h"

namespace crema::test {
namespace {

constexpr double kGradientStep = 1e-4;  // of the numeric gradient
constexpr size_t kMostElements = 120;   // of a blob that are differentiated numerically
constexpr double kGradientTolerance = 1e-5;
constexpr double kFloatTolerance = 1e-4;  // f32 against f64, of the largest value
// bfloat16 has 8 bits, so each rounding, of inputs, weights and results, is off by up to 2^-8 of
// the value; sums of terms with either sign are smaller than the terms, which a factor of 4 allows
// for.
constexpr double kBFloat16Tolerance = 1.0 / 64;
// GPU implementations whose blobs are all halves: as above, but weights and intermediate values
// are rounded too.
constexpr double kHalfTolerance = 1.0 / 256;
constexpr double kGpuBFloat16Tolerance = 1.0 / 32;
constexpr double kOrderTolerance = 1e-5;  // f32, sums taken in another order

// The largest magnitude, NaN left out.
double Largest(const Values& values) {
  double largest = 0;
  for (double v : values) largest = std::max(largest, std::isfinite(v) ? std::abs(v) : 0);
  return largest;
}

bool StoresHalves(const Implementation& implementation) {
  return implementation.input_format.type || implementation.output_format.type;
}

// Rounds the values to the stored type; kinks and maxima are then the same for all implementations.
CaseValues Rounded(CaseValues values) {
  for (auto* blobs : {&values.inputs, &values.output_grads}) {
    for (Values& blob : *blobs) {
      for (double& v : blob) v = double{BFloat16(static_cast<float>(v))};
    }
  }
  return values;
}

bool SameBits(double a, double b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

class SampleChecker {
 public:
  SampleChecker(const LayerType& type, const LayerSample& sample) : type_(type), sample_(sample) {}

  std::vector<std::string> Check() {
    try {
      CheckAll();
    } catch (const std::exception& error) {
      Complain(std::string("threw: ") + error.what());
    }
    return std::move(failures_);
  }

 private:
  void CheckAll();
  void CheckInfo(const LayerCase& layer_case);
  void CheckGradients(const LayerCase& wide, const CaseValues& values);
  void CheckOneBlob(const LayerCase& wide, CaseValues& values, Values& blob, const Values& analytic,
                    const std::string& name);
  void CheckVariants(const LayerCase& narrow, const CaseValues& values);
  void CheckSingleGradients(const LayerCase& narrow, const CaseValues& values,
                            const RunResult& all);
  void CheckTwoThreads(const LayerCase& narrow, const CaseValues& values, const RunResult& alone);
  void CheckImplementations(const LayerCase& layer_case, const CaseValues& values,
                            double tolerance);
  void CheckHalves(const LayerCase& wide, DType dtype, double tolerance);
  void CheckAnyFormat(const LayerCase& layer_case);

  RunResult Run(const LayerCase& layer_case, const CaseValues& values, RunOptions options,
                const std::string& how);
  // Complains unless |a - b| <= tolerance * max |a| everywhere; 0: the same bits.
  void Compare(const RunResult& a, const RunResult& b, double tolerance, const std::string& what);
  void CompareBlobs(const std::vector<Values>& a, const std::vector<Values>& b, double tolerance,
                    const std::string& what);
  void Complain(const std::string& text) {
    failures_.push_back(StrCat(type_.name, "/", sample_.name, ": ", text));
  }

  const LayerType& type_;
  const LayerSample& sample_;
  std::vector<std::string> failures_;
};

RunResult SampleChecker::Run(const LayerCase& layer_case, const CaseValues& values,
                             RunOptions options, const std::string& how) {
  options.backward = sample_.gradient;
  RunResult result = RunLayer(layer_case, values, options);
  for (const std::string& failure : result.failures) Complain(how + ": " + failure);
  return result;
}

void SampleChecker::CompareBlobs(const std::vector<Values>& a, const std::vector<Values>& b,
                                 double tolerance, const std::string& what) {
  for (size_t k = 0; k < std::min(a.size(), b.size()); ++k) {
    if (a[k].size() != b[k].size()) {
      if (!a[k].empty() && !b[k].empty()) Complain(StrCat(what, " ", k, ": sizes differ"));
      continue;
    }
    const double bound = tolerance * Largest(a[k]) + (tolerance > 0 ? 1e-6 : 0);
    for (size_t i = 0; i < a[k].size(); ++i) {
      const double x = a[k][i];
      const double y = b[k][i];
      if (SameBits(x, y) || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= bound) continue;
      Complain(StrCat(what, " ", k, " differs at element ", i, ": ", x, " and ", y));
      break;
    }
  }
}

void SampleChecker::Compare(const RunResult& a, const RunResult& b, double tolerance,
                            const std::string& what) {
  CompareBlobs(a.outputs, b.outputs, tolerance, what + ": output");
  CompareBlobs(a.input_grads, b.input_grads, tolerance, what + ": gradient of input");
  CompareBlobs(a.parameter_grads, b.parameter_grads, tolerance,
               what + ": gradient of parameter blob");
}

void SampleChecker::CheckInfo(const LayerCase& layer_case) {
  const LayerInfo& info = layer_case.info();
  if (info.outputs.size() != static_cast<size_t>(sample_.outputs)) {
    Complain(StrCat("Infer gave ", info.outputs.size(), " outputs for ", sample_.outputs, " tops"));
  }
  const size_t inputs = sample_.inputs.size();
  if (info.backward_reads_input.size() > inputs || info.gradient_forbidden.size() > inputs ||
      info.backward_reads_output.size() > info.outputs.size()) {
    Complain("Infer flags more inputs or outputs than there are");
  }
  const auto fits = [](const Arity& arity, size_t count) {
    return static_cast<size_t>(arity.min) <= count && count <= static_cast<size_t>(arity.max);
  };
  if (!fits(type_.inputs, inputs) ||
      (!type_.outputs_equal_inputs && !fits(type_.outputs, info.outputs.size()))) {
    Complain("the sample has more or fewer bottoms or tops than the type takes");
  }
}

// |analytic - numeric| for up to kMostElements elements of `blob`, a part of `values`.
void SampleChecker::CheckOneBlob(const LayerCase& wide, CaseValues& values, Values& blob,
                                 const Values& analytic, const std::string& name) {
  if (analytic.size() != blob.size()) return Complain(name + " got no gradient");
  const RandomStream stream(HashName(sample_.name), HashName(name));
  const size_t steps = std::min(blob.size(), kMostElements);
  const double floor = 1e-7 + 1e-3 * kGradientTolerance * Largest(analytic);
  for (size_t k = 0; k < steps; ++k) {
    const size_t i = steps == blob.size() ? k : stream.Below(k, static_cast<uint32_t>(blob.size()));
    const double middle = blob[i];
    blob[i] = middle + kGradientStep;
    const RunResult above = RunLayer(wide, values, {});
    blob[i] = middle - kGradientStep;
    const RunResult below = RunLayer(wide, values, {});
    blob[i] = middle;
    double numeric = 0;
    for (size_t output = 0; output < above.outputs.size(); ++output) {
      for (size_t j = 0; j < above.outputs[output].size(); ++j) {
        numeric +=
            values.output_grads[output][j] * (above.outputs[output][j] - below.outputs[output][j]);
      }
    }
    numeric /= 2 * kGradientStep;
    const double scale = std::max(std::abs(numeric), std::abs(analytic[i]));
    if (std::abs(numeric - analytic[i]) <= kGradientTolerance * scale + floor) continue;
    return Complain(StrCat("gradient of ", name, " is ", analytic[i], " at element ", i,
                           ", but the numeric one is ", numeric));
  }
}

void SampleChecker::CheckGradients(const LayerCase& wide, const CaseValues& values) {
  const RunResult analytic = Run(wide, values, {}, "f64");
  CaseValues moved = values;
  for (size_t i = 0; i < moved.inputs.size(); ++i) {
    if (!wide.Differentiable(i)) continue;
    CheckOneBlob(wide, moved, moved.inputs[i], analytic.input_grads[i], StrCat("input ", i));
  }
  for (size_t i = 0; i < moved.parameters.size() && sample_.parameter_gradient; ++i) {
    if (wide.info().parameters[i].statistic) continue;
    CheckOneBlob(wide, moved, moved.parameters[i], analytic.parameter_grads[i],
                 StrCat("parameter blob ", i, " (", wide.info().parameters[i].role, ")"));
  }
}

// Not every gradient is needed: some inputs are data, some parameters are frozen.
void SampleChecker::CheckSingleGradients(const LayerCase& narrow, const CaseValues& values,
                                         const RunResult& all) {
  const bool learns = !narrow.info().parameters.empty();
  size_t differentiable = 0;
  for (size_t i = 0; i < sample_.inputs.size(); ++i) {
    if (!narrow.Differentiable(i)) continue;
    ++differentiable;
    const std::string how = StrCat("with the gradient of input ", i, " alone");
    const RunOptions options{.only_input = static_cast<int>(i), .parameter_grads = false};
    RunResult one = Run(narrow, values, options, how);
    for (const Values& added : one.parameter_grads) {
      if (Largest(added) != 0) Complain(how + " a parameter gradient was written");
    }
    one.parameter_grads.clear();
    Compare(all, one, kOrderTolerance, how);
  }
  if (!learns || differentiable == 0) return;
  const std::string how = "with the gradients of parameter blobs alone";
  Compare(all, Run(narrow, values, {.only_input = RunOptions::kNoInput}, how), kOrderTolerance,
          how);
}

void SampleChecker::CheckTwoThreads(const LayerCase& narrow, const CaseValues& values,
                                    const RunResult& alone) {
  constexpr int kRounds = 4;
  std::array<std::vector<RunResult>, 2> results;
  std::array<std::string, 2> errors;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      try {
        for (int round = 0; round < kRounds; ++round) {
          results[t].push_back(RunLayer(narrow, values, {.backward = sample_.gradient}));
        }
      } catch (const std::exception& error) {
        errors[t] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < results.size(); ++t) {
    if (!errors[t].empty()) Complain("two threads on one layer: threw: " + errors[t]);
    for (const RunResult& result : results[t]) {
      Compare(alone, result, 0, "two threads on one layer");
    }
  }
}

void SampleChecker::CheckImplementations(const LayerCase& layer_case, const CaseValues& exact,
                                         double usual) {
  const CaseValues rounded = Rounded(exact);
  for (const ImplementationPtr& implementation : type_.implementations) {
    if (implementation->name == kNativeImplementation) continue;
    const bool gpu = implementation->device == DeviceType::kCuda;
    for (int threads : gpu ? std::vector{1} : std::vector{1, 3}) {
      const OpDesc query{.layer = layer_case.layer(),
                         .context = layer_case.infer_context(),
                         .info = layer_case.info(),
                         .threads = threads,
                         .backward = sample_.gradient,
                         .to_input = sample_.gradient,
                         .precision = BF16};
      if (!implementation->Supports(query).yes) continue;
      const bool halves = StoresHalves(*implementation);
      const CaseValues& values = halves ? rounded : exact;
      const double tolerance = !halves ? usual : gpu ? kGpuBFloat16Tolerance : kBFloat16Tolerance;
      const std::string how = StrCat("implementation ", implementation->name, gpu ? " of GPUs" : "",
                                     " with ", threads, " threads");
      RunResult native = Run(layer_case, values, {.threads = threads}, "native");
      // -FLT_MAX of an empty window becomes infinite.
      if (halves) RoundTo(DType::kBF16, &native.outputs);
      const RunResult other = Run(
          layer_case, values, {.threads = threads, .implementation = implementation.get()}, how);
      Compare(native, other, tolerance, how + " against native");
      const RunResult again = Run(
          layer_case, values, {.threads = threads, .implementation = implementation.get()}, how);
      Compare(other, again, 0, how + " run again");
    }
  }
}

// GPU implementations on blobs of f16 or bf16 against f64 on the same values.
void SampleChecker::CheckHalves(const LayerCase& wide, DType dtype, double tolerance) {
  for (const ImplementationPtr& implementation : type_.implementations) {
    if (implementation->device != DeviceType::kCuda) continue;
    const LayerCase narrow(type_, sample_, dtype);
    const OpDesc query{.layer = narrow.layer(),
                       .context = narrow.infer_context(),
                       .info = narrow.info(),
                       .threads = 1,
                       .backward = sample_.gradient,
                       .to_input = sample_.gradient};
    if (!implementation->Supports(query).yes) continue;
    const std::string how =
        StrCat("implementation ", implementation->name, " of GPUs on ", ToString(dtype));
    const CaseValues values = RoundedTo(dtype, DrawValues(wide));
    RunResult exact = Run(wide, values, {}, "f64");
    RunResult other = Run(narrow, values, {.implementation = implementation.get()}, how);
    const RunResult again = Run(narrow, values, {.implementation = implementation.get()}, how);
    Compare(other, again, 0, how + " run again");
    RoundTo(dtype, &exact.outputs);  // -FLT_MAX of an empty window becomes infinite
    // The initial value is rounded as well: the sums are compared.
    for (RunResult* result : {&exact, &other}) {
      for (Values& added : result->parameter_grads) {
        if (!added.empty()) added.push_back(kMostKnownGradient);
      }
    }
    Compare(exact, other, tolerance, how + " against f64");
  }
}

// With whole blocks of channels in place of each channel.
void SampleChecker::CheckAnyFormat(const LayerCase& layer_case) {
  if (!layer_case.info().any_format || ChannelBlock() == 0) return;
  LayerSample wide = sample_;
  for (SampleInput& input : wide.inputs) {
    if (input.shape.size() != 4) return;
    input.shape[1] *= ChannelBlock();
  }
  const LayerCase widened(type_, wide, DType::kF32);
  const auto whole = [](const BlobSpec& spec) { return spec.shape[1] % ChannelBlock() == 0; };
  if (!widened.info().any_format || widened.info().view || widened.info().share ||
      !std::ranges::all_of(widened.info().outputs, whole)) {
    return;
  }
  const CaseValues values = Rounded(DrawValues(widened));
  const RunResult plain = Run(widened, values, {}, "plain");
  Compare(plain, Run(widened, values, {.format = {Layout::kBlocked}}, "blocked"), 0,
          "blocked against plain");
  if (!HasBFloat16()) return;
  Compare(plain, Run(widened, values, {.format = {Layout::kBlocked, DType::kBF16}}, "bf16"),
          kBFloat16Tolerance, "bf16 against plain");
  if (widened.info().reach != Reach::kElement) return;
  Compare(plain, Run(widened, values, {.format = {Layout::kNHWC, DType::kBF16}}, "NHWC bf16"),
          kBFloat16Tolerance, "NHWC bf16 against plain");
}

void SampleChecker::CheckVariants(const LayerCase& narrow, const CaseValues& values) {
  const RunResult single = Run(narrow, values, {}, "f32");
  Compare(single, Run(narrow, values, {}, "f32"), 0, "run again");
  const RunResult several = Run(narrow, values, {.threads = 3}, "3 threads");
  Compare(single, several, kOrderTolerance, "3 threads against 1");
  Compare(several, Run(narrow, values, {.threads = 3}, "3 threads"), 0, "3 threads run again");
  const LayerInfo& info = narrow.info();
  if (info.in_place && !info.view && !info.share) {
    Compare(single, Run(narrow, values, {.in_place = true}, "in place"), 0,
            "in place against out of place");
  }
  const RunResult unsaved = RunLayer(narrow, values, {.save = false});
  for (const std::string& failure : unsaved.failures) Complain("unsaved: " + failure);
  CompareBlobs(single.outputs, unsaved.outputs, 0, "without saving for backward: output");
  if (sample_.gradient) CheckSingleGradients(narrow, values, single);
  CheckTwoThreads(narrow, values, single);
}

void SampleChecker::CheckAll() {
  // f64 first: there, reading what was not declared throws rather than giving wrong values.
  const LayerCase wide(type_, sample_, DType::kF64);
  CheckInfo(wide);
  if (!failures_.empty()) return;
  const CaseValues values = DrawValues(wide);
  if (sample_.gradient) CheckGradients(wide, values);
  const LayerCase narrow(type_, sample_, DType::kF32);
  Compare(Run(wide, values, {}, "f64"), Run(narrow, values, {}, "f32"), kFloatTolerance,
          "f64 against f32");
  CheckVariants(narrow, values);
  CheckAnyFormat(narrow);
  CheckImplementations(wide, values, 1e-9);
  CheckImplementations(narrow, values, kFloatTolerance);
  CheckHalves(wide, DType::kF16, kHalfTolerance);
  CheckHalves(wide, DType::kBF16, kGpuBFloat16Tolerance);
  for (std::string& fact : CheckFacts(type_, sample_)) failures_.push_back(std::move(fact));
}

}  // namespace

std::vector<std::string> CheckLayerSample(const LayerType& type, const LayerSample& sample) {
  return SampleChecker(type, sample).Check();
}

std::vector<std::string> CheckBadSample(const LayerType& type, const BadSample& sample) {
  const std::string name = StrCat(type.name, " { ", sample.prototxt, " }: ");
  try {
    const auto layer =
        type.make(MakeParameter(type, sample.prototxt, sample.input_shapes.size(), sample.outputs));
    std::vector<BlobSpec> inputs;
    for (const std::vector<int64_t>& shape : sample.input_shapes) {
      inputs.push_back({Shape(std::span<const int64_t>(shape)),
                        InputTypeOf(*layer, inputs.size(), DType::kF32, DType::kF32)});
    }
    layer->Infer({.inputs = inputs, .output_count = static_cast<size_t>(sample.outputs)});
  } catch (const Error& error) {
    std::vector<std::string> failures;
    const std::string text = error.what();
    if (text.find(sample.expect) == std::string::npos) {
      failures.push_back(name + "the message lacks '" + sample.expect + "': " + text);
    }
    if (error.problems().front().where.layer != "sample") {
      failures.push_back(name + "the message does not name the layer: " + text);
    }
    return failures;
  } catch (const std::exception& error) {
    return {name + "threw something other than Error: " + error.what()};
  }
  return {name + "was accepted, expected: " + sample.expect};
}

}  // namespace crema::test
