// UringEngine: an Engine of the kernel's io_uring over one file.
//
// The file is registered, which saves a reference count per request. Set-up flags that would be
// wrong here: SINGLE_ISSUER and DEFER_TASKRUN demand that one thread both submits and reaps, and
// with COOP_TASKRUN a completion would wait until the thread that submitted it next enters the
// kernel, which may be after a long matmul. SQPOLL and IOPOLL cost a core.
#pragma once

#include <liburing.h>

#include <chrono>
#include <mutex>
#include <string>

#include "io/engine.h"

namespace strata::io {

class UringEngine final : public Engine {
 public:
  // `descriptor` stays the caller's and must outlive the engine; `path` is for errors. At most
  // `queue_depth` requests may be in flight. A submission that the kernel has no memory for
  // is retried for `submit_timeout`. Throws IoError when io_uring is not available, saying what to
  // do.
  UringEngine(int descriptor, std::string path, int queue_depth,
              std::chrono::milliseconds submit_timeout);
  ~UringEngine() override;
  UringEngine(const UringEngine&) = delete;
  UringEngine& operator=(const UringEngine&) = delete;

  Submission submit(std::span<const Request> requests) override;
  std::size_t wait(std::span<Completion> completions, std::chrono::nanoseconds timeout) override;
  std::string description() const override;

 private:
  void prepare(const Request& request);
  int enter();

  std::string path_;
  std::chrono::milliseconds submit_timeout_;
  io_uring ring_{};
  std::mutex submit_mutex_;  // the submission queue; the completion queue is the waiter's alone
  int refused_errno_ = 0;    // kept: a refused entry stays in the queue and must never start
};

}  // namespace strata::io
