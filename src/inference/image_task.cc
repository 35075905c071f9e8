#include "inference/image_task.h"

#include <vector>

#include "crema.pb.h"
#include "inference/detector.h"

namespace crema {

std::string FindImageTask(const ImageModel& model) {
  const std::vector<BlobInfo>& outputs = model.model().outputs();
  if (HasDecoder(model.PlanForBatch(1)->written)) return "detect";
  if (RegionHead::Find(model)) return "detect";
  if (FindDetectionHead(model)) return "detect";
  if (outputs.size() != 1) return "";
  const Shape scores = model.OutputShape(outputs[0].name, 1);
  if (scores.axes() < 2 || scores[0] != 1 || scores[1] < 2) return "";
  if (scores.count(2) == 1) return "classify";
  return scores.axes() == 4 ? "segment" : "";
}

}  // namespace crema
