#include "solvers/unread_fields.h"

#include <string>
#include <utility>

#include "core/strings.h"

namespace crema {
namespace {

struct UnreadField {
  const char* name;
  const char* effect;  // what the run lacks without it
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
    {"show_per_class_result", "use evaluate --report"},
    {"debug_info", "profile and replay look into a net"},
};

// Written out, and not as what it is without being written.
bool IsSet(const SolverParameter& param, const google::protobuf::FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *param.GetReflection();
  if (!reflection.HasField(param, &field)) return false;
  using Descriptor = google::protobuf::FieldDescriptor;
  switch (field.cpp_type()) {
    case Descriptor::CPPTYPE_BOOL:
      return reflection.GetBool(param, &field) != field.default_value_bool();
    case Descriptor::CPPTYPE_INT32:
      return reflection.GetInt32(param, &field) != field.default_value_int32();
    case Descriptor::CPPTYPE_STRING:
      return reflection.GetString(param, &field) != field.default_value_string();
    case Descriptor::CPPTYPE_ENUM:
      return reflection.GetEnum(param, &field) != field.default_value_enum();
    default:
      return true;
  }
}

}  // namespace

std::vector<Problem> WarnAboutUnreadFields(const SolverParameter& param) {
  std::vector<Problem> warnings;
  for (const UnreadField& unread : kUnread) {
    const auto* field = SolverParameter::descriptor()->FindFieldByName(unread.name);
    CREMA_CHECK(field != nullptr);
    if (!IsSet(param, *field)) continue;
    Where where;
    where.field = unread.name;
    warnings.push_back({ErrorCode::kUnsupported, std::move(where),
                        StrCat(unread.name, " has no effect in this version: ", unread.effect)});
  }
  return warnings;
}

}  // namespace crema
