// A tensor of a session that the host can read, on any device.
#pragma once

#include <utility>

#include "core/tensor.h"
#include "runtime/session.h"

namespace crema {

// On the CPU the memory of the session; on a GPU a copy, made by the constructor. Must not outlive
// the session.
class HostView {
 public:
  HostView(const Session& session, const ConstTensorView& of) : view_(of) {
    if (!session.OnGpu() || of.empty()) return;
    copy_ = Tensor(of.shape(), of.dtype());
    session.Read(of, copy_.view().raw());
    view_ = std::as_const(copy_).view();
  }
  HostView(const HostView&) = delete;
  HostView& operator=(const HostView&) = delete;

  const ConstTensorView& operator*() const { return view_; }
  const ConstTensorView* operator->() const { return &view_; }

 private:
  Tensor copy_;
  ConstTensorView view_;
};

}  // namespace crema
