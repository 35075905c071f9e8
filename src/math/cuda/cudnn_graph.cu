#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "math/cuda/cudnn_graph.h"

namespace crema {

void CheckCudnnGraph(cudnnStatus_t status, std::string_view call) {
  constexpr int kKind = 1000;
  const int kind = status / kKind;
  const bool refused =
      kind == CUDNN_STATUS_NOT_SUPPORTED / kKind || kind == CUDNN_STATUS_BAD_PARAM / kKind;
  if (!refused) return CheckCudnn(status, call);
  std::array<char, 512> last{};
  Cudnn().last_error_string(last.data(), last.size());
  last.back() = '\0';
  Fail(ErrorCode::kUnsupported, StrCat("cuDNN says ", Cudnn().error_string(status),
                                       last[0] == '\0' ? "" : ": ", last.data()));
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) : library_(&Cudnn()) {
  CheckCudnnGraph(library_->backend_create(type, &descriptor_), "cudnnBackendCreateDescriptor");
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : library_(other.library_), descriptor_(std::exchange(other.descriptor_, nullptr)) {}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) library_->backend_destroy(descriptor_);
}

void CudnnDescriptor::Finalize() {
  CheckCudnnGraph(library_->backend_finalize(descriptor_), "cudnnBackendFinalize");
}

void CudnnDescriptor::SetArray(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                               int64_t count, const void* values) {
  CheckCudnnGraph(library_->backend_set_attribute(descriptor_, name, type, count, values),
                  "cudnnBackendSetAttribute");
}

int64_t CudnnDescriptor::GetArray(cudnnBackendAttributeName_t name,
                                  cudnnBackendAttributeType_t type, int64_t most,
                                  void* values) const {
  int64_t count = 0;
  CheckCudnnGraph(library_->backend_get_attribute(descriptor_, name, type, most, &count, values),
                  "cudnnBackendGetAttribute");
  return values == nullptr ? count : std::min(count, most);
}

int64_t CudnnDescriptor::GetInteger(cudnnBackendAttributeName_t name) const {
  int64_t value = 0;
  CREMA_CHECK(GetArray(name, CUDNN_TYPE_INT64, 1, &value) == 1);
  return value;
}

CudnnDescriptor& CudnnGraph::Keep(cudnnBackendDescriptorType_t type) {
  kept_.push_back(std::make_unique<CudnnDescriptor>(type));
  return *kept_.back();
}

size_t CudnnGraph::AddTensor(const CudnnTensor& tensor) {
  auto made = std::make_unique<CudnnDescriptor>(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made->Set(CUDNN_ATTR_TENSOR_DATA_TYPE, tensor.type);
  made->Set(CUDNN_ATTR_TENSOR_DIMENSIONS, tensor.sizes);
  made->Set(CUDNN_ATTR_TENSOR_STRIDES, tensor.strides);
  made->SetInteger(CUDNN_ATTR_TENSOR_UNIQUE_ID, tensor.id);
  made->SetInteger(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, tensor.alignment);
  if (tensor.is_virtual) made->SetBool(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  made->Finalize();
  tensors_.push_back(std::move(made));
  return tensors_.size() - 1;
}

const CudnnDescriptor& CudnnGraph::WindowDescriptor(const CudnnWindow& window) {
  CudnnDescriptor& made = Keep(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  made.SetInteger(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<int64_t>(window.pad.size()));
  made.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  made.SetArray(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  made.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, window.pad);
  made.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, window.pad);
  made.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, window.stride);
  made.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, window.dilation);
  made.Finalize();
  return made;
}

void CudnnGraph::AddConvolution(const CudnnWindow& window, size_t x, size_t w, size_t y) {
  const CudnnDescriptor& how = WindowDescriptor(window);
  CudnnDescriptor& made = Keep(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  made.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, how);
  made.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, *tensors_[x]);
  made.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, *tensors_[w]);
  made.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, *tensors_[y]);
  made.SetFloat(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1);
  made.SetFloat(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0);
  made.Finalize();
  operations_.push_back(made.get());
}

void CudnnGraph::AddBackwardData(const CudnnWindow& window, size_t dy, size_t w, size_t dx) {
  const CudnnDescriptor& how = WindowDescriptor(window);
  CudnnDescriptor& made = Keep(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  made.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, how);
  made.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, *tensors_[dy]);
  made.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, *tensors_[w]);
  made.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, *tensors_[dx]);
  made.SetFloat(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1);
  made.SetFloat(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0);
  made.Finalize();
  operations_.push_back(made.get());
}

void CudnnGraph::AddBackwardFilter(const CudnnWindow& window, size_t x, size_t dy, size_t dw) {
  const CudnnDescriptor& how = WindowDescriptor(window);
  CudnnDescriptor& made = Keep(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  made.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, how);
  made.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, *tensors_[x]);
  made.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, *tensors_[dy]);
  made.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, *tensors_[dw]);
  made.SetFloat(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1);
  made.SetFloat(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0);
  made.Finalize();
  operations_.push_back(made.get());
}

const CudnnDescriptor& CudnnGraph::PointwiseDescriptor(const CudnnPointwise& pointwise) {
  CudnnDescriptor& how = Keep(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.SetArray(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &pointwise.mode);
  how.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  if (pointwise.mode == CUDNN_POINTWISE_RELU_FWD) {
    // NaN must reach the loss, where it is detected.
    const cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN;
    how.SetArray(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &nan);
    how.SetDouble(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 0);
    if (pointwise.slope != 0) {
      how.SetDouble(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, pointwise.slope);
    }
  }
  how.Finalize();
  return how;
}

void CudnnGraph::AddPointwise(const CudnnPointwise& pointwise, size_t x, const size_t* b,
                              size_t y) {
  const CudnnDescriptor& how = PointwiseDescriptor(pointwise);
  CudnnDescriptor& made = Keep(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  made.Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *tensors_[x]);
  if (b != nullptr) made.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *tensors_[*b]);
  made.Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *tensors_[y]);
  made.Finalize();
  operations_.push_back(made.get());
}

void CudnnGraph::Finalize(cudnnHandle_t handle) {
  graph_ = std::make_unique<CudnnDescriptor>(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph_->SetDescriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_);
  graph_->Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  graph_->Finalize();
}

bool CudnnEngine::Has(cudnnBackendNumericalNote_t note) const {
  return std::ranges::find(notes, note) != notes.end();
}

namespace {

CudnnEngine Describe(CudnnDescriptor config, int64_t place) {
  const CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t into = engine.get();
  config.GetArray(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &into);
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  notes.resize(static_cast<size_t>(engine.GetArray(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                   CUDNN_TYPE_NUMERICAL_NOTE,
                                                   CUDNN_NUMERICAL_NOTE_TYPE_COUNT, notes.data())));
  std::string name =
      StrCat("engine ", engine.GetInteger(CUDNN_ATTR_ENGINE_GLOBAL_INDEX), " (", place, ")");
  return {std::move(config), std::move(name), std::move(notes)};
}

// Returns the first reason of cuDNN's error stack, which reading clears. Stacks of engines have
// lines such as "Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: w->type != CUDNN_DATA_HALF".
std::string LastWords() {
  constexpr std::string_view kReason = "Reason: ";
  std::array<char, 1024> last{};
  Cudnn().last_error_string(last.data(), last.size());
  last.back() = '\0';
  std::string_view words = last.data();
  if (const size_t at = words.find(kReason); at != words.npos) {
    words.remove_prefix(at + kReason.size());
  }
  return std::string(words.substr(0, words.find('\n')));
}

}  // namespace

std::vector<CudnnEngine> CudnnEngines(const CudnnGraph& graph, bool fallback, std::string* words) {
  LastWords();  // clears those of other graphs
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.descriptor());
  const cudnnBackendHeurMode_t mode = fallback ? CUDNN_HEUR_MODE_FALLBACK : CUDNN_HEUR_MODE_A;
  heuristics.SetArray(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  heuristics.Finalize();
  const int64_t most =
      heuristics.GetArray(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<CudnnDescriptor> configs;
  std::vector<cudnnBackendDescriptor_t> into;
  configs.reserve(static_cast<size_t>(most));
  for (int64_t i = 0; i < most; ++i) {
    into.push_back(configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  }
  const int64_t count = most == 0
                            ? 0
                            : heuristics.GetArray(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, most, into.data());
  std::vector<CudnnEngine> engines;
  for (int64_t i = 0; i < count; ++i) {
    CudnnEngine engine = Describe(std::move(configs[static_cast<size_t>(i)]), i);
    if (fallback) engine.name += " of the fallbacks";
    engines.push_back(std::move(engine));
  }
  if (engines.empty() && words != nullptr) *words = LastWords();
  return engines;
}

CudnnPlan::CudnnPlan(cudnnHandle_t handle, std::shared_ptr<const CudnnGraph> graph,
                     const CudnnEngine& engine)
    : name_(engine.name), graph_(std::move(graph)), plan_(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
  plan_.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);
  plan_.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine.config);
  plan_.Finalize();
  workspace_ = plan_.GetInteger(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
}

const CudnnDescriptor& CudnnPlan::PackOf(std::span<const int64_t> ids, std::span<void* const> data,
                                         void* workspace) {
  std::vector<void*> wanted(data.begin(), data.end());
  wanted.push_back(workspace);
  if (pack_ != nullptr && wanted == packed_) return *pack_;
  auto pack = std::make_unique<CudnnDescriptor>(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack->Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack->SetPointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, data);
  pack->SetPointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {&workspace, 1});
  pack->Finalize();
  pack_ = std::move(pack);
  packed_ = std::move(wanted);
  return *pack_;
}

void CudnnPlan::Run(cudnnHandle_t handle, std::span<const int64_t> ids, std::span<void* const> data,
                    void* workspace) {
  const CudnnDescriptor& pack = PackOf(ids, data, workspace);
  CheckCudnn(Cudnn().backend_execute(handle, plan_.get(), pack.get()), "cudnnBackendExecute");
}

}  // namespace crema
