#include "solvers/diagnose.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/blob_types.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "runtime/error_context.h"
#include "runtime/session.h"

namespace crema {
namespace {

// Data beyond this overflow in a few layers, and are never intended.
constexpr double kAbsurdData = 1e12;
// Parameters that no filler produces and no training needs.
constexpr double kAbsurdWeight = 1e6;

constexpr char kLowerRate[] = "lower base_lr, begin with warmup_iter, or set clip_gradients";

using Finding = BrokenPass;

struct Extremes {
  int64_t broken = 0;  // values that are not finite
  double first = 0;    // the first of them
  double largest = 0;  // magnitude of the finite ones
};

Extremes Look(const ConstTensorView& view) {
  Extremes extremes;
  DispatchBlob(view.dtype(), [&]<typename T>(T) {
    for (const T x : view.span<T>()) {
      if (std::isfinite(static_cast<double>(x))) {
        extremes.largest = std::max(extremes.largest, std::abs(static_cast<double>(x)));
      } else if (extremes.broken++ == 0) {
        extremes.first = static_cast<double>(x);
      }
    }
  });
  return extremes;
}

// Returns the rows along axis 0 with a value that is not finite, or at least `limit` in magnitude.
std::vector<int64_t> BrokenRows(const ConstTensorView& view, double limit) {
  std::vector<int64_t> rows;
  if (view.shape().axes() == 0 || view.count() == 0) return rows;
  const auto each = static_cast<size_t>(view.count() / view.shape()[0]);
  DispatchBlob(view.dtype(), [&]<typename T>(T) {
    const std::span<const T> values = view.span<T>();
    for (int64_t row = 0; row < view.shape()[0]; ++row) {
      const auto part = values.subspan(static_cast<size_t>(row) * each, each);
      // Written so that NaN is not fine.
      const auto fine = [&](T x) { return std::abs(static_cast<double>(x)) < limit; };
      if (!std::ranges::all_of(part, fine)) rows.push_back(row);
    }
  });
  return rows;
}

// The replayed pass, and the session that it copies.
struct Sessions {
  const Session& again;
  const Session& original;
};

std::string NameOf(const Sessions& sessions, int value, int64_t row) {
  std::string name = FindSampleName(sessions.again, value, row);
  const Plan& plan = sessions.original.plan();
  const int same =
      plan.FindFirstValue(sessions.again.plan().values[static_cast<size_t>(value)].name);
  if (name.empty() && same >= 0) name = FindSampleName(sessions.original, same, row);
  return name.empty() ? StrCat(row, " of the batch") : StrCat("'", name, "'");
}

// Returns " in sample 'x', 'y', 'z' and 4 more", " in all samples", or "" if rows are not samples.
std::string DescribeRows(const Sessions& sessions, int value, double limit) {
  constexpr size_t kNamed = 3;
  const ConstTensorView view = sessions.again.DataOf(value);
  const std::vector<int64_t> rows = BrokenRows(view, limit);
  if (rows.empty() || view.shape().axes() == 1 || view.shape()[0] == 1) {
    return rows.size() == 1 ? StrCat(", in sample ", NameOf(sessions, value, rows[0])) : "";
  }
  if (static_cast<int64_t>(rows.size()) == view.shape()[0]) return ", in all samples";
  std::vector<std::string> names;
  for (const int64_t row : rows) {
    if (names.size() < kNamed) names.push_back(NameOf(sessions, value, row));
  }
  std::string text = StrCat(rows.size() == 1 ? ", in sample " : ", in samples ", Join(names, ", "));
  if (rows.size() > names.size()) text += StrCat(" and ", rows.size() - names.size(), " more");
  return text;
}

// Returns "'a' to 'b'", or "" without names.
std::string DescribeBatch(const Session& session) {
  for (const PlannedLayer& layer : session.plan().layers) {
    if (!layer.inputs.empty() || layer.outputs.empty()) continue;
    const Shape shape = session.DataOf(layer.outputs[0]).shape();
    if (shape.axes() == 0) continue;
    const std::string first = FindSampleName(session, layer.outputs[0], 0);
    const std::string last = FindSampleName(session, layer.outputs[0], shape[0] - 1);
    if (!first.empty()) return StrCat("'", first, "' to '", last, "'");
  }
  return "";
}

const PlannedLayer& LayerOf(const Plan& plan, const ParameterSlot& slot) {
  return plan.layers[static_cast<size_t>(slot.layer)];
}

std::string BlobName(const ParameterSlot& slot) {
  return StrCat("blob ", slot.index, slot.role.empty() ? "" : " (" + slot.role + ")");
}

std::string DescribeBroken(const Extremes& extremes, int64_t count) {
  return StrCat(PrintNumber(extremes.first), " in ", extremes.broken, " of ", count, " values");
}

// Examines one pass of a session that keeps every blob.
class Inquiry {
 public:
  Inquiry(const Sessions& sessions, const Weights& weights, int64_t iteration)
      : sessions_(sessions),
        plan_(sessions.again.plan()),
        weights_(weights),
        iteration_(iteration) {}

  // Returns nothing if all is finite.
  std::optional<Finding> Find() const {
    if (auto weights = FindWeights()) return weights;
    if (auto data = FindData()) return data;
    return FindLayer();
  }

  // Call before anything has run.
  std::optional<Finding> FindWeights() const {
    for (size_t s = 0; s < plan_.parameters.size(); ++s) {
      const ParameterSlot& slot = plan_.parameters[s];
      // The pass itself may have written NaN to the running means; they are not the cause.
      if (slot.statistic || slot.owner != static_cast<int>(s)) continue;
      const ConstTensorView blob = weights_.blob(s);
      const Extremes extremes = Look(blob);
      if (extremes.broken == 0) continue;
      const std::string what = StrCat("The weights are at fault: ", BlobName(slot), " holds ",
                                      DescribeBroken(extremes, blob.count()));
      if (iteration_ == 0) {
        return Finding{LayerOf(plan_, slot).name(),
                       what + " before the first update: start from other weights"};
      }
      return Finding{
          LayerOf(plan_, slot).name(),
          StrCat(what, ", so the update of iteration ", iteration_ - 1,
                 " overflowed: its gradient or the learning rate is too large; ", kLowerRate)};
    }
    return std::nullopt;
  }

 private:
  std::optional<Finding> FindData() const {
    for (const PlannedLayer& layer : plan_.layers) {
      if (!layer.inputs.empty()) continue;
      for (const int v : layer.outputs) {
        const ConstTensorView data = sessions_.again.DataOf(v);
        const Extremes extremes = Look(data);
        const std::string& name = plan_.values[static_cast<size_t>(v)].name;
        if (extremes.broken > 0) {
          return Finding{layer.name(),
                         StrCat("The data are at fault: \"", name, "\" holds ",
                                DescribeBroken(extremes, data.count()),
                                DescribeRows(sessions_, v, std::numeric_limits<double>::infinity()),
                                "; mend these samples or leave them out")};
        }
        if (extremes.largest >= kAbsurdData) {
          return Finding{layer.name(),
                         StrCat("The data are at fault: \"", name, "\" holds values up to ",
                                extremes.largest, DescribeRows(sessions_, v, kAbsurdData),
                                "; mend these samples, or scale them")};
        }
      }
    }
    return std::nullopt;
  }

  std::optional<Finding> FindLayer() const {
    for (size_t i = 0; i < plan_.layers.size(); ++i) {
      const PlannedLayer& layer = plan_.layers[i];
      for (const int v : layer.outputs) {
        const ConstTensorView output = sessions_.again.DataOf(v);
        const Extremes extremes = Look(output);
        if (extremes.broken == 0) continue;
        return Finding{layer.name(),
                       Blame(i, StrCat("its output \"", plan_.values[static_cast<size_t>(v)].name,
                                       "\" holds ", DescribeBroken(extremes, output.count()),
                                       DescribeRows(sessions_, v, kInfinity)))};
      }
    }
    return std::nullopt;
  }

  // Weights that diverged overflow here or in an earlier layer.
  std::string Blame(size_t at, const std::string& what) const {
    double input = 0;
    for (const int v : plan_.layers[at].inputs) {
      input = std::max(input, Look(sessions_.again.DataOf(v)).largest);
    }
    double weight = 0;
    std::string owner;
    for (size_t s = 0; s < plan_.parameters.size(); ++s) {
      const ParameterSlot& slot = plan_.parameters[s];
      if (slot.statistic || slot.layer > static_cast<int>(at)) continue;
      const double largest = Look(weights_.blob(s)).largest;
      if (largest <= weight) continue;
      weight = largest;
      owner = LayerOf(plan_, slot).name();
    }
    if (weight >= kAbsurdWeight) {
      return StrCat("The weights are at fault: those of \"", owner, "\" have grown to ", weight,
                    ", and ", what, "; ", kLowerRate);
    }
    return StrCat("The layer's arithmetic is at fault: ", what,
                  ", although data and weights are "
                  "finite (its inputs up to ",
                  input, ", weights up to ", weight, ")", DescribeStatisticsAt(at));
  }

  // The means and variances of a file can be broken too.
  std::string DescribeStatisticsAt(size_t at) const {
    for (const int s : plan_.layers[at].parameters) {
      const ParameterSlot& slot = plan_.parameters[static_cast<size_t>(s)];
      if (slot.statistic && Look(weights_.blob(static_cast<size_t>(s))).broken > 0) {
        return StrCat("; of its statistics, ", BlobName(slot), " is not finite");
      }
    }
    return "";
  }

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  const Sessions sessions_;
  const Plan& plan_;
  const Weights& weights_;
  const int64_t iteration_;
};

Error MakeError(const DivergedRun& run, const std::string& what, const Finding& finding) {
  const std::string snapshot =
      run.last_snapshot.empty()
          ? "No snapshot was written before"
          : StrCat("The last snapshot with finite weights is ", run.last_snapshot);
  return Error(Problem{ErrorCode::kDiverged,
                       {.layer = finding.layer},
                       StrCat("training diverged: ", what, " in iteration ", run.iteration,
                              " (learning rate ", run.rate, "). ", finding.text, ". ", snapshot)});
}

// Plans the net with every blob kept, without such layers. `like` is the plan of the run, which
// determines the share of the data.
std::shared_ptr<const Plan> PlanToLookAt(const NetOfRun& net, const Registry& registry, int threads,
                                         const Plan& like) {
  std::vector<Problem> warnings;
  const PlanOptions options{.threads = threads,
                            .backward = false,
                            .optimize = false,
                            .rank = like.options.rank,
                            .world = like.options.world};
  const auto plan =
      MakePlan(net.file.net, net.file.source, net.state, registry, options, &warnings);
  auto changed = std::make_shared<Plan>(*plan);
  for (PlannedLayer& layer : changed->layers) {
    if (layer.type->traits.fed_by_program) layer.forward = false;
  }
  return changed;
}

// Copies data that the program fed: the memory of sources is not reused, so they are still there.
void CopyFedData(const Session& from, Session* to) {
  for (const PlannedLayer& layer : to->plan().layers) {
    if (!layer.type->traits.fed_by_program) continue;
    for (const std::string& top : layer.layer->param().top()) {
      const int value = from.plan().FindFirstValue(top);
      if (value < 0) continue;
      const ConstTensorView data = from.DataOf(value);
      if (layer.type->name == "Input") to->Reshape(top, data.shape());
      from.Read(data, to->MutableData(top).raw());
    }
  }
}

Finding Replay(const NetOfRun& net, const Registry& registry, const Session& session,
               const Weights& weights, const PassMark& mark, int64_t iteration) {
  const int threads = session.OnGpu() ? AvailableProcessors() : session.context().threads();
  const uint64_t seed = session.context().seed();
  const auto plan = PlanToLookAt(net, registry, threads, session.plan());
  const std::shared_ptr<const Weights> shared = Weights::ShareWith(*plan, weights, seed);
  Session again(plan, shared, ExecContext(threads, seed));
  // A session that has continued since has other samples.
  const bool there = session.step() == mark.step() + 1;
  const Session& named = there ? session : again;
  const Inquiry inquiry({again, named}, *shared, iteration);
  const auto with_samples = [&](Finding finding) {
    if (finding.text.find(", in sample") == std::string::npos)
      finding.samples = DescribeBatch(named);
    return finding;
  };
  if (auto finding = inquiry.FindWeights()) {  // checked first, as it may not run
    return there ? with_samples(*std::move(finding)) : *std::move(finding);
  }
  CopyFedData(session, &again);
  again.set_step(mark.step());
  again.RestoreState("train", mark.readers());
  const double loss = again.Forward();
  std::optional<Finding> finding = inquiry.Find();
  if (!finding) {
    finding = Finding{"", StrCat("The same batch run again gives a loss of ", loss,
                                 session.context().rank_sums() != nullptr
                                     ? ", so the values came from another rank (sync: true) or were"
                                     : ", so the values were",
                                 " at the edge of what numbers can hold; ", kLowerRate)};
  }
  return with_samples(*std::move(finding));
}

}  // namespace

void PassMark::Take(const Session& session) {
  step_ = session.step();
  readers_.clear_layer_state();
  session.SaveState("train", &readers_);
}

std::string PrintNumber(double value) { return std::isnan(value) ? "nan" : StrCat(value); }

BrokenPass DiagnosePass(const NetOfRun& net, const Registry& registry, const Session& session,
                        const Weights& weights, const PassMark& mark, int64_t iteration) {
  try {
    return Replay(net, registry, session, weights, mark, iteration);
  } catch (const std::exception& error) {
    return {.layer = {},
            .text = StrCat("The batch cannot be run again to see more (", error.what(), "); ",
                           kLowerRate)};
  }
}

Error DiagnoseDivergence(const NetOfRun& net, const Registry& registry, const Session& session,
                         const Weights& weights, const PassMark& mark, double loss,
                         const DivergedRun& run) {
  BrokenPass pass = DiagnosePass(net, registry, session, weights, mark, run.iteration);
  if (!pass.samples.empty()) pass.text += ". The batch has the samples " + pass.samples;
  return MakeError(run, "the loss is " + PrintNumber(loss), pass);
}

Error DiagnoseUpdate(Session& session, size_t slot, const DivergedRun& run) {
  const Plan& plan = session.plan();
  std::vector<GradientReport> reports(plan.parameters.size(), GradientReport{0, -1, 0, 0});
  for (size_t s = 0; s < reports.size(); ++s) {
    const TensorView gradient = session.ParameterGradient(s);
    if (plan.parameters[s].owner != static_cast<int>(s) || gradient.empty()) continue;
    const Extremes extremes = Look(*HostView(session, gradient));
    reports[s] = {extremes.broken, -1, extremes.first, extremes.largest};
  }
  return DiagnoseUpdate(plan, reports, slot, run);
}

Error DiagnoseUpdate(const Plan& plan, const std::vector<GradientReport>& reports, size_t slot,
                     const DivergedRun& run) {
  const ParameterSlot& broken = plan.parameters[slot];
  const std::string what = StrCat("the update gave values of ", BlobName(broken), " of \"",
                                  LayerOf(plan, broken).name(), "\" that are not finite");
  double largest = 0;
  for (size_t s = reports.size(); s-- > 0;) {
    const ParameterSlot& at = plan.parameters[s];
    const GradientReport& report = reports[s];
    if (report.broken > 0) {
      return MakeError(
          run, what,
          {LayerOf(plan, at).name(),
           StrCat("The gradient is at fault: that of ", BlobName(at), " holds ",
                  DescribeBroken({report.broken, report.first, report.largest}, at.shape.count()),
                  ", and it is the first on the way back from the loss; ", kLowerRate)});
    }
    largest = std::max(largest, report.largest);
  }
  return MakeError(
      run, what,
      {LayerOf(plan, broken).name(),
       StrCat("The learning rate is at fault: the gradients are finite (up to ",
              largest * run.gradient_scale, "), but the step is too large; ", kLowerRate)});
}

}  // namespace crema
