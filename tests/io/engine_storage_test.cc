// EngineStorage over an engine that answers as a script says: short, late, with errors, or never.
#include "io/engine_storage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/bytes.h"
#include "tests/io/failure_of.h"
#include "tests/io/scripted_engine.h"

namespace strata::io {
namespace {

constexpr std::int64_t kCapacityBytes = kMiB;
constexpr std::int64_t kPieceBytes = 64 * kKiB;

int all_of_it(const Transfer::Piece& piece, int) { return static_cast<int>(piece.span.bytes()); }

class EngineStorageTest : public testing::Test {
 protected:
  void open(ScriptedEngine::Script script, int queue_depth = 4, Tracer* tracer = nullptr) {
    auto engine = std::make_unique<ScriptedEngine>(kCapacityBytes, std::move(script));
    engine_ = engine.get();
    EngineStorageOptions options;
    options.path = "/nvme/state";
    options.capacity_bytes = kCapacityBytes;
    options.alignment_bytes = 512;
    options.request_bytes_max = kPieceBytes;
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
  AlignedBuffer written_{budget_, "test", 512 * kKiB};
  AlignedBuffer read_{budget_, "test", 512 * kKiB};
  int timeout_ms_ = 60000;
  ScriptedEngine* engine_ = nullptr;
  std::unique_ptr<EngineStorage> storage_;
};

TEST_F(EngineStorageTest, SplitsLongRequests) {
  open(all_of_it);
  EXPECT_EQ(write_failure(512, written_.span(0, 130 * kKiB)), "");
  const std::vector<Engine::Request> requests = engine_->requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[0].piece.offset_bytes, 512);
  EXPECT_EQ(requests[0].piece.span.bytes(), kPieceBytes);
  EXPECT_EQ(requests[1].piece.offset_bytes, 512 + kPieceBytes);
  EXPECT_EQ(requests[1].piece.span.bytes(), kPieceBytes);
  EXPECT_EQ(requests[2].piece.offset_bytes, 512 + 2 * kPieceBytes);
  EXPECT_EQ(requests[2].piece.span.bytes(), 2 * kKiB);
}

TEST_F(EngineStorageTest, SubmitsInOneCallWhatItHasSlotsFor) {
  open(all_of_it, 8);
  EXPECT_EQ(write_failure(0, written_.span()), "");
  EXPECT_EQ(write_failure(512, written_.span(0, 512)), "");
  EXPECT_EQ(engine_->batches(), (std::vector<std::size_t>{8, 1}));
}

// And so submits more than one request when it is woken.
TEST_F(EngineStorageTest, ASubmitterWaitsUntilAQuarterOfTheSlotsIsFree) {
  open([](const Transfer::Piece& piece, int n) { return n < 8 ? kNever : all_of_it(piece, n); }, 8);
  IoGroup first;
  storage_->write(0, written_.span(), first);
  std::string failure = "not run";
  std::thread other([&] { failure = write_failure(0, written_.span(0, 2 * kPieceBytes)); });
  engine_->complete_stuck(1);
  while (storage_->traffic().written_bytes == 0) std::this_thread::yield();
  engine_->complete_stuck();
  other.join();
  EXPECT_EQ(failure, "");
  EXPECT_EQ(engine_->batches(), (std::vector<std::size_t>{8, 2}));
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
  EXPECT_EQ(std::memcmp(read_.data(), written_.data(), 512 * kKiB), 0);
  EXPECT_EQ(storage_->traffic().written_bytes, 512 * kKiB);
  EXPECT_EQ(storage_->traffic().read_bytes, 512 * kKiB);
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
  EXPECT_EQ(engine_->requests().size(), 1u);
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
  engine_->refuse_after(0, EBADF);
  const std::string failure = write_failure(8192, written_.span(0, 4096));
  EXPECT_EQ(failure,
            "write /nvme/state at offset 8192, 4096 bytes: the system did not accept it: Bad file "
            "descriptor (errno 9)");
}

TEST_F(EngineStorageTest, OfABatchThatIsRefusedInTheMiddleTheBeginningIsWaitedFor) {
  open([](const Transfer::Piece&, int) { return kNever; });
  engine_->refuse_after(2, ENOMEM);
  IoGroup group;
  storage_->write(0, written_.span(0, 4 * kPieceBytes), group);
  EXPECT_TRUE(group.pending());
  engine_->complete_stuck();
  EXPECT_EQ(failure_of(group),
            "write /nvme/state at offset 131072, 65536 bytes: the system did not accept it: Cannot "
            "allocate memory (errno 12)");
  EXPECT_EQ(storage_->traffic().written_bytes, 2 * kPieceBytes);
}

TEST_F(EngineStorageTest, ADriveThatIsBusyForEverIsStuck) {
  timeout_ms_ = 32;
  open([](const Transfer::Piece&, int) { return -EAGAIN; });
  const std::string failure = write_failure(0, written_.span(0, 4096));
  EXPECT_NE(failure.find("not completed after"), std::string::npos) << failure;
}

TEST_F(EngineStorageTest, AFlushThatFailsNamesTheFile) {
  open([](const Transfer::Piece& piece, int) {
    return piece.operation == Operation::flush ? -EIO : 0;
  });
  IoGroup group;
  storage_->flush(group);
  EXPECT_EQ(failure_of(group),
            "flush /nvme/state at offset 0, 0 bytes: Input/output error (errno 5)");
}

constexpr const char* kStray =
    "/nvme/state: a script answered a request that is not in flight, or answered one twice: its "
    "results cannot be trusted";

// The second answer comes while the slot is used again, and must not end what it is used for.
TEST_F(EngineStorageTest, AnEngineThatAnswersTwiceFailsTheStorageAndNoRequestInFlight) {
  open([](const Transfer::Piece& piece, int n) { return n == 1 ? kNever : all_of_it(piece, n); },
       2);
  EXPECT_EQ(write_failure(0, written_.span(0, 4096)), "");
  IoGroup stuck;
  storage_->write(4096, written_.span(0, 8192), stuck);
  const Engine::Request answered = engine_->requests().front();
  engine_->answer({answered.tag, 4096});
  std::string failure;
  while (failure.empty()) failure = write_failure(0, written_.span(0, 4096));
  EXPECT_EQ(failure, kStray);
  EXPECT_TRUE(stuck.pending());
  engine_->complete_stuck();
  EXPECT_EQ(failure_of(stuck), "");
}

TEST_F(EngineStorageTest, AnAnswerToNoRequestFailsTheStorage) {
  constexpr auto kLast = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t tag : {std::uint64_t{0}, std::uint64_t{3}, kLast}) {
    open(all_of_it);
    engine_->answer({tag, 4096});
    EXPECT_EQ(write_failure(0, written_.span(0, 4096)), "") << tag;
    EXPECT_EQ(write_failure(0, written_.span(0, 4096)), kStray) << tag;
  }
}

TEST_F(EngineStorageTest, SaysWhatItsEngineIs) {
  open(all_of_it);
  EXPECT_EQ(storage_->description(), "a script, queue depth 4");
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
