// DriveHistory: what drives were asked for and what they answered, in order; and PowerLoss: what is
// left on them if the power goes at any moment of it. For tests of whatever promises to survive a
// crash; not for production use.
//
//   write:  submitted ──answered──▶ cached ──flush, submitted after the answer──▶ durable
//
// A loss of power leaves what is durable; of each other write all, nothing, or any of its sectors,
// as a seed decides. Sectors are pages, of a write of one page 512 bytes.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "io/transfer.h"

namespace strata::io {

struct DriveOperation {
  Operation operation = Operation::write;  // or flush
  std::size_t file = 0;
  std::int64_t offset_bytes = 0;
  std::vector<std::byte> bytes;
};

class DriveHistory {
 public:
  using Image = std::vector<std::byte>;  // of a file, in whole pages

  // An operation is submitted, or answered with an engine's result.
  struct Event {
    std::int64_t operation;
    bool is_answer;
    std::int32_t result;
  };

  // `images`: of the files, before.
  explicit DriveHistory(std::vector<Image> images) : images_(std::move(images)) {}

  std::int64_t submit(DriveOperation operation) {  // returns its number
    operations_.push_back(std::move(operation));
    events_.push_back({std::ssize(operations_) - 1, false, 0});
    return std::ssize(operations_) - 1;
  }
  void answer(std::int64_t operation, std::int32_t result) {
    events_.push_back({operation, true, result});
  }

  const std::vector<Image>& images() const { return images_; }
  std::int64_t operations() const { return std::ssize(operations_); }
  const DriveOperation& operation(std::int64_t number) const {
    return operations_[static_cast<std::size_t>(number)];
  }
  const std::vector<Event>& events() const { return events_; }

 private:
  std::vector<Image> images_;
  std::vector<DriveOperation> operations_;
  std::vector<Event> events_;
};

// A moment of a history, moved on event by event. The history outlives it.
class PowerLoss {
 public:
  explicit PowerLoss(const DriveHistory& history);

  // To the moment after the first `events` events; not back.
  void advance_to(std::int64_t events);

  // Of each file, if the power goes at this moment.
  std::vector<DriveHistory::Image> images(std::uint64_t seed) const;

 private:
  struct Write {
    std::int64_t operation;
    std::int64_t bytes;  // that were written, or may be
  };
  struct Flush {
    std::int64_t operation;
    std::int64_t covered;  // writes of its file that were answered before it
  };
  struct File {
    DriveHistory::Image durable;
    std::vector<Write> cached;  // in the order of their answers
    std::vector<Write> in_flight;
    std::vector<Flush> flushes;
    std::int64_t durable_writes = 0;
  };

  void submitted(File& file, std::int64_t operation);
  void answered(File& file, const DriveHistory::Event& event);
  void flushed(File& file, std::int64_t covered);
  void keep_some(const Write& write, std::uint64_t seed, DriveHistory::Image& image) const;

  const DriveHistory& history_;
  std::int64_t events_ = 0;
  std::vector<File> files_;
};

}  // namespace strata::io
