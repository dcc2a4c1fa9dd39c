#include "io/crash_disk.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "io/fault_engine.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::io {
namespace {

// So that whoever waits sees soon that what it submitted last was refused.
constexpr std::chrono::nanoseconds kWaitMax = std::chrono::milliseconds(1);

}  // namespace

// Passes requests on to an engine on memory, as long as there is power, and keeps the books.
class CrashDisk::FileEngine final : public Engine {
 public:
  FileEngine(CrashDisk& disk, std::size_t file, const FaultRules& faults)
      : disk_(disk), file_(file), memory_(disk.history_.images()[file], faults) {}

  Submission submit(std::span<const Request> requests) override {
    std::size_t accepted = 0;
    {
      const std::lock_guard lock(disk_.mutex_);
      while (accepted < requests.size() && disk_.admit(requests[accepted].piece.operation)) {
        enter(requests[accepted++]);
      }
    }
    const Submission passed_on = memory_.submit(requests.first(accepted));
    STRATA_CHECK(passed_on.accepted == accepted);
    return {accepted, accepted < requests.size() ? EIO : 0};
  }

  std::size_t wait(std::span<Completion> completions, std::chrono::nanoseconds timeout) override {
    const std::size_t count = memory_.wait(completions, std::min(timeout, kWaitMax));
    const std::lock_guard lock(disk_.mutex_);
    for (const Completion& completion : completions.first(count)) enter(completion);
    return count;
  }

  std::string description() const override { return memory_.description() + " that may crash"; }

 private:
  struct InFlight {
    std::uint64_t tag;
    std::int64_t operation;
  };

  void enter(const Request& request) {
    const auto& [operation, offset_bytes, span] = request.piece;
    if (operation == Operation::read) return;
    DriveOperation entry{operation, file_, offset_bytes, {}};
    if (operation == Operation::write) entry.bytes.assign(span.data(), span.data() + span.bytes());
    in_flight_.push_back({request.tag, disk_.history_.submit(std::move(entry))});
  }
  void enter(const Completion& completion) {
    const auto found = std::ranges::find(in_flight_, completion.tag, &InFlight::tag);
    if (found == in_flight_.end()) return;  // a read, or answered twice
    disk_.history_.answer(found->operation, completion.result);
    in_flight_.erase(found);
  }

  CrashDisk& disk_;
  const std::size_t file_;
  FaultEngine memory_;
  std::vector<InFlight> in_flight_;
};

CrashDisk::CrashDisk(std::vector<Image> images, const CrashRules& rules)
    : rules_(rules), history_(std::move(images)) {
  for (const Image& image : history_.images()) STRATA_CHECK(std::ssize(image) % kPageBytes == 0);
}

CrashDisk::~CrashDisk() = default;

std::vector<std::unique_ptr<EngineStorage>> CrashDisk::open() {
  std::vector<std::unique_ptr<EngineStorage>> storages;
  FaultRules faults = rules_.faults;
  for (const Image& image : history_.images()) {
    EngineStorageOptions options;
    options.path = fmt::format("crash disk {}", storages.size());
    options.capacity_bytes = std::ssize(image);
    options.alignment_bytes = kPageBytes;
    auto engine = std::make_unique<FileEngine>(*this, storages.size(), faults);
    storages.push_back(
        std::make_unique<EngineStorage>(std::move(options), std::move(engine), nullptr));
    ++faults.seed;
  }
  return storages;
}

std::int64_t CrashDisk::operations() const {
  const std::lock_guard lock(mutex_);
  return history_.operations();
}

bool CrashDisk::has_crashed() const {
  const std::lock_guard lock(mutex_);
  return has_crashed_;
}

bool CrashDisk::admit(Operation operation) {
  if (operation != Operation::read && history_.operations() == rules_.crash_at) has_crashed_ = true;
  return !has_crashed_;
}

std::vector<CrashDisk::Image> CrashDisk::after_crash(std::uint64_t seed) const {
  const std::lock_guard lock(mutex_);
  PowerLoss loss(history_);
  loss.advance_to(std::ssize(history_.events()));
  return loss.images(seed);
}

std::int64_t CrashDisk::events() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(history_.events());
}

}  // namespace strata::io
