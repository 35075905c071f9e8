#include "solvers/unread_fields.h"

#include <set>
#include <string>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "solvers/lr_policies.h"
#include "solvers/update_rule.h"

namespace crema {
namespace {

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
};

// Explicitly set, to another value than the default.
bool IsSet(const SolverParameter& param, const google::protobuf::FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *param.GetReflection();
  if (field.is_repeated()) return reflection.FieldSize(param, &field) > 0;
  if (!reflection.HasField(param, &field)) return false;
  using Descriptor = google::protobuf::FieldDescriptor;
  switch (field.cpp_type()) {
    case Descriptor::CPPTYPE_BOOL:
      return reflection.GetBool(param, &field) != field.default_value_bool();
    case Descriptor::CPPTYPE_INT32:
      return reflection.GetInt32(param, &field) != field.default_value_int32();
    case Descriptor::CPPTYPE_FLOAT:
      return reflection.GetFloat(param, &field) != field.default_value_float();
    case Descriptor::CPPTYPE_STRING:
      return reflection.GetString(param, &field) != field.default_value_string();
    case Descriptor::CPPTYPE_ENUM:
      return reflection.GetEnum(param, &field) != field.default_value_enum();
    default:
      return true;
  }
}

bool IsSet(const SolverParameter& param, const std::string& name) {
  const auto* field = SolverParameter::descriptor()->FindFieldByName(name);
  CREMA_CHECK(field != nullptr);
  return IsSet(param, *field);
}

Problem Warning(ErrorCode code, const std::string& field, std::string message) {
  Where where;
  where.field = field;
  return {code, std::move(where), std::move(message)};
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
