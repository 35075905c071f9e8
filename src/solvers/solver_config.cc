#include "solvers/solver_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/unread_fields.h"
#include "format/upgrade.h"
#include "solvers/detection_precision.h"
#include "solvers/freeze.h"
#include "solvers/learning_rate.h"
#include "solvers/loss_scale.h"
#include "solvers/run_mistakes.h"
#include "solvers/time_limit.h"
#include "solvers/update_rule.h"

namespace crema {
namespace {

// Returns true if some layer is in the TEST phase only.
bool HasTestPhase(const NetParameter& net) {
  const auto names = [](const auto& rules, Phase phase) {
    return std::ranges::any_of(
        rules, [&](const NetStateRule& rule) { return rule.has_phase() && rule.phase() == phase; });
  };
  return std::ranges::any_of(net.layer(), [&](const LayerParameter& layer) {
    return names(layer.include(), TEST) || names(layer.exclude(), TRAIN);
  });
}

class Resolver {
 public:
  Resolver(SolverFile solver, std::span<const FieldSetting> settings)
      : param_(solver.solver), settings_(SettingsOfNets(settings), TRAIN) {
    config_.solver = std::move(solver);
  }

  RunConfig Resolve() {
    CheckFields();
    CheckNetChoice();
    if (!problems_.empty()) throw Error(std::move(problems_));
    Warn(WarnAboutUnreadFields(param_));
    Warn(WarnAboutLearningRate(param_));
    Warn(WarnAboutUpdate(param_));
    ReadTrainNet();
    ReadTestNets();
    std::ranges::copy(settings_.Problems(), std::back_inserter(problems_));
    if (!problems_.empty()) throw Error(std::move(problems_));
    std::ranges::move(WarnAboutRun(config_), std::back_inserter(config_.solver.warnings));
    return std::move(config_);
  }

 private:
  void Warn(const std::vector<Problem>& warnings) {
    for (const Problem& p : warnings) {
      config_.solver.warnings.push_back(
          {p.code, config_.solver.source.Locate(p.where.field), p.message});
    }
  }

  void Report(const std::string& field, std::string message,
              ErrorCode code = ErrorCode::kInvalidArgument) {
    problems_.push_back({code, config_.solver.source.Locate(field), std::move(message)});
  }

  void CheckFields() {
    for (const Problem& p : CheckLearningRate(param_)) Report(p.where.field, p.message, p.code);
    CheckType();
    AtLeast("iter_size", param_.iter_size(), 1);
    AtLeast("average_loss", param_.average_loss(), 1);
    AtLeast("max_iter", param_.max_iter(), 0);
    AtLeast("display", param_.display(), 0);
    AtLeast("snapshot", param_.snapshot(), 0);
    AtLeast("test_interval", param_.test_interval(), 0);
    for (int i = 0; i < param_.test_iter_size(); ++i) {
      AtLeast(StrCat("test_iter[", i, "]"), param_.test_iter(i), 1);
    }
    CheckRun();
    CheckEvaluation();
    if (param_.regularization_type() != "L2" && param_.regularization_type() != "L1") {
      Report("regularization_type",
             StrCat("unknown regularization_type '", param_.regularization_type(),
                    "'; use \"L2\" or \"L1\""));
    }
    if (!std::isfinite(param_.weight_decay())) {
      Report("weight_decay", StrCat("weight_decay is ", param_.weight_decay()));
    }
    if (std::isnan(param_.clip_gradients())) Report("clip_gradients", "clip_gradients is nan");
    if (param_.test_iter_size() > 0 && !WantsTests()) {
      Report("test_iter",
             "test_iter is set, but test_interval is not: say every how many "
             "iterations the test nets run");
    }
  }

  void CheckEvaluation() {
    if (param_.eval_type() != "classification" && param_.eval_type() != "detection") {
      Report("eval_type", StrCat("unknown eval_type '", param_.eval_type(),
                                 "'; use \"classification\" or \"detection\""));
    }
    if (!FindApRule(param_.ap_version())) {
      Report("ap_version",
             StrCat("unknown ap_version '", param_.ap_version(), "'; use ", kApRules));
    }
  }

  bool WantsTests() const { return param_.test_interval() > 0 || param_.test_interval_epoch() > 0; }

  // Checks the fields for length, snapshots and changes of a run.
  void CheckRun() {
    for (const Problem& p : CheckFreeze(param_)) Report(p.where.field, p.message, p.code);
    AtLeast("max_epoch", param_.max_epoch(), 0);
    AtLeast("test_interval_epoch", param_.test_interval_epoch(), 0);
    AtLeast("snapshot_epoch", param_.snapshot_epoch(), 0);
    AtLeast("snapshot_keep", param_.snapshot_keep(), 0);
    if (!param_.has_max_iter() && param_.max_epoch() == 0) {
      Report("", "missing required field 'max_iter' (or max_epoch); for example max_iter: 10000");
    } else if (param_.has_max_iter() && param_.max_epoch() > 0) {
      Report("max_epoch", "max_iter and max_epoch are both set: keep the one that ends the run");
    }
    if (!(param_.ema_decay() >= 0 && param_.ema_decay() < 1)) {
      Report("ema_decay",
             StrCat("ema_decay is ", param_.ema_decay(), "; use 0 (none) or more, and below 1"));
    }
    for (const Problem& p : CheckLossScale(param_)) Report(p.where.field, p.message, p.code);
    if (param_.has_time_limit()) CheckTimeLimit();
    for (const auto& [field, is_set] : {std::pair("snapshot", param_.snapshot() > 0),
                                        std::pair("snapshot_epoch", param_.snapshot_epoch() > 0),
                                        std::pair("snapshot_best", param_.has_snapshot_best())}) {
      if (!is_set || !param_.snapshot_prefix().empty()) continue;
      Report(field, StrCat(field, " is set, but snapshot_prefix is not"));
    }
  }

  void CheckTimeLimit() {
    try {
      ParseTimeLimit(param_.time_limit());
    } catch (const Error& error) {
      Report("time_limit", error.problems().front().message);
    }
  }

  void CheckType() {
    const UpdateRule* rule = FindUpdateRule(param_.type());
    if (rule == nullptr) {
      std::vector<std::string> names;
      for (const UpdateRule& known : UpdateRules()) names.push_back(known.name);
      Report("type",
             StrCat("unknown solver type '", param_.type(), "'", DidYouMean(param_.type(), names),
                    "; this version has: ", Join(names, " ")),
             ErrorCode::kUnsupported);
      return;
    }
    for (const Problem& p : CheckUpdate(*rule, param_)) Report(p.where.field, p.message, p.code);
  }

  void AtLeast(const std::string& field, int64_t value, int64_t least) {
    if (value < least) Report(field, StrCat(field, " is ", value, "; use ", least, " or more"));
  }

  void CheckNetChoice() {
    const int count = param_.has_net() + param_.has_net_param() + param_.has_train_net() +
                      param_.has_train_net_param();
    if (count == 1) return;
    Report("", count == 0 ? "no net: set one of net, net_param, train_net, train_net_param"
                          : "several nets to train: keep one of net, net_param, train_net, "
                            "train_net_param");
  }

  // Returns a net written inside the solver, in its field `path`, and leaves it there as it runs.
  // `only` as for NetSettings.
  NetFile Embedded(NetParameter* net, const std::string& path, std::optional<Phase> only) {
    NetFile file;
    file.net = *net;
    file.source = config_.solver.source.Below(path);
    UpgradeNet(&file.net, &file.source, &file.warnings);
    std::ranges::move(FindUnreadFields(file.net, file.source), std::back_inserter(file.warnings));
    settings_.Apply(only, &file);
    *net = file.net;
    return file;
  }

  NetState Merge(Phase phase, const NetParameter& net, const NetState* extra) const {
    NetState state;
    state.set_phase(phase);
    state.MergeFrom(net.state());
    if (extra != nullptr) state.MergeFrom(*extra);
    return state;
  }

  void ReadTrainNet() {
    NetOfRun& train = config_.train;
    SolverParameter& text = config_.solver.solver;
    if (param_.has_train_net_param()) {
      train.file = Embedded(text.mutable_train_net_param(), "train_net_param", TRAIN);
    } else if (param_.has_net_param()) {
      train.file = Embedded(text.mutable_net_param(), "net_param", std::nullopt);
    } else if (param_.has_train_net()) {
      train.file = Read("train_net", param_.train_net(), TRAIN);
    } else {
      train.file = Read("net", param_.net(), std::nullopt);
    }
    train.state =
        Merge(TRAIN, train.file.net, param_.has_train_state() ? &param_.train_state() : nullptr);
  }

  // Returns a hint if the file that is missing lies in the folder of the solver.
  std::string BesideSolver(const std::string& path) const {
    namespace fs = std::filesystem;
    const fs::path beside = fs::path(config_.solver.source.file).parent_path() / path;
    std::error_code error;
    if (path.empty() || beside == fs::path(path) || !fs::is_regular_file(beside, error)) return "";
    return StrCat(
        "; there is one beside the solver, but paths start in the folder where the command "
        "runs: write \"",
        beside.string(), "\"");
  }

  NetFile Read(const std::string& field, const std::string& path, std::optional<Phase> only) {
    try {
      NetFile file = ReadNet(path);
      settings_.Apply(only, &file);
      return file;
    } catch (const Error& error) {
      for (Problem problem : error.problems()) {
        if (problem.code == ErrorCode::kNotFound && problem.where.line == 0) {
          problem.message = StrCat(field, " \"", path, "\": ", problem.message, BesideSolver(path));
          problem.where = config_.solver.source.Locate(field);
        }
        problems_.push_back(std::move(problem));
      }
      return {};
    }
  }

  // Without test_iter every test net uses all of its data. The single net of a run is its own test
  // net if it declares a TEST phase.
  int CountWholeTests(int explicit_nets, bool generic) {
    if (explicit_nets > 0 || !generic || !WantsTests()) return explicit_nets;
    if (HasTestPhase(config_.train.file.net)) return 1;
    config_.solver.warnings.push_back(
        {ErrorCode::kInvalidArgument, config_.solver.source.Locate("test_interval"),
         "a test interval is set, but there is no test_iter, no test net, and the net has no layer "
         "of the TEST phase: nothing is tested"});
    return 0;
  }

  void ReadTestNets() {
    std::vector<NetFile> files;
    SolverParameter& text = config_.solver.solver;
    for (int i = 0; i < param_.test_net_param_size(); ++i) {
      files.push_back(
          Embedded(text.mutable_test_net_param(i), StrCat("test_net_param[", i, "]"), TEST));
    }
    for (int i = 0; i < param_.test_net_size(); ++i) {
      files.push_back(Read(StrCat("test_net[", i, "]"), param_.test_net(i), TEST));
    }
    const auto explicit_nets = static_cast<int>(files.size());
    const bool generic = param_.has_net() || param_.has_net_param();
    if (explicit_nets > 0 && !WantsTests()) {
      Report("",
             "there are test nets, but no test_interval: say every how many iterations they run");
      return;
    }
    const bool whole = param_.test_iter_size() == 0;
    const int count = whole ? CountWholeTests(explicit_nets, generic) : param_.test_iter_size();
    if (generic ? count < explicit_nets : count != explicit_nets) {
      Report("test_iter", StrCat("test_iter has ", count, " entries for ", explicit_nets,
                                 " test nets; give one for each, or none to test on every sample"));
      return;
    }
    while (generic && static_cast<int>(files.size()) < count) files.push_back(config_.train.file);
    if (param_.test_state_size() != 0 && param_.test_state_size() != count) {
      Report("test_state", StrCat("test_state has ", param_.test_state_size(), " entries for ",
                                  count, " test nets; give none or one each"));
      return;
    }
    for (int i = 0; i < count; ++i) {
      NetOfRun test{.file = std::move(files[static_cast<size_t>(i)]), .state = {}};
      test.state = Merge(TEST, test.file.net,
                         param_.test_state_size() > 0 ? &param_.test_state(i) : nullptr);
      config_.tests.push_back(std::move(test));
      config_.test_iterations.push_back(whole ? 0 : param_.test_iter(i));
    }
  }

  const SolverParameter param_;
  NetSettings settings_;
  RunConfig config_;
  std::vector<Problem> problems_;
};

struct UnreadField {
  const char* name;
  const char* effect;  // the consequence of ignoring it
};

constexpr UnreadField kUnread[] = {
    {"larc", "layers keep the common rate; type: \"LARS\" has rates by layer"},
    {"larc_turbo", "layers keep the common rate"},
    {"local_lr_auto", "layers keep the common rate; type: \"LARS\" has rates by layer"},
    {"momentum_policy", "momentum stays as it is"},
    {"weight_decay_policy", "weight_decay stays as it is"},
    {"solver_data_type", "weights are f32"},
    {"test_and_snapshot_last_epochs", "use test_interval_epoch and snapshot_epoch"},
    {"disabled_update", "weights are updated"},
    {"test_offset", "tests run at multiples of test_interval"},
    {"debug_info", "profile and replay look into a net"},
    {"snapshot_diff", "snapshots have no gradients; profile and replay look into a net"},
    {"layer_wise_reduce", "gradients of several GPUs are summed as they become complete"},
    {"store_blobs_in_old_format", "weights have the present format"},
    {"larc_policy", "layers keep the common rate"},
    {"larc_eta", "layers keep the common rate; LARS has trust_coefficient"},
    {"local_gw_ratio", "layers keep the common rate; LARS has trust_coefficient"},
    {"momentum_power", "momentum stays as it is"},
    {"max_momentum", "momentum stays as it is"},
    {"weight_decay_power", "weight_decay stays as it is"},
    {"max_weight_decay", "weight_decay stays as it is"},
};

bool IsSet(const SolverParameter& param, const std::string& name) {
  const auto* field = SolverParameter::descriptor()->FindFieldByName(name);
  CREMA_CHECK(field != nullptr);
  return crema::IsSet(param, *field);
}

Problem Warning(ErrorCode code, const std::string& field, std::string message) {
  return {code, {.field = field}, std::move(message)};
}

std::set<std::string> FieldsOf(const LrPolicy& policy) {
  std::set<std::string> fields(policy.reads.begin(), policy.reads.end());
  fields.insert(policy.needs.begin(), policy.needs.end());
  return fields;
}

// Returns the fields that some policy reads and this one does not. base_lr and max_iter matter for
// all.
std::set<std::string> FieldsOfOthers(const LrPolicy& chosen) {
  std::set<std::string> all;
  for (const LrPolicy& policy : LrPolicies()) all.merge(FieldsOf(policy));
  for (const std::string& field : FieldsOf(chosen)) all.erase(field);
  all.erase("base_lr");
  all.erase("max_iter");
  return all;
}

std::set<std::string> FieldsOfOthers(const UpdateRule& chosen) {
  std::set<std::string> all;
  for (const UpdateRule& rule : UpdateRules()) all.insert(rule.reads.begin(), rule.reads.end());
  for (const std::string& field : chosen.reads) all.erase(field);
  return all;
}

void WarnAboutFieldsOfOthers(const SolverParameter& param, const std::set<std::string>& fields,
                             const std::string& reader, std::vector<Problem>* warnings) {
  for (const std::string& field : fields) {
    if (!IsSet(param, field)) continue;
    warnings->push_back(Warning(ErrorCode::kInvalidArgument, field,
                                StrCat(field, " has no effect: ", reader, " does not read it")));
  }
}

}  // namespace

RunConfig MakeRunConfig(SolverFile solver, std::span<const FieldSetting> settings) {
  return Resolver(std::move(solver), settings).Resolve();
}

std::vector<Problem> WarnAboutUnreadFields(const SolverParameter& param) {
  std::vector<Problem> warnings;
  for (const UnreadField& unread : kUnread) {
    if (!IsSet(param, unread.name)) continue;
    warnings.push_back(
        Warning(ErrorCode::kUnsupported, unread.name,
                StrCat(unread.name, " has no effect in this version: ", unread.effect)));
  }
  if (const LrPolicy* policy = FindLrPolicy(param.lr_policy())) {
    WarnAboutFieldsOfOthers(param, FieldsOfOthers(*policy),
                            StrCat("lr_policy '", policy->name, "'"), &warnings);
  }
  if (const UpdateRule* rule = FindUpdateRule(param.type())) {
    WarnAboutFieldsOfOthers(param, FieldsOfOthers(*rule), StrCat("type '", rule->name, "'"),
                            &warnings);
  }
  return warnings;
}

}  // namespace crema
