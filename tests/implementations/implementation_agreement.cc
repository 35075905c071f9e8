#include "implementations/implementation_agreement.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/bfloat16.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/input_types.h"
#include "support/layer_run.h"

namespace crema::test {
namespace {

constexpr double kRoundOff = 0x1p-24;  // of f32, relative
constexpr double kTypicalTerm = 0.29;  // root mean square of the products of what is drawn

// Implementations whose rounding is larger by nature.
double ImplementationFactor(const std::string& implementation) {
  // F(4,3): its transforms multiply by up to 8 and sum with alternating signs. Lavin, Gray: Fast
  // Algorithms for Convolutional Neural Networks, 2016.
  if (implementation.starts_with("winograd")) return 8;
  // Factors were rounded to 8 bits instead of 24.
  if (implementation.find("bf16") != std::string::npos) return 0x1p16;
  if (implementation.starts_with("cudnn")) return 8;  // some of its engines do so too
  return 1;
}

// The rounding of n additions of terms with random signs grows with the square root of n, relative
// to sums that do too. This is about twice the largest error in 500 cases.
double Tolerance(const Values& expected, int64_t terms, double amplification) {
  const double root = std::sqrt(static_cast<double>(terms));
  double largest = kTypicalTerm * root;
  for (double value : expected) largest = std::max(largest, std::abs(value));
  return 2 * kRoundOff * (1 + root) * amplification * largest;
}

bool StoresHalves(const Implementation& implementation) {
  return implementation.input_format.type == DType::kBF16 ||
         implementation.output_format.type == DType::kBF16 ||
         implementation.name.find("f16") != std::string::npos;
}

// Rounding moves what others do past a kink: the largest of a window becomes another one. The
// generic checker compares these, on samples without such cases.
bool IsImplementation(const std::string& type, const Implementation& implementation) {
  if (implementation.name == kNativeImplementation) return false;
  if (implementation.name.find("int8") != std::string::npos)
    return false;  // int8_implementations_test
  if (!StoresHalves(implementation)) return true;
  return HasBFloat16() && (type == "Convolution" || type == "InnerProduct");
}

bool RunsInAnyFormat(const LayerInfo& info) { return info.any_format && !info.view && !info.share; }

bool HasWholeBlocks(const BlobSpec& spec) {
  return ChannelBlock() > 0 && spec.shape.axes() == 4 && spec.shape[1] % ChannelBlock() == 0;
}

bool Learns(const LayerInfo& info) {
  return std::ranges::any_of(info.parameters, [](const ParameterInfo& b) { return !b.statistic; });
}

CaseValues DrawScaled(const LayerCase& layer_case, double parameter_factor) {
  CaseValues values = DrawValues(layer_case);
  for (Values& blob : values.parameters) {
    for (double& value : blob) value *= parameter_factor;
  }
  return values;
}

class Comparison {
 public:
  Comparison(const LayerType& type, const ImplementationCase& implementation_case, int threads,
             Gradients wanted)
      : type_(type),
        case_(implementation_case),
        threads_(threads),
        narrow_(type, implementation_case.sample, DType::kF32),
        backward_(wanted != Gradients::kNone && implementation_case.sample.gradient),
        // Backward is called if a gradient is needed.
        to_input_(backward_ && (wanted == Gradients::kAll || !Learns(narrow_.info()))),
        values_(DrawScaled(narrow_, implementation_case.parameter_factor)) {}

  std::vector<std::string> Run(std::map<std::string, int>* reached) {
    const OpDesc query{.layer = narrow_.layer(),
                       .context = narrow_.infer_context(),
                       .info = narrow_.info(),
                       .threads = threads_,
                       .backward = backward_,
                       .to_input = to_input_,
                       .precision = BF16};
    for (const ImplementationPtr& implementation : type_.implementations) {
      if (!IsImplementation(type_.name, *implementation) || !implementation->Supports(query).yes)
        continue;
      ++(*reached)[implementation->name];
      CheckImplementation(*implementation);
    }
    if (RunsInAnyFormat(narrow_.info()) &&
        std::ranges::all_of(narrow_.infer_context().inputs, HasWholeBlocks) &&
        std::ranges::all_of(narrow_.info().outputs, HasWholeBlocks)) {
      ++(*reached)[kAnyFormatImplementation];
      CheckAnyFormat();
    }
    return std::move(failures_);
  }

 private:
  RunOptions Options() const {
    RunOptions options;
    options.threads = threads_;
    options.backward = backward_;
    options.only_input = to_input_ ? RunOptions::kAllInputs : RunOptions::kNoInput;
    options.save = backward_;
    options.weights_fixed = !backward_ && threads_ != 2;  // as in sessions: either
    return options;
  }

  RunResult Run(const LayerCase& layer_case, const RunOptions& options, const std::string& how) {
    RunResult result = RunLayer(layer_case, values_, options);
    for (const std::string& failure : result.failures) Complain(how, failure);
    return result;
  }

  // In f64.
  const RunResult& Reference() {
    if (!reference_) {
      const LayerCase wide(type_, case_.sample, DType::kF64);
      reference_ = Run(wide, Options(), "native in f64");
    }
    return *reference_;
  }

  void CheckImplementation(const Implementation& implementation) {
    RunOptions options = Options();
    options.implementation = &implementation;
    const RunResult got = Run(narrow_, options, implementation.name);
    const RunResult& expected = Reference();
    const double factor = case_.amplification * ImplementationFactor(implementation.name);
    Compare(implementation.name + ": output", got.outputs, expected.outputs, case_.forward_terms,
            factor);
    if (IsAtKink(factor)) return;
    // The gradient of a rounded value has the rounding errors of the sums of both passes.
    Compare(implementation.name + ": gradient of input", got.input_grads, expected.input_grads,
            case_.forward_terms + case_.input_terms, factor * case_.amplification);
    Compare(implementation.name + ": gradient of parameter blob", got.parameter_grads,
            expected.parameter_grads, case_.forward_terms + case_.parameter_terms,
            factor * case_.amplification);
  }

  // Elementwise layers give the same bits.
  void CheckAnyFormat() {
    RunOptions options = Options();
    const RunResult plain = Run(narrow_, options, "native");
    options.format = {Layout::kBlocked};
    const RunResult blocked = Run(narrow_, options, kAnyFormatImplementation);
    const std::string how = kAnyFormatImplementation;
    Compare(how + ": output", blocked.outputs, plain.outputs, 1, 0);
    Compare(how + ": gradient of input", blocked.input_grads, plain.input_grads, 1, 0);
    Compare(how + ": gradient of parameter blob", blocked.parameter_grads, plain.parameter_grads, 1,
            0);
  }

  bool IsAtKink(double factor) {
    if (!case_.relu_after) return false;
    const Values& y = Reference().outputs[0];
    const double bound = Tolerance(y, case_.forward_terms, factor);
    return std::ranges::any_of(y, [&](double v) { return std::abs(v) <= bound; });
  }

  void Compare(const std::string& what, const std::vector<Values>& got,
               const std::vector<Values>& expected, int64_t terms, double factor) {
    for (size_t k = 0; k < expected.size(); ++k) {
      if (got[k].size() != expected[k].size()) return Complain(what, "sizes differ");
      const double bound = Tolerance(expected[k], terms, factor);
      for (size_t i = 0; i < got[k].size(); ++i) {
        const bool both_nan = std::isnan(got[k][i]) && std::isnan(expected[k][i]);
        if (both_nan || got[k][i] == expected[k][i]) continue;
        if (std::abs(got[k][i] - expected[k][i]) <= bound) continue;
        Complain(what, StrCat(k, " is ", got[k][i], " at element ", i, ", expected ",
                              expected[k][i], " within ", bound));
        break;
      }
    }
  }

  void Complain(const std::string& what, const std::string& text) {
    std::string shapes;
    for (const BlobSpec& input : narrow_.infer_context().inputs) {
      shapes += " " + ToString(input.shape);
    }
    failures_.push_back(StrCat(type_.name, ", ", case_.sample.name, ", ", what, ": ", text,
                               "\n  inputs", shapes, ", threads ", threads_,
                               !backward_  ? ", forward only"
                               : to_input_ ? ", all gradients"
                                           : ", gradients of parameter blobs",
                               ", phase ", Phase_Name(case_.sample.phase), "\n  ",
                               case_.sample.prototxt));
  }

  const LayerType& type_;
  const ImplementationCase& case_;
  const int threads_;
  const LayerCase narrow_;
  const bool backward_;
  const bool to_input_;
  const CaseValues values_;
  std::optional<RunResult> reference_;
  std::vector<std::string> failures_;
};

}  // namespace

std::vector<std::string> ImplementationsOf(const LayerType& type) {
  std::vector<std::string> implementations;
  for (const ImplementationPtr& implementation : type.implementations) {
    // Those of GPUs are run if there are cases for others; the generic checker runs them all.
    const bool cpu = implementation->device == DeviceType::kCpu;
    if (cpu && IsImplementation(type.name, *implementation))
      implementations.push_back(implementation->name);
  }
  const bool any_format = std::ranges::any_of(type.samples, [&](const LayerSample& sample) {
    return RunsInAnyFormat(LayerCase(type, sample, DType::kF32).info());
  });
  if (any_format) implementations.emplace_back(kAnyFormatImplementation);
  return implementations;
}

std::vector<std::string> CompareImplementations(const LayerType& type,
                                                const ImplementationCase& implementation_case,
                                                int threads, Gradients wanted,
                                                std::map<std::string, int>* reached) {
  return Comparison(type, implementation_case, threads, wanted).Run(reached);
}

}  // namespace crema::test
