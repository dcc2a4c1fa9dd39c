// What work on a drive leaves behind: no descriptor, no locked or pinned memory, no thread, no
// growing memory; also when it ends early.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <thread>

#include "io/engine_storage.h"
#include "io/thread_engine.h"
#include "io/uring_engine.h"
#include "kernels/base/bytes.h"
#include "tests/io/failure_of.h"

namespace strata::io {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // which keeps what is freed: the resident size says nothing
#else
constexpr bool kSanitized = false;
#endif

constexpr int kQueueDepth = 16;
constexpr std::int64_t kSwapBytes = 16 * kKiB;
constexpr int kSwapsAtOnce = 2 * kQueueDepth;
constexpr std::int64_t kFileBytes = kSwapsAtOnce * kSwapBytes;

// Of this process.
struct Holdings {
  std::int64_t descriptors = 0;
  std::int64_t threads = 0;
  std::int64_t locked_kib = 0;
  std::int64_t pinned_kib = 0;

  friend bool operator==(const Holdings&, const Holdings&) = default;
  friend void PrintTo(const Holdings& h, std::ostream* out) {
    *out << h.descriptors << " descriptors, " << h.threads << " threads, " << h.locked_kib
         << " KiB locked, " << h.pinned_kib << " KiB pinned";
  }
};

std::int64_t status_field(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t value = 0;
    if (word == name + ":" && status >> value) return value;
  }
  ADD_FAILURE() << "no " << name << " in /proc/self/status";
  return -1;
}

Holdings holdings() {
  const auto entries = std::filesystem::directory_iterator("/proc/self/fd");
  return {std::distance(begin(entries), end(entries)), status_field("Threads"),
          status_field("VmLck"), status_field("VmPin")};
}

// A file without a name, of kFileBytes.
class OpenFile {
 public:
  OpenFile() {
    std::string name = testing::TempDir() + "/leak_test_XXXXXX";
    descriptor_ = ::mkostemp(name.data(), O_DIRECT);
    EXPECT_NE(descriptor_, -1) << std::strerror(errno);
    ::unlink(name.c_str());
    EXPECT_EQ(::posix_fallocate(descriptor_, 0, kFileBytes), 0);
  }
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

struct EngineFactory {
  std::string name;
  std::function<std::unique_ptr<Engine>(int descriptor)> make;
  friend void PrintTo(const EngineFactory& factory, std::ostream* out) { *out << factory.name; }
};

class Leak : public testing::TestWithParam<EngineFactory> {
 protected:
  void SetUp() override {
    std::thread([] {}).join();  // with the first, ThreadSanitizer starts one of its own
    try {
      make_engine();
    } catch (const IoError& error) {
      GTEST_SKIP() << error.what();
    }
  }

  std::unique_ptr<Engine> make_engine() { return GetParam().make(file_.descriptor()); }

  std::unique_ptr<Storage> make_storage() {
    EngineStorageOptions options;
    options.path = "leak_test";
    options.capacity_bytes = kFileBytes;
    options.request_bytes_max = kSwapBytes / 2;
    options.queue_depth = kQueueDepth;
    return std::make_unique<EngineStorage>(options, make_engine(), nullptr);
  }

  // Each swap is a write and a read of the same bytes; more than the queue depth are in flight.
  void swap(Storage& storage, int times) {
    IoGroup group;
    for (int done = 0; done < times; done += kSwapsAtOnce) {
      for (std::int64_t at = 0; at < kFileBytes; at += kSwapBytes) {
        storage.write(at, memory_.span(at, kSwapBytes), group);
      }
      group.wait();
      for (std::int64_t at = 0; at < kFileBytes; at += kSwapBytes) {
        storage.read(at, memory_.span(at, kSwapBytes), group);
      }
      group.wait();
    }
  }

  void fill(int value) { std::memset(memory_.data(), value, kFileBytes); }

  // Every byte of the file is `value`.
  bool file_holds(int value) {
    const auto storage = make_storage();
    IoGroup group;
    fill(~value);
    storage->read(0, memory_.span(), group);
    group.wait();
    return std::all_of(memory_.data(), memory_.data() + kFileBytes,
                       [&](std::byte byte) { return byte == static_cast<std::byte>(value); });
  }

  OpenFile file_;
  Budget budget_{"host memory", 64 * kMiB};
  AlignedBuffer memory_{budget_, "test", kFileBytes};
};

// A page at a time is what the heap grows by; half a mebibyte is 52 bytes a swap, less than any
// object that could be forgotten in one (a slot, a request, an exception).
TEST_P(Leak, TenThousandSwapsLeaveNothing) {
  constexpr int kSwaps = 10'000;
  constexpr std::int64_t kGrowthMaxKib = 512;
  const Holdings before = holdings();
  {
    const auto storage = make_storage();
    storage->register_memory(memory_.span());
    swap(*storage, kSwaps / 20);
    const Holdings at_work = holdings();
    const std::int64_t resident_kib = status_field("VmRSS");
    swap(*storage, kSwaps);
    EXPECT_EQ(holdings(), at_work);
    if (!kSanitized) {
      EXPECT_LT(status_field("VmRSS") - resident_kib, kGrowthMaxKib);
    }
  }
  EXPECT_EQ(holdings(), before);
}

// Whatever an engine owns is larger than a page (a ring, a stack), and 200 of them are 800 KiB.
TEST_P(Leak, TwoHundredEnginesLeaveNothing) {
  constexpr int kEngines = 200;
  constexpr std::int64_t kGrowthMaxKib = 512;
  const auto live_and_end = [&](int times) {
    for (int i = 0; i < times; ++i) {
      const auto storage = make_storage();
      storage->register_memory(memory_.span());
      IoGroup group;
      storage->write(0, memory_.span(0, kSwapBytes), group);
      group.wait();
    }
  };
  live_and_end(kEngines / 10);
  const Holdings before = holdings();
  const std::int64_t resident_kib = status_field("VmRSS");
  live_and_end(kEngines);
  EXPECT_EQ(holdings(), before);
  if (!kSanitized) {
    EXPECT_LT(status_field("VmRSS") - resident_kib, kGrowthMaxKib);
  }
}

// The group ends with the exception, and before the memory that its requests lie in.
TEST_P(Leak, AnExceptionInMidFlightDrains) {
  const auto storage = make_storage();
  const Holdings before = holdings();
  const auto fail = [&] {
    AlignedBuffer memory(budget_, "test", kFileBytes);
    std::memset(memory.data(), 7, kFileBytes);
    IoGroup group;
    for (std::int64_t at = 0; at < kFileBytes; at += kSwapBytes) {
      storage->write(at, memory.span(at, kSwapBytes), group);
    }
    throw std::runtime_error("something else");
  };
  EXPECT_THROW(fail(), std::runtime_error);
  EXPECT_EQ(budget_.held_bytes(), kFileBytes);
  EXPECT_EQ(holdings(), before);
  EXPECT_TRUE(file_holds(7));
  swap(*storage, kSwapsAtOnce);
}

TEST_P(Leak, AStorageEndsAfterWhatIsInFlight) {
  const Holdings before = holdings();
  fill(9);
  auto storage = make_storage();
  IoGroup group;
  for (std::int64_t at = 0; at < kFileBytes; at += kSwapBytes) {
    storage->write(at, memory_.span(at, kSwapBytes), group);
  }
  storage.reset();
  EXPECT_FALSE(group.pending());
  EXPECT_EQ(failure_of(group), "");
  EXPECT_EQ(holdings(), before);
  EXPECT_TRUE(file_holds(9));
}

// What an engine has not answered it may still carry out or not, but no longer in memory that is
// given back: the file and whatever comes to lie in that memory are as if it had ended in time.
TEST_P(Leak, AnEngineEndsWithRequestsInFlight) {
  fill(3);
  {
    const auto storage = make_storage();
    IoGroup group;
    storage->write(0, memory_.span(), group);
    group.wait();
  }
  const std::int64_t descriptors = holdings().descriptors;
  for (int round = 0; round < 20; ++round) {
    AlignedBuffer destination(budget_, "test", kQueueDepth * kSwapBytes);
    const auto engine = make_engine();
    for (int i = 0; i < kQueueDepth; ++i) {
      const std::int64_t at = i * kSwapBytes;
      const Engine::Request request{{Operation::read, at, destination.span(at, kSwapBytes)},
                                    static_cast<std::uint64_t>(i)};
      ASSERT_EQ(engine->submit({&request, 1}).accepted, 1u);
    }
  }
  EXPECT_EQ(holdings().descriptors, descriptors);
  EXPECT_EQ(budget_.held_bytes(), kFileBytes);
  EXPECT_TRUE(file_holds(3));
}

INSTANTIATE_TEST_SUITE_P(Engines, Leak,
                         testing::Values(EngineFactory{"uring",
                                                       [](int descriptor) {
                                                         return std::make_unique<UringEngine>(
                                                             descriptor, "leak_test", kQueueDepth,
                                                             std::chrono::milliseconds(1000));
                                                       }},
                                         EngineFactory{"threads",
                                                       [](int descriptor) {
                                                         return std::make_unique<ThreadEngine>(
                                                             descriptor, "leak_test", kQueueDepth);
                                                       }}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::io
