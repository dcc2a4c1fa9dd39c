#include "offload/verified_reads.h"

#include <span>
#include <utility>

#include "kernels/base/error.h"
#include "offload/state_store.h"

namespace strata::offload {

io::IoGroup& VerifiedReads::add(const StateStore& store, const ExtentRange& range) {
  STRATA_CHECK(count_ < kReadsMax);
  store_ = &store;
  reads_[static_cast<std::size_t>(count_++)] = range;
  return transfers_;
}

void VerifiedReads::wait() {
  const int count = std::exchange(count_, 0);
  transfers_.wait();
  if (count > 0) store_->verify(std::span(reads_).first(static_cast<std::size_t>(count)));
}

}  // namespace strata::offload
