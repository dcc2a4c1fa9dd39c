// EngineStorage over an engine that answers as a script says: short, late, with errors, or never.
#include "io/engine_storage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/bytes.h"
#include "tests/io/failure_of.h"

namespace strata::io {
namespace {

constexpr std::int64_t kCapacityBytes = kMiB;
constexpr int kNever = 1;  // not a result: multiples of the alignment and negative numbers are

// Requests are carried out on memory, at once, as far as the script lets them.
class ScriptedEngine final : public Engine {
 public:
  // The result of submission number `n` (from 0), or kNever.
  using Script = std::function<int(const Transfer::Piece& piece, int n)>;

  explicit ScriptedEngine(Script script) : script_(std::move(script)) {}

  Submission submit(std::span<const Request> requests) override {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const int error = submit(requests[i].piece, requests[i].tag);
      if (error != 0) return {i, error};
    }
    return {requests.size(), 0};
  }
  std::string description() const override { return "a script"; }

  int submit(const Transfer::Piece& piece, std::uint64_t tag) {
    const std::lock_guard lock(mutex_);
    if (refusal_ != 0) return refusal_;
    pieces_.push_back(piece);
    const int result = script_(piece, static_cast<int>(pieces_.size()) - 1);
    if (result == kNever) {
      stuck_.push_back({tag, static_cast<std::int32_t>(piece.span.bytes())});
      return 0;
    }
    std::byte* stored = memory_.data() + piece.offset_bytes;
    if (result > 0 && piece.operation == Operation::read) {
      std::memcpy(piece.span.data(), stored, static_cast<std::size_t>(result));
    } else if (result > 0) {
      std::memcpy(stored, piece.span.data(), static_cast<std::size_t>(result));
    }
    completions_.push_back({tag, result});
    changed_.notify_one();
    return 0;
  }

  std::size_t wait(std::span<Completion> completions, std::chrono::nanoseconds timeout) override {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, std::chrono::system_clock::now() + timeout,
                        [&] { return broken_ || !completions_.empty(); });
    if (broken_) throw IoError("the ring is broken");
    std::size_t count = 0;
    while (count < completions.size() && !completions_.empty()) {
      completions[count++] = completions_.front();
      completions_.pop_front();
    }
    return count;
  }

  void refuse_with(int error_number) {
    const std::lock_guard lock(mutex_);
    refusal_ = error_number;
  }
  void break_down() {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    changed_.notify_one();
  }
  void complete_stuck() {
    const std::lock_guard lock(mutex_);
    completions_.insert(completions_.end(), stuck_.begin(), stuck_.end());
    stuck_.clear();
    changed_.notify_one();
  }
  std::vector<Transfer::Piece> pieces() const {
    const std::lock_guard lock(mutex_);
    return pieces_;
  }

 private:
  Script script_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kCapacityBytes);
  std::vector<Transfer::Piece> pieces_;
  std::deque<Completion> completions_;
  std::vector<Completion> stuck_;
  int refusal_ = 0;
  bool broken_ = false;
};

int all_of_it(const Transfer::Piece& piece, int) { return static_cast<int>(piece.span.bytes()); }

class EngineStorageTest : public testing::Test {
 protected:
  void open(ScriptedEngine::Script script, int queue_depth = 4, Tracer* tracer = nullptr) {
    auto engine = std::make_unique<ScriptedEngine>(std::move(script));
    engine_ = engine.get();
    EngineStorageOptions options;
    options.path = "/nvme/state";
    options.capacity_bytes = kCapacityBytes;
    options.alignment_bytes = 512;
    options.request_bytes_max = 64 * kKiB;
    options.queue_depth = queue_depth;
    options.timeout = std::chrono::milliseconds(timeout_ms_);
    storage_ = std::make_unique<EngineStorage>(options, std::move(engine), tracer);
  }

  std::string write_failure(std::int64_t offset_bytes, AlignedSpan source) {
    IoGroup group;
    storage_->write(offset_bytes, source, group);
    return failure_of(group);
  }

  Budget budget_{"host memory", 16 * kMiB};
  AlignedBuffer written_{budget_, "test", 256 * kKiB};
  AlignedBuffer read_{budget_, "test", 256 * kKiB};
  int timeout_ms_ = 60000;
  ScriptedEngine* engine_ = nullptr;
  std::unique_ptr<EngineStorage> storage_;
};

TEST_F(EngineStorageTest, SplitsLongRequests) {
  open(all_of_it);
  EXPECT_EQ(write_failure(512, written_.span(0, 130 * kKiB)), "");
  const std::vector<Transfer::Piece> pieces = engine_->pieces();
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].offset_bytes, 512);
  EXPECT_EQ(pieces[0].span.bytes(), 64 * kKiB);
  EXPECT_EQ(pieces[1].offset_bytes, 512 + 64 * kKiB);
  EXPECT_EQ(pieces[1].span.bytes(), 64 * kKiB);
  EXPECT_EQ(pieces[2].offset_bytes, 512 + 128 * kKiB);
  EXPECT_EQ(pieces[2].span.bytes(), 2 * kKiB);
}

TEST_F(EngineStorageTest, ContinuesShortTransfersAndRetriesInterruptions) {
  // Of every four submissions one is interrupted, one has no memory, two move part of a block more
  // than a third of what is asked for.
  open([](const Transfer::Piece& piece, int n) {
    if (n % 4 == 0) return -EINTR;
    if (n % 4 == 2) return -EAGAIN;
    if (piece.span.bytes() <= 1024) return static_cast<int>(piece.span.bytes());
    return static_cast<int>(piece.span.bytes() / 3 + 512);
  });
  for (std::int64_t i = 0; i < written_.bytes(); ++i) {
    written_.data()[i] = static_cast<std::byte>(i % 251);
  }
  IoGroup group;
  storage_->write(0, written_.span(), group);
  group.wait();
  storage_->read(0, read_.span(), group);
  group.wait();
  EXPECT_EQ(std::memcmp(read_.data(), written_.data(), 256 * kKiB), 0);
  EXPECT_EQ(storage_->traffic().written_bytes, 256 * kKiB);
  EXPECT_EQ(storage_->traffic().read_bytes, 256 * kKiB);
}

TEST_F(EngineStorageTest, AnErrorFailsItsGroupAndNoOther) {
  open([](const Transfer::Piece& piece, int n) { return n == 1 ? -ENOSPC : all_of_it(piece, n); });
  EXPECT_EQ(write_failure(0, written_.span(0, 4096)), "");
  EXPECT_EQ(write_failure(8192, written_.span(0, 4096)),
            "write /nvme/state at offset 8192, 4096 bytes: No space left on device (errno 28)");
  EXPECT_EQ(write_failure(16384, written_.span(0, 4096)), "");
  EXPECT_EQ(storage_->traffic().written_bytes, 2 * 4096);
}

TEST_F(EngineStorageTest, AnOverdueRequestFailsItsGroup) {
  timeout_ms_ = 32;
  open([](const Transfer::Piece&, int) { return kNever; });
  const std::string failure = write_failure(8192, written_.span(0, 4096));
  EXPECT_NE(failure.find("write /nvme/state at offset 8192, 4096 bytes: not completed after"),
            std::string::npos)
      << failure;
  EXPECT_NE(failure.find("--io-timeout"), std::string::npos) << failure;
  storage_.reset();  // does not wait for what is lost
}

TEST_F(EngineStorageTest, NothingIsStartedAfterATimeout) {
  timeout_ms_ = 32;
  open([](const Transfer::Piece&, int) { return kNever; });
  const std::string first = write_failure(0, written_.span(0, 4096));
  EXPECT_EQ(write_failure(4096, written_.span(0, 4096)), first);
  EXPECT_EQ(engine_->pieces().size(), 1u);
}

TEST_F(EngineStorageTest, SubmittersThatWaitForASlotAreReleasedByATimeout) {
  timeout_ms_ = 32;
  open([](const Transfer::Piece&, int) { return kNever; }, 1);
  std::string other_failure;
  std::thread other([&] { other_failure = write_failure(0, written_.span(0, 128 * kKiB)); });
  EXPECT_NE(write_failure(512 * kKiB, written_.span(128 * kKiB, 128 * kKiB)), "");
  other.join();
  EXPECT_NE(other_failure, "");
}

TEST_F(EngineStorageTest, ALateCompletionChangesNothing) {
  timeout_ms_ = 32;
  open([](const Transfer::Piece& piece, int n) { return n == 0 ? kNever : all_of_it(piece, n); });
  EXPECT_NE(write_failure(0, written_.span(0, 4096)), "");
  engine_->complete_stuck();
  EXPECT_NE(write_failure(0, written_.span(0, 4096)), "");
  storage_.reset();
}

TEST_F(EngineStorageTest, ARefusedSubmissionFailsItsGroup) {
  open(all_of_it);
  engine_->refuse_with(EBADF);
  const std::string failure = write_failure(8192, written_.span(0, 4096));
  EXPECT_EQ(failure,
            "write /nvme/state at offset 8192, 4096 bytes: the system did not accept it: Bad file "
            "descriptor (errno 9)");
}

TEST_F(EngineStorageTest, ABrokenRingFailsAllThatIsInFlight) {
  open([](const Transfer::Piece&, int) { return kNever; });
  IoGroup first;
  IoGroup second;
  storage_->write(0, written_.span(0, 4096), first);
  storage_->read(4096, read_.span(0, 4096), second);
  engine_->break_down();
  EXPECT_EQ(failure_of(first), "the ring is broken");
  EXPECT_EQ(failure_of(second), "the ring is broken");
  EXPECT_EQ(write_failure(0, written_.span(0, 4096)), "the ring is broken");
}

TEST_F(EngineStorageTest, RecordsASpanPerRequest) {
  Tracer tracer(16);
  open(all_of_it, 4, &tracer);
  IoGroup group;
  storage_->write(0, written_.span(0, 8192), group);
  storage_->read(0, read_.span(0, 4096), group);
  group.wait();
  storage_.reset();

  const std::string path = testing::TempDir() + "/engine_storage_trace.json";
  tracer.write(path, 0);
  const nlohmann::json trace = nlohmann::json::parse(std::ifstream(path));
  std::vector<std::string> tracks;
  std::vector<std::pair<std::string, std::int64_t>> spans;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("name") == "thread_name") tracks.push_back(event.at("args").at("name"));
    if (event.at("ph") == "X") spans.emplace_back(event.at("name"), event.at("args").at("bytes"));
  }
  std::sort(spans.begin(), spans.end());
  EXPECT_EQ(tracks, (std::vector<std::string>{"nvme read", "nvme write"}));
  EXPECT_EQ(spans,
            (std::vector<std::pair<std::string, std::int64_t>>{{"read", 4096}, {"write", 8192}}));
}

}  // namespace
}  // namespace strata::io
