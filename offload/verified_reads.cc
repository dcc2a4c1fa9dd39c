#include "offload/verified_reads.h"

#include <span>
#include <utility>

#include "offload/state_store.h"

namespace strata::offload {

void VerifiedReads::wait() {
  const int count = std::exchange(count_, 0);
  transfers_.wait();
  if (count > 0) store_->verify(std::span(reads_).first(static_cast<std::size_t>(count)));
}

}  // namespace strata::offload
