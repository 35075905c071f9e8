// One dataset that grows by rows. The file appears when it is complete.
#include <optional>

#include "data/features/feature_writer.h"
#include "data/hdf5/hdf5_appender.h"
#include "format/file.h"

namespace crema {
namespace {

class Hdf5Features : public FeatureWriter {
 public:
  Hdf5Features(const std::string& path, const std::string& name)
      : name_(name), file_(path), appender_(std::in_place, file_.temporary(), path) {}

  void Append(const ConstTensorView& rows) override { appender_->Append(name_, rows); }

  void Close() override {
    appender_->Close();
    file_.Commit();
  }

 private:
  std::string name_;
  AtomicFile file_;
  std::optional<Hdf5Appender> appender_;  // closed before the file
};

}  // namespace

std::unique_ptr<FeatureWriter> NewHdf5FeatureWriter(const std::string& path,
                                                    const std::string& name) {
  return std::make_unique<Hdf5Features>(path, name);
}

}  // namespace crema
