#include "deploy/verify_parts.h"

#include <algorithm>
#include <cstdio>

#include "common/json.h"
#include "core/error.h"
#include "core/strings.h"
#include "deploy/options.h"

namespace crema::tools {
namespace {

bool Fits(const Difference& d, const std::optional<Tolerance>& tolerance) {
  if (!d.note.empty()) return false;
  return !tolerance || d.largest <= tolerance->atol + tolerance->rtol * d.most;
}

std::string Json(const char* what, const Difference& d) {
  std::string text = StrCat("{\"", what, "\": ", JsonString(d.blob));
  if (!d.layer.empty()) text += StrCat(", \"layer\": ", JsonString(d.layer));
  if (!d.note.empty()) return text + StrCat(", \"note\": ", JsonString(d.note));
  return text + StrCat(", \"max_difference\": ", JsonNumber(d.largest),
                       ", \"relative_error\": ", JsonNumber(d.relative()));
}

std::string Line(const Difference& d) {
  char text[256];
  if (!d.note.empty()) {
    std::snprintf(text, sizeof(text), "%-32s not compared: %s", d.blob.c_str(), d.note.c_str());
  } else {
    std::snprintf(text, sizeof(text), "%-32s largest difference %-12.6g relative error %-12.6g",
                  d.blob.c_str(), d.largest, d.relative());
  }
  return text;
}

}  // namespace

ModelPair::ModelPair(const std::shared_ptr<const Model>& a, const std::shared_ptr<const Model>& b,
                     double confidence)
    : confidence_(confidence), a_(a), b_(b) {
  for (const BlobInfo& blob : a->outputs()) {
    if (std::ranges::count(b->outputs(), blob.name, &BlobInfo::name) == 0) continue;
    differences_.push_back({.blob = blob.name});
    boxes_.push_back(AreBoxes(blob));
  }
  agreements_.resize(differences_.size());
  if (differences_.empty()) {
    Fail(ErrorCode::kInvalidArgument, "the two models have no output of the same name");
  }
}

void ModelPair::Add(std::span<const NamedTensor> inputs) {
  a_.Run(inputs);
  b_.Run(inputs);
  for (size_t i = 0; i < differences_.size(); ++i) {
    const ConstTensorView x = a_.Output(differences_[i].blob);
    const ConstTensorView y = b_.Output(differences_[i].blob);
    if (boxes_[i]) {
      AddBoxes(x, y, confidence_, &agreements_[i]);
      continue;
    }
    AddDifference(x, y, &differences_[i]);
    if (AreScores(x, y)) AddTopOne(x, y, &agreements_[i]);
  }
}

std::vector<Difference> ModelPair::Comparable() const {
  std::vector<Difference> comparable;
  for (size_t i = 0; i < differences_.size(); ++i) {
    if (!boxes_[i]) comparable.push_back(differences_[i]);
  }
  return comparable;
}

bool PrintOutputs(const std::vector<Difference>& differences,
                  const std::optional<Tolerance>& tolerance) {
  bool all = true;
  for (const Difference& d : differences) {
    const bool fits = Fits(d, tolerance);
    all = all && fits;
    if (FLAGS_json) {
      std::printf("%s, \"fits\": %s}\n", Json("output", d).c_str(), fits ? "true" : "false");
    } else {
      std::printf("%s%s\n", Line(d).c_str(), fits ? "" : " OUT OF TOLERANCE");
    }
  }
  return all;
}

void PrintLayers(const std::vector<Difference>& differences) {
  for (const Difference& d : differences) {
    std::printf("%s\n", FLAGS_json ? (Json("blob", d) + "}").c_str() : Line(d).c_str());
  }
  if (!FLAGS_json) std::printf("outputs:\n");
}

bool PrintAgreement(const ModelPair& pair, double least) {
  bool all = true;
  for (size_t i = 0; i < pair.agreements().size(); ++i) {
    const Agreement& agreement = pair.agreements()[i];
    if (agreement.of == 0) continue;
    const bool fits = agreement.share() >= least;
    all = all && fits;
    const std::string& blob = pair.differences()[i].blob;
    if (FLAGS_json) {
      std::printf("{\"output\": %s, \"%s\": %s, \"of\": %lld, \"fits\": %s}\n",
                  JsonString(blob).c_str(), pair.HasBoxes(i) ? "box_agreement" : "top1_agreement",
                  JsonNumber(agreement.share()).c_str(), static_cast<long long>(agreement.of),
                  fits ? "true" : "false");
    } else {
      std::printf("%-32s %s agreement %lld of %lld%s\n", blob.c_str(),
                  pair.HasBoxes(i) ? "box" : "top-1", static_cast<long long>(agreement.agree),
                  static_cast<long long>(agreement.of), fits ? "" : " TOO FEW");
    }
  }
  return all;
}

}  // namespace crema::tools
