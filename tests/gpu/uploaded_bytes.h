// Data sets of bytes, and sessions over them on both devices.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/records/lmdb.h"
#include "math/cuda/emulation.h"
#include "support/gpu.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema::test {

constexpr int kHeight = 9, kWidth = 13, kRecords = 7, kBatch = 3;

inline PlanOptions OnCpu() { return {}; }
inline PlanOptions OnGpu() { return {.device = {DeviceType::kCuda, 0}}; }

inline const PlannedLayer* FindType(const Plan& plan, const std::string& type) {
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.type->name == type) return &layer;
  }
  return nullptr;
}

inline const BlobSpec& SpecOf(const Plan& plan, int value) {
  return plan.values[static_cast<size_t>(value)].spec;
}

// Returns true if the images of the first layer are uploaded as bytes.
inline bool Uploads(const Plan& plan) {
  const PlannedLayer* floats = FindType(plan, "PixelsToFloat");
  return floats != nullptr && floats->inputs[0] == plan.layers[0].outputs[0];
}

inline std::string WhyNot(const Plan& plan) {
  for (const SkippedImplementation& skipped : plan.layers[0].skipped) {
    if (skipped.implementation == "bytes") return skipped.reason;
  }
  return "";
}

inline std::string BytesOf(const Session& session, const std::string& blob) {
  const ConstTensorView view = session.Data(blob);
  std::string bytes(view.bytes(), '\0');
  session.Read(view, bytes.data());
  return bytes;
}

inline std::unique_ptr<Session> Open(const std::string& text, Phase phase,
                                     const PlanOptions& options, QueueTrace* trace = nullptr) {
  const auto plan = PlanText(text, phase, options);
  const bool cpu = options.device.type == DeviceType::kCpu;
  return std::make_unique<Session>(plan, Weights::Make(*plan, 1),
                                   cpu                ? ExecContext(1, 5)
                                   : trace == nullptr ? GpuContext(5)
                                                      : EmulatedGpuContext(trace, 5));
}

inline std::string ErrorOf(const std::string& text, Phase phase, const PlanOptions& options) {
  try {
    const auto session = Open(text, phase, options);
    for (int i = 0; i < kRecords; ++i) session->Forward();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class UploadedBytes : public ::testing::Test {
 protected:
  static Datum Drawn(int channels, int number, int width = kWidth) {
    Datum datum;
    datum.set_channels(channels);
    datum.set_height(kHeight);
    datum.set_width(width);
    datum.set_label(number);
    const RandomStream random(static_cast<uint64_t>(number), 8);
    for (int i = 0; i < channels * kHeight * width; ++i) {
      datum.mutable_data()->push_back(
          static_cast<char>(random.Below(static_cast<uint64_t>(i), 256)));
    }
    return datum;
  }
  static Datum OfFloats(int number) {
    Datum datum = Drawn(3, number);
    for (const char byte : datum.data()) datum.add_float_data(static_cast<float>(byte) + 0.5F);
    datum.clear_data();
    return datum;
  }
  std::string Write(const std::string& name, const std::vector<Datum>& records) const {
    LmdbWriter writer(temp_.File(name));
    for (size_t i = 0; i < records.size(); ++i) {
      writer.Put(StrCat("key", i), records[i].SerializeAsString());
    }
    writer.Close();
    return temp_.File(name);
  }
  std::string WriteDrawn(int channels) const {
    std::vector<Datum> records;
    for (int n = 0; n < kRecords; ++n) records.push_back(Drawn(channels, n));
    return Write(StrCat("drawn", channels), records);
  }
  std::string WriteMean(int channels, int height = kHeight) const {
    BlobProto blob;
    for (const int dim : {channels, height, kWidth}) blob.mutable_shape()->add_dim(dim);
    for (int i = 0; i < channels * height * kWidth; ++i) {
      blob.add_data(0.37F * static_cast<float>(i % 401));
    }
    return temp_.Write(StrCat("mean", channels, "x", height), blob.SerializeAsString());
  }
  TempDir temp_;
};

inline std::string DataNet(const std::string& source, const std::string& transform,
                           const std::string& more = "", const std::string& tops = "top: 'label'") {
  return StrCat("layer { name: 'd' type: 'Data' top: 'data' ", tops, " data_param { source: '",
                source, "' batch_size: ", kBatch, " } transform_param { ", transform, " } ", more,
                " } ");
}

}  // namespace crema::test
