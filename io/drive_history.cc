#include "io/drive_history.h"

#include <algorithm>
#include <cstring>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/split_mix.h"

namespace strata::io {
namespace {

constexpr std::int64_t kSectorBytes = 512;

void copy_part(const DriveOperation& write, std::int64_t begin, std::int64_t bytes,
               DriveHistory::Image& image) {
  std::memcpy(image.data() + write.offset_bytes + begin, write.bytes.data() + begin,
              static_cast<std::size_t>(bytes));
}

// Takes the entry of an operation out of a list that has it.
template <typename Entry>
Entry take(std::vector<Entry>& entries, std::int64_t operation) {
  const auto found = std::ranges::find(entries, operation, &Entry::operation);
  STRATA_CHECK(found != entries.end(), "operation {} is answered twice", operation);
  const Entry entry = *found;
  entries.erase(found);
  return entry;
}

}  // namespace

PowerLoss::PowerLoss(const DriveHistory& history) : history_(history) {
  for (const DriveHistory::Image& image : history.images()) files_.emplace_back().durable = image;
}

void PowerLoss::advance_to(std::int64_t events) {
  STRATA_CHECK(events >= events_ && events <= std::ssize(history_.events()));
  for (; events_ < events; ++events_) {
    const DriveHistory::Event& event = history_.events()[static_cast<std::size_t>(events_)];
    File& file = files_[history_.operation(event.operation).file];
    if (event.is_answer) {
      answered(file, event);
    } else {
      submitted(file, event.operation);
    }
  }
}

void PowerLoss::submitted(File& file, std::int64_t operation) {
  const DriveOperation& submitted = history_.operation(operation);
  if (submitted.operation == Operation::flush) {
    file.flushes.push_back({operation, file.durable_writes + std::ssize(file.cached)});
  } else {
    file.in_flight.push_back({operation, std::ssize(submitted.bytes)});
  }
}

void PowerLoss::answered(File& file, const DriveHistory::Event& event) {
  if (history_.operation(event.operation).operation == Operation::flush) {
    const Flush flush = take(file.flushes, event.operation);
    if (event.result == 0) flushed(file, flush.covered);
    return;
  }
  take(file.in_flight, event.operation);
  if (event.result > 0) file.cached.push_back({event.operation, event.result});
}

void PowerLoss::flushed(File& file, std::int64_t covered) {
  const auto end = file.cached.begin() + std::max<std::int64_t>(0, covered - file.durable_writes);
  for (auto write = file.cached.begin(); write != end; ++write) {
    copy_part(history_.operation(write->operation), 0, write->bytes, file.durable);
  }
  file.durable_writes = std::max(file.durable_writes, covered);
  file.cached.erase(file.cached.begin(), end);
}

std::vector<DriveHistory::Image> PowerLoss::images(std::uint64_t seed) const {
  SplitMix64 random{seed};
  std::vector<DriveHistory::Image> images;
  for (const File& file : files_) {
    images.push_back(file.durable);
    for (const Write& write : file.cached) keep_some(write, random(), images.back());
    for (const Write& write : file.in_flight) keep_some(write, random(), images.back());
  }
  return images;
}

void PowerLoss::keep_some(const Write& write, std::uint64_t seed,
                          DriveHistory::Image& image) const {
  enum class Fate : std::uint8_t { kept, lost, torn };
  SplitMix64 random{seed};
  const auto fate = static_cast<Fate>(random() % 3);
  const std::int64_t sector_bytes = write.bytes <= kPageBytes ? kSectorBytes : kPageBytes;
  for (std::int64_t at = 0; at < write.bytes; at += sector_bytes) {
    if (fate == Fate::lost || (fate == Fate::torn && random() % 2 == 0)) continue;
    copy_part(history_.operation(write.operation), at, std::min(sector_bytes, write.bytes - at),
              image);
  }
}

}  // namespace strata::io
