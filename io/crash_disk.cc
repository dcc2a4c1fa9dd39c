#include "io/crash_disk.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <utility>

#include "io/fault_engine.h"
#include "kernels/base/error.h"
#include "kernels/base/split_mix.h"

namespace strata::io {
namespace {

constexpr std::int64_t kSectorBytes = 512;
// So that whoever waits sees soon that what it submitted last was refused.
constexpr std::chrono::nanoseconds kWaitMax = std::chrono::milliseconds(1);

void copy_part(const std::vector<std::byte>& from, std::int64_t begin, std::int64_t bytes,
               std::byte* to) {
  std::memcpy(to + begin, from.data() + begin, static_cast<std::size_t>(bytes));
}

}  // namespace

struct CrashDisk::File {
  Image durable;
  std::deque<CachedWrite> cached;  // in the order of their answers
  std::int64_t answered = 0;       // writes, the cached ones being the last of them

  // Of the writes answered, the first `count` are durable.
  void flush(std::int64_t count) {
    const std::int64_t durable_writes = answered - std::ssize(cached);
    for (std::int64_t i = durable_writes; i < count; ++i) {
      const CachedWrite& write = cached.front();
      copy_part(write.bytes, 0, std::ssize(write.bytes), durable.data() + write.offset_bytes);
      cached.pop_front();
    }
  }
};

// Passes requests on to an engine on memory, as long as there is power, and keeps the books.
class CrashDisk::FileEngine final : public Engine {
 public:
  FileEngine(CrashDisk& disk, File& file, const FaultRules& faults)
      : disk_(disk), file_(file), memory_(file.durable, faults) {}

  Submission submit(std::span<const Request> requests) override {
    std::size_t accepted = 0;
    {
      const std::lock_guard lock(disk_.mutex_);
      while (accepted < requests.size() && disk_.admit(requests[accepted].piece.operation)) {
        in_flight_.push_back({requests[accepted++], file_.answered});
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
    Request request;
    std::int64_t answered_before;  // writes of the file
  };

  void enter(const Completion& completion) {
    const auto found = std::ranges::find(in_flight_, completion.tag,
                                         [](const InFlight& entry) { return entry.request.tag; });
    if (found == in_flight_.end()) return;  // answered twice
    const auto [operation, offset_bytes, span] = found->request.piece;
    if (operation == Operation::write && completion.result > 0) {
      file_.cached.push_back({offset_bytes, {span.data(), span.data() + completion.result}});
      ++file_.answered;
    } else if (operation == Operation::flush && completion.result == 0) {
      file_.flush(found->answered_before);
    }
    in_flight_.erase(found);
  }

  CrashDisk& disk_;
  File& file_;
  FaultEngine memory_;
  std::vector<InFlight> in_flight_;
};

CrashDisk::CrashDisk(std::vector<Image> images, const CrashRules& rules) : rules_(rules) {
  for (Image& image : images) {
    STRATA_CHECK(std::ssize(image) % kPageBytes == 0);
    files_.push_back(std::make_unique<File>(File{std::move(image), {}, 0}));
  }
}

CrashDisk::~CrashDisk() = default;

std::vector<std::unique_ptr<EngineStorage>> CrashDisk::open() {
  std::vector<std::unique_ptr<EngineStorage>> storages;
  FaultRules faults = rules_.faults;
  for (const auto& file : files_) {
    EngineStorageOptions options;
    options.path = fmt::format("crash disk {}", storages.size());
    options.capacity_bytes = std::ssize(file->durable);
    options.alignment_bytes = kPageBytes;
    storages.push_back(std::make_unique<EngineStorage>(
        std::move(options), std::make_unique<FileEngine>(*this, *file, faults), nullptr));
    ++faults.seed;
  }
  return storages;
}

std::int64_t CrashDisk::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

bool CrashDisk::has_crashed() const {
  const std::lock_guard lock(mutex_);
  return has_crashed_;
}

bool CrashDisk::admit(Operation operation) {
  if (operation != Operation::read && operations_ == rules_.crash_at) has_crashed_ = true;
  if (has_crashed_) return false;
  if (operation != Operation::read) ++operations_;
  return true;
}

std::vector<CrashDisk::Image> CrashDisk::after_crash(std::uint64_t seed) const {
  const std::lock_guard lock(mutex_);
  SplitMix64 random{seed};
  std::vector<Image> images;
  for (const auto& file : files_) {
    images.push_back(file->durable);
    for (const CachedWrite& write : file->cached) keep_some(write, random(), images.back());
  }
  return images;
}

void CrashDisk::keep_some(const CachedWrite& write, std::uint64_t seed, Image& image) {
  enum class Fate : std::uint8_t { kept, lost, torn };
  SplitMix64 random{seed};
  const auto fate = static_cast<Fate>(random() % 3);
  const std::int64_t bytes = std::ssize(write.bytes);
  const std::int64_t sector_bytes = bytes <= kPageBytes ? kSectorBytes : kPageBytes;
  for (std::int64_t at = 0; at < bytes; at += sector_bytes) {
    if (fate == Fate::lost || (fate == Fate::torn && random() % 2 == 0)) continue;
    copy_part(write.bytes, at, std::min(sector_bytes, bytes - at),
              image.data() + write.offset_bytes);
  }
}

}  // namespace strata::io
