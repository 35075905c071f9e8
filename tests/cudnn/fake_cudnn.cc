#include "cudnn/fake_cudnn.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "core/strings.h"
#include "cudnn/fake_descriptor.h"

namespace crema::test {
namespace {

std::string& LastError() {
  static std::string text;
  return text;
}

cudnnStatus_t Refuse(cudnnStatus_t status, std::string why) {
  LastError() = std::move(why);
  return status;
}

FakeDescriptor* Of(void* descriptor) { return static_cast<FakeDescriptor*>(descriptor); }

size_t SizeOf(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
      return 8;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return sizeof(void*);
    case CUDNN_TYPE_BOOLEAN:
      return sizeof(bool);
    default:
      return 4;  // f32, enumerations
  }
}

cudnnStatus_t Create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  auto* made = new FakeDescriptor;
  made->type = type;
  *descriptor = made;
  ++FakeCounts().descriptors;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Destroy(cudnnBackendDescriptor_t descriptor) {
  delete Of(descriptor);
  --FakeCounts().descriptors;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  if (Of(descriptor)->finalized) return Refuse(CUDNN_STATUS_BAD_PARAM, "it is finalized");
  const auto* first = static_cast<const std::byte*>(values);
  const size_t bytes = SizeOf(type) * static_cast<size_t>(count);
  Of(descriptor)->attributes[name] = {type, count, {first, first + bytes}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Finalize(cudnnBackendDescriptor_t descriptor) {
  FakeDescriptor& d = *Of(descriptor);
  const std::string fault = FakeFault(d);
  if (!fault.empty()) return Refuse(CUDNN_STATUS_BAD_PARAM, fault);
  if (d.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    const auto& refuse = FakeRules().refuse;
    std::string why = refuse ? refuse(FakeOperations(d)) : "";
    if (!why.empty()) return Refuse(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, std::move(why));
    ++FakeCounts().graphs;
  }
  if (d.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR &&
      d.ValueOf<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == FakeRules().refused_mode) {
    return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "not that mode");
  }
  if (d.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    const FakeDescriptor& config = d.DescriptorOf(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    d.engine = config.engine;
    d.graph = config.graph;
    if (!d.engine.refusal.empty()) return Refuse(CUDNN_STATUS_NOT_SUPPORTED, d.engine.refusal);
  }
  d.finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t GetEngines(const FakeDescriptor& heuristics, int64_t most, int64_t* count,
                         void* values) {
  const auto mode = heuristics.ValueOf<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE);
  const auto& engines =
      mode == CUDNN_HEUR_MODE_FALLBACK ? FakeRules().fallbacks : FakeRules().engines;
  *count = static_cast<int64_t>(engines.size());
  for (int64_t i = 0; values != nullptr && i < std::min(most, *count); ++i) {
    FakeDescriptor& config = *Of(static_cast<void**>(values)[i]);
    config.engine = engines[static_cast<size_t>(i)];
    config.graph = &heuristics.DescriptorOf(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    config.finalized = true;
  }
  return CUDNN_STATUS_SUCCESS;
}

template <typename T>
cudnnStatus_t Give(const std::vector<T>& array, int64_t most, int64_t* count, void* values) {
  *count = static_cast<int64_t>(array.size());
  const auto given = static_cast<size_t>(std::min(most, *count));
  if (values != nullptr && given > 0) std::memcpy(values, array.data(), given * sizeof(T));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Get(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, int64_t most, int64_t* count, void* values) {
  const FakeDescriptor& d = *Of(descriptor);
  if (!d.finalized) return Refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "it is not finalized");
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      return GetEngines(d, most, count, values);
    case CUDNN_ATTR_ENGINECFG_ENGINE: {
      FakeDescriptor& engine = *Of(*static_cast<void**>(values));
      engine.engine = d.engine;
      engine.finalized = true;
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      return Give(d.engine.notes, most, count, values);
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      return Give(std::vector<int64_t>{d.engine.number}, most, count, values);
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      if (type != CUDNN_TYPE_INT64) return Refuse(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "type");
      return Give(std::vector<int64_t>{d.engine.workspace}, most, count, values);
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "nobody asks for that");
  }
}

cudnnStatus_t Execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                      cudnnBackendDescriptor_t pack) {
  const FakeDescriptor& p = *Of(plan);
  if (handle == nullptr || !p.finalized || !Of(pack)->finalized) {
    return Refuse(CUDNN_STATUS_BAD_PARAM, "not ready");
  }
  if (p.engine.fails) return Refuse(CUDNN_STATUS_EXECUTION_FAILED, "it fails");
  auto* workspace = Of(pack)->ValueOf<char*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (reinterpret_cast<uintptr_t>(workspace) % 256 != 0) {
    return Refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "workspace");
  }
  // Overwrites memory if the workspace is smaller than the plan requires.
  std::memset(workspace, 0x5A, static_cast<size_t>(p.engine.workspace));
  std::string fault = FakeCompute(*p.graph, *Of(pack));
  if (!fault.empty()) return Refuse(CUDNN_STATUS_BAD_PARAM, std::move(fault));
  std::this_thread::sleep_for(std::chrono::milliseconds(p.engine.milliseconds));
  ++FakeCounts().runs[p.engine.number];
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CreateHandle(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(new int(0));
  ++FakeCounts().handles;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t DestroyHandle(cudnnHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  --FakeCounts().handles;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t SetStream(cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; }
size_t Version() { return 90000; }
const char* ErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN ? "NOT_SUPPORTED_GRAPH_PATTERN"
         : status == CUDNN_STATUS_NOT_SUPPORTED             ? "NOT_SUPPORTED"
                                                            : "BAD_PARAM";
}
void LastErrorString(char* message, size_t size) {
  if (size == 0) return;
  const std::string text = std::exchange(LastError(), "").substr(0, size - 1);
  std::memcpy(message, text.c_str(), text.size() + 1);
}

}  // namespace

FakeCudnnRules& FakeRules() {
  static FakeCudnnRules rules;
  return rules;
}

FakeCudnnCounts& FakeCounts() {
  static FakeCudnnCounts counts;
  return counts;
}

const CudnnLibrary& FakeCudnn() {
  static const CudnnLibrary library = [] {
    CudnnLibrary made{};
    made.create = CreateHandle;
    made.destroy = DestroyHandle;
    made.set_stream = SetStream;
    made.version = Version;
    made.error_string = ErrorString;
    made.last_error_string = LastErrorString;
    made.backend_create = Create;
    made.backend_destroy = Destroy;
    made.backend_set_attribute = Set;
    made.backend_get_attribute = Get;
    made.backend_finalize = Finalize;
    made.backend_execute = Execute;
    return made;
  }();
  return library;
}

}  // namespace crema::test
