// Matches parameters of a weights file to a net: the read-only part of Weights::Load.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "runtime/weights.h"

namespace crema {

// One pass over plan and file. Thread safety: one thread.
class WeightsMatcher {
 public:
  // The arguments must outlive it.
  WeightsMatcher(const Plan& plan, const NetParameter& model, const std::string& file,
                 MissingLayers missing, OnMismatch on_mismatch);

  // Throws with all problems; see Weights::Load. Call once.
  LoadReport Match();

  // Returns learned slots and the blobs to copy into them.
  const std::vector<std::pair<int, const BlobProto*>>& matches() const { return matches_; }

 private:
  // The effect of one layer of the file on one of the net.
  struct LayerMatch {
    std::vector<std::pair<int, const BlobProto*>> blobs;
    std::vector<std::string> mismatches;
    std::vector<std::string> reshaped;
  };

  void MatchLayer(const PlannedLayer& layer, const LayerParameter& source);
  LayerMatch MatchBlobs(const PlannedLayer& layer, std::span<const BlobProto* const> blobs) const;
  void MatchBlob(int slot_index, int blob_index, const BlobProto& blob, LayerMatch* match) const;
  std::vector<const BlobProto*> BlobsOf(const PlannedLayer& layer, const LayerParameter& source);
  bool HasRightCount(const PlannedLayer& layer, size_t count) const;
  std::string Roles(const PlannedLayer& layer) const;
  void SuggestRename(const PlannedLayer& layer, std::set<std::string>* taken);
  bool Fits(const PlannedLayer& layer, const LayerParameter& source) const;
  void ReportMissing(const PlannedLayer& layer);
  void Report(const PlannedLayer& layer, std::string message,
              ErrorCode code = ErrorCode::kInvalidArgument);

  const Plan& plan_;
  const std::string& file_;
  MissingLayers missing_;
  OnMismatch on_mismatch_;
  std::map<std::string, const LayerParameter*> by_name_;
  std::set<std::string> unused_;
  std::deque<std::vector<BlobProto>> adapted_;
  std::vector<Problem> problems_;
  std::vector<std::pair<int, const BlobProto*>> matches_;
  LoadReport report_;
};

}  // namespace crema
