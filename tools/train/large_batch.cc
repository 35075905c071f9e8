#include "train/large_batch.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "common/run_settings.h"
#include "core/error.h"
#include "core/strings.h"

DEFINE_string(large_batch, "",
              "[Run linear|lars] the learning rate for the batch of n ranks or GPUs; linear: "
              "base_lr times n after a warm-up, lars: the same with type: LARS");

namespace crema::tools {
namespace {

constexpr const char* kBaseRate = "base_lr";
constexpr int kWarmupShare = 20;  // 1/20 of the run: about 5 epochs of 90, as in the paper

FieldSetting SettingOf(const char* path, const std::string& value) {
  return {path, value, StrCat("--large_batch=", FLAGS_large_batch)};
}

}  // namespace

std::vector<FieldSetting> LargeBatchSettings(int ranks, const SolverParameter& solver,
                                             std::span<const FieldSetting> settings, LogSink& log) {
  if (FLAGS_large_batch.empty()) return {};
  const std::vector<std::string> rules = {"linear", "lars"};
  if (std::ranges::find(rules, FLAGS_large_batch) == rules.end()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--large_batch: '", FLAGS_large_batch, "' is not one of linear, lars",
                DidYouMean(FLAGS_large_batch, rules)));
  }
  const bool keeps = std::ranges::any_of(settings, [](const FieldSetting& setting) {
    return setting.path == kBaseRate && setting.origin.find(kKeptFrom) != std::string::npos;
  });
  if (keeps) {
    log.Write(Severity::kInfo, StrCat("--large_batch has no effect: the run keeps its base_lr of ",
                                      solver.base_lr()));
    return {};
  }
  if (ranks < 2) {
    Fail(ErrorCode::kInvalidArgument,
         "--large_batch multiplies base_lr by the number of processes or GPUs, and this run has "
         "one; give --set base_lr=RATE");
  }
  std::vector<FieldSetting> rule = {
      SettingOf(kBaseRate, StrCat(solver.base_lr() * static_cast<float>(ranks)))};
  if (FLAGS_large_batch == "lars") rule.push_back(SettingOf("type", "LARS"));
  // These policies start with a low rate by themselves.
  const bool warms_up =
      solver.warmup_iter() > 0 || solver.rampup_interval() > 0 || solver.lr_policy() == "one_cycle";
  if (!warms_up && solver.max_iter() == 0) {
    Fail(ErrorCode::kInvalidArgument,
         "--large_batch needs the length of its warm-up, which is a twentieth of max_iter: with "
         "max_epoch give --set warmup_iter=N");
  }
  if (const int warmup = solver.max_iter() / kWarmupShare; !warms_up && warmup > 0) {
    rule.push_back(SettingOf("warmup_iter", StrCat(warmup)));
    rule.push_back(SettingOf("warmup_start_lr", StrCat(solver.base_lr())));
  }
  std::vector<std::string> parts;
  for (const FieldSetting& one : rule) parts.push_back(StrCat(one.path, "=", one.value));
  log.Write(Severity::kInfo, StrCat("--large_batch=", FLAGS_large_batch, ", for ", ranks,
                                    " times the batch: ", Join(parts, " ")));
  return rule;
}

std::vector<std::string> CommandWithRule(std::vector<std::string> command,
                                         std::span<const FieldSetting> rule) {
  const auto is_flag = [](std::string_view word) {
    word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
    return word.starts_with("large_batch");
  };
  const auto flag = std::find_if(command.begin() + 1, command.end(), is_flag);
  if (flag != command.end()) {
    const bool has_value = flag->find('=') != std::string::npos;
    command.erase(flag, flag + (has_value ? 1 : std::min<ptrdiff_t>(2, command.end() - flag)));
  }
  for (const FieldSetting& one : rule) {
    command.push_back(StrCat("--set=", one.path, "=", one.value));
  }
  return command;
}

}  // namespace crema::tools
