#include "deploy/export_onnx.h"

#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "common/interrupt.h"
#include "common/json.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "deploy/arrays.h"
#include "deploy/options.h"
#include "inference/model_batches.h"
#include "inference/model_parts.h"
#include "inference/recording.h"
#include "onnx/export.h"
#include "onnx/export_check.h"

DEFINE_string(
    format, "",
    "[Output crema|onnx @export] crema or onnx; without it, the extension of the file decides");
DEFINE_int32(opset, 17, "[Output @export] to ONNX: version of the operators, 13 to 23");
DEFINE_bool(preprocessing, false,
            "[Output @export] to ONNX: put --mean, --scale and --invert into the graph; its input "
            "then takes "
            "pixels 0..255, red first");
DEFINE_bool(
    f16_weights, false,
    "[Output @export] to ONNX: store matrices and filters as float16; the net computes in float32");
DEFINE_bool(
    external_data, false,
    "[Output @export] to ONNX: put weights into a file beside it, FILE.data; from 2 GiB on always");
DEFINE_string(check, "import",
              "[Run import|onnxruntime|none @export] to ONNX: compare the file with the net before "
              "it gets its name. import: read "
              "it back; onnxruntime: in ONNX Runtime, by python3; none");
DECLARE_double(rtol);

namespace crema::tools {
namespace {

// Ends the writing of a file that computes something else.
struct DiffersError {
  std::string reason;
};

// The allowed difference relative to the largest value of a blob.
double ToleranceOf(const Model& model) {
  if (IsGiven("rtol")) return FLAGS_rtol;
  const double rounded = RecordedTolerance(model.parts().net.net);
  if (model.parts().net.net.precision() == INT8) return rounded;
  constexpr double kHalfWeights = 2e-2;
  return FLAGS_f16_weights ? kHalfWeights : FLAGS_rtol;
}

// Random inputs, drawn twice, and those of --input.
std::vector<std::vector<NamedOutput>> InputsToCheck(const std::shared_ptr<const Model>& model,
                                                    bool pixels) {
  std::vector<std::vector<NamedOutput>> all;
  for (const uint64_t seed : {1, 2}) {
    const auto batch = static_cast<int64_t>(seed);
    if (!pixels) {
      all.push_back(AcceptedInputs(model, batch, seed));
      continue;
    }
    all.push_back(RandomInputs(*model, batch, seed));
    for (float& value : all.back()[0].value.view().span<float>()) value *= 255;
  }
  if (HasInputFiles()) all.push_back(InputsOfFlags(*model));
  return all;
}

// Returns why the file was not compared; empty: it was. Throws DiffersError.
std::string Check(const std::shared_ptr<const Model>& model, const OnnxExport& exported,
                  const Registry& registry, const std::string& path) {
  if (FLAGS_check == "none") return "as --check=none asks";
  const OnnxRunner runner = FLAGS_check == "import"
                                ? ImportedRunner(model->parts().options, registry)
                                : OnnxRuntimeRunner();
  for (const std::vector<NamedOutput>& inputs : InputsToCheck(model, exported.preprocessing)) {
    EndIfInterrupted();
    try {
      const OnnxDifference found =
          CompareWithOnnx(*model, exported, path, ViewsOf(inputs), runner, ToleranceOf(*model));
      if (!found.blob.empty()) throw DiffersError{found.reason};
    } catch (const Error& error) {
      EndIfInterrupted();  // Ctrl-C ends python3 too
      // A correct file may have operators that the importer cannot read, such as detections.
      if (error.code() != ErrorCode::kUnsupported || IsGiven("check")) throw;
      return StrCat("since Crema cannot read it back: ", error.problems().front().message,
                    ". --check=onnxruntime compares it");
    }
  }
  EndIfInterrupted();
  return "";
}

// Weights of an earlier export that this one neither reads nor writes.
class StaleData {
 public:
  explicit StaleData(const std::string& path) : data_(path + ".data"), before_(Time()) {}
  void Report() const {
    if (!before_ || Time() != before_) return;
    ToolLog().Write(Severity::kWarning,
                    StrCat(data_, " is not of this export; remove it if nothing else needs it"));
  }

 private:
  std::optional<std::filesystem::file_time_type> Time() const {
    std::error_code error;
    const auto time = std::filesystem::last_write_time(data_, error);
    return error ? std::nullopt : std::optional(time);
  }
  const std::string data_;
  const std::optional<std::filesystem::file_time_type> before_;
};

void Print(const std::string& path, const OnnxExport& exported, const std::string& unchecked) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  const int nodes = exported.model.graph().node_size();
  if (FLAGS_json) {
    std::printf(
        "{\"file\": %s, \"opset\": %d, \"nodes\": %d, \"batch\": %s, \"bytes\": %ju, "
        "\"checked\": %s}\n",
        JsonString(path).c_str(), FLAGS_opset, nodes, exported.batches ? "\"N\"" : "null", bytes,
        unchecked.empty() ? "true" : "false");
    return;
  }
  for (const std::string& note : exported.notes) std::printf("%s\n", note.c_str());
  if (!unchecked.empty()) std::printf("not checked, %s\n", unchecked.c_str());
  std::printf("%s: opset %d, %d nodes, %s, %.1f MiB\n", path.c_str(), FLAGS_opset, nodes,
              exported.batches ? "any batch" : "fixed batch",
              static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

bool WantsOnnx(const std::string& path) {
  const bool onnx = FLAGS_format.empty() ? path.ends_with(".onnx") : FLAGS_format == "onnx";
  if (!onnx && !FLAGS_format.empty() && FLAGS_format != "crema") {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--format: '", FLAGS_format, "' is neither crema nor onnx"));
  }
  if (FLAGS_check != "import" && FLAGS_check != "onnxruntime" && FLAGS_check != "none") {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--check: '", FLAGS_check, "' is not import, onnxruntime or none"));
  }
  // Also of the check of an export.
  if (!(FLAGS_rtol >= 0)) Fail(ErrorCode::kInvalidArgument, "--rtol must be 0 or more");
  for (const char* flag : {"opset", "preprocessing", "f16_weights", "external_data", "check"}) {
    if (onnx || !IsGiven(flag)) continue;
    Fail(ErrorCode::kInvalidArgument, StrCat("--", flag, " is for --format=onnx"));
  }
  return onnx;
}

int ExportOnnx(const std::shared_ptr<const Model>& model, const Registry& registry,
               const std::string& path) {
  const OnnxExport exported = ToOnnx(*model, {.opset = FLAGS_opset,
                                              .half_weights = FLAGS_f16_weights,
                                              .preprocessing = FLAGS_preprocessing});
  std::string unchecked;
  const StaleData stale(path);
  try {
    WithoutLeftovers([&] {
      WriteOnnx(exported, path, FLAGS_external_data, [&](const std::string& written) {
        unchecked = Check(model, exported, registry, written);
      });
      return 0;
    });
  } catch (const DiffersError& differs) {
    std::fprintf(stderr, "%s is not written: %s\n", path.c_str(), differs.reason.c_str());
    return 1;
  }
  stale.Report();
  Print(path, exported, unchecked);
  return 0;
}

}  // namespace crema::tools
